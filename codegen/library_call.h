// Calls of libraries that do not survive a failed allocation: oneDNN writes through the null pointer that it
// got, LLVM aborts, and an exception through either may end the process. So they are called with room to
// spare; what fails all the same is answered by the program's new-handler, which must not throw then.
#pragma once

#include <cstddef>

namespace rewire::codegen {

/// What a library takes at a time, by far: oneDNN makes all kernels of a type at once (24 MB of f32), LLVM
/// compiles a kernel in 10 MB.
constexpr std::size_t kGemmHeadroom = std::size_t{32} << 20;
constexpr std::size_t kCompilerHeadroom = std::size_t{16} << 20;
/// What compiling takes less memory with.
constexpr const char* kFewerCompilers = "fewer threads (--set train.threads=N) or a smaller model";

/// While it lives, its thread is in such a library.
class LibraryCall {
 public:
  /// Unless `headroom` bytes can be had (0: nobody asks), std::bad_alloc; or where `less` says what would
  /// take less memory, OutOfMemory with that.
  explicit LibraryCall(std::size_t headroom, const char* less = nullptr);
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  /// Whether the calling thread is in one: a new-handler that is called there ends the process.
  static bool under_way();
  /// What would take less memory, or null.
  static const char* less();

 private:
  const char* const outer_;
};

}  // namespace rewire::codegen
