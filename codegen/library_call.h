// Guards calls of libraries that do not survive a failed allocation: oneDNN writes through the null pointer,
// LLVM aborts, and an exception through either may end the process. So free memory is checked before a call.
// If an allocation fails all the same, the program's new-handler runs, which must not throw then.
#pragma once

#include <cstddef>

namespace rewire::codegen {

/// Generous bounds on what a library allocates at a time: oneDNN makes all kernels of a type at once (24 MB
/// of f32), LLVM compiles a kernel in 10 MB.
constexpr std::size_t kGemmHeadroom = std::size_t{32} << 20;
constexpr std::size_t kCompilerHeadroom = std::size_t{16} << 20;
/// Advice for messages: compilation takes less memory with these.
constexpr const char* kFewerCompilers = "fewer threads (--set train.threads=N) or a smaller model";

/// Marks its thread as inside such a library while it lives.
class LibraryCall {
 public:
  /// Throws std::bad_alloc unless `headroom` bytes are free (0: not checked). With `less`, the advice on
  /// what takes less memory, it throws OutOfMemory instead.
  explicit LibraryCall(std::size_t headroom, const char* less = nullptr);
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  /// Returns whether the calling thread is in such a call; a new-handler called there ends the process.
  static bool under_way();
  /// Returns the advice of the current call, or null.
  static const char* less();

 private:
  const char* const outer_;
};

}  // namespace rewire::codegen
