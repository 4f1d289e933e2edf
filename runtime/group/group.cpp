#include "runtime/group/group.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "ir/error.h"
#include "runtime/group/agreement.h"
#include "runtime/group/mpi_group.h"
#include "runtime/group/mpi_library.h"

namespace rewire::runtime {
namespace {

/// A process by itself: its numbers are the sums.
class SelfGroup : public Group {
 public:
  SelfGroup() : Group(0, 1) {}
  Ticket start_sum(std::span<float>) override { return 0; }
  void wait(Ticket) override {}
  void broadcast(std::span<std::byte>) override {}
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    if (all.size() != own.size())
      internal_error("a gather of {} bytes of 1 rank into {}", own.size(), all.size());
    std::ranges::copy(own, all.begin());
  }
  void barrier() override {}
  void finish() override {}
  [[noreturn]] void abort(const std::string& reason, int) override { throw RuntimeFailure(reason); }
};

/// Returns the number that the launcher has put into the environment; 1 without one.
int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  const int number = text == nullptr ? 1 : std::atoi(text);
  return std::max(number, 1);
}

}  // namespace

std::unique_ptr<Group> make_group(std::chrono::seconds longest_silence) {
  // Open MPI's mpirun, and srun with its PMIx.
  const bool has_pmix = std::getenv("PMIX_RANK") != nullptr;
  if (number_in("OMPI_COMM_WORLD_SIZE") > 1 || (has_pmix && number_in("SLURM_NTASKS") > 1))
    return make_mpi_group(longest_silence);
  if (number_in("PMI_SIZE") > 1)
    user_error("this process is one of {} that MPICH's launcher has started; start them by Open MPI's mpirun",
               number_in("PMI_SIZE"));
  return std::make_unique<SelfGroup>();
}

Group& alone() {
  static SelfGroup group;
  return group;
}

std::string mpi_version() {
  try {
    std::array<char, 8192> version{};  // more than MPI_MAX_LIBRARY_VERSION_STRING of any version
    int length = 0;
    mpi_library().get_library_version(version.data(), &length);
    std::string_view text(version.data());
    text = text.substr(0, text.find(','));
    if (text.starts_with("Open MPI v")) return "Open MPI " + std::string(text.substr(10));
    return std::string(text);
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace rewire::runtime
