// The processes of one run: what they exchange, and how all of them end. docs/design/processes.md says why.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace rewire::runtime {

/// A set of processes that call the same functions in the same order. All functions but abort() are for one thread of the
/// process.
class Group {
 public:
  /// Names a sum that has been started.
  using Ticket = std::uint64_t;

  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Returns this process's number, from 0 to size() - 1.
  int rank() const { return rank_; }
  /// Returns the number of processes, a power of two.
  int size() const { return size_; }

  /// Begins to replace the numbers by their sums over all ranks, and returns at once. Ranks are added as the leaves of a
  /// binary tree, neighbours first. All ranks pass as many numbers. They may be neither read nor written before wait().
  virtual Ticket start_sum(std::span<float> numbers) = 0;
  /// Returns when the sum is done. If it cannot be, all processes end.
  virtual void wait(Ticket ticket) = 0;

  /// Replaces the bytes of every rank by those of rank `from`. All ranks pass as many.
  virtual void broadcast(std::span<std::byte> bytes, int from = 0) = 0;
  /// Puts each rank's bytes into `all`, in the order of ranks. All ranks pass as many; `all` is size() times as large.
  virtual void gather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  /// Returns when all ranks have called it.
  virtual void barrier() = 0;

  /// Ends the use of the group in an orderly way; nothing else may be called after it. All ranks call it. A group that is
  /// destroyed without it ends all processes.
  virtual void finish() = 0;
  /// Ends all processes with this exit status. Prints one line that names this rank, its host and the reason.
  [[noreturn]] virtual void abort(const std::string& reason, int status = 1) = 0;

 protected:
  Group(int rank, int size) : rank_(rank), size_(size) {}
  int rank_, size_;
};

/// A rank that is silent for so long ends the run; $REWIRE_MPI_TIMEOUT is another number of seconds.
inline constexpr std::chrono::seconds kLongestSilence{20};

/// Returns how long an exchange between GPUs may take once all ranks have begun it: 120 s, or $REWIRE_NCCL_TIMEOUT seconds.
std::chrono::seconds longest_exchange();

/// Returns the group of this process: of the ranks that mpirun or srun has started, or of this process alone. Throws
/// UserError if there are several, but MPI is missing or another one than the launcher's. If their number is not a
/// power of two, all processes end with a line that says so.
std::unique_ptr<Group> make_group();

/// Returns the version of the MPI library that make_group would use, as "Open MPI 4.1.4", or why there is none.
std::string mpi_version();

}  // namespace rewire::runtime
