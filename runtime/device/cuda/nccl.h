// NCCL, which moves data between GPUs. It is opened at its first use. The functions are declared here from its
// documentation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/device/cuda/device.h"

namespace rewire::runtime::cuda {

/// Returns in one line why NCCL cannot be used; nullopt: it can.
std::optional<std::string> nccl_missing();
/// Returns the file of the library.
const codegen::cuda::SharedLibrary& nccl_file();
/// Returns "2.27.3". Throws UserError with the line of nccl_missing().
std::string nccl_version();

/// The GPUs of several processes, one each, as one of them sees them. Every failure throws RuntimeFailure with NCCL's
/// words.
class Communicator {
 public:
  /// The name of a set of processes. One of them makes it; all others have to be given the same bytes.
  using Id = std::array<std::byte, 128>;
  static Id new_id();

  /// Joins the others on the context's device. Returns when all `size` processes have called it.
  Communicator(const Id& id, int rank, int size);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// A part of memory that is sent, and one that is received, in f32 numbers.
  struct Exchange {
    Address out, in;
    std::int64_t numbers_out, numbers_in;
  };
  /// Exchanges parts with a partner that calls it with as many, whose sizes are these the other way round. The stream
  /// does it in its order.
  void exchange(std::span<const Exchange> parts, int partner, const Stream& stream) const;

  /// Returns NCCL's words if an exchange failed after it was begun, as when a connection is lost: it never ends then. Any
  /// thread may call it.
  std::optional<std::string> failure() const;

 private:
  void* handle_ = nullptr;
};

}  // namespace rewire::runtime::cuda
