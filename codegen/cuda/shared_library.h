// A library of NVIDIA's, opened when it is first asked for: nothing of ours links to one, so a binary runs
// with and without them, and a build needs no toolkit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace rewire::codegen::cuda {

/// Where a library is looked for: the file that $`variable` names and no other, if it is set; else each of
/// `sonames` where the loader looks, then in lib64 and lib of $CUDA_HOME and of /usr/local/cuda*, the newest
/// toolkit first.
struct LibraryNames {
  std::string name;      // for messages: "cuBLASLt (libcublasLt.so, part of the CUDA toolkit 12 or newer)"
  std::string variable;  // "REWIRE_CUBLASLT"
  std::vector<std::string> sonames;
};

class SharedLibrary {
 public:
  explicit SharedLibrary(const LibraryNames& names);

  /// Why it cannot be used, in one line; empty: it can.
  const std::string& problem() const { return problem_; }
  /// The same: nullopt if it can be used.
  std::optional<std::string> missing() const;
  /// UserError with that line.
  void require() const;
  /// The file that was opened; empty if none was.
  const std::string& path() const { return path_; }

  /// Opens another library of the same folder for good: one that this library opens by its bare name, which
  /// the loader would not find there. Nothing happens if there is none.
  void open_beside(const std::string& soname) const;
  /// Finds a function. Where the library has none of this name, `function` is null and problem() says so.
  template <class Function>
  void find(Function*& function, const char* symbol) {
    static_assert(std::is_function_v<Function>);
    function = reinterpret_cast<Function*>(address(symbol));
  }

 private:
  struct Close {
    void operator()(void* handle) const;
  };

  void* address(const char* symbol);

  std::string name_, problem_, path_;
  std::unique_ptr<void, Close> handle_;
};

}  // namespace rewire::codegen::cuda
