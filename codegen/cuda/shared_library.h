// Opens a library of NVIDIA's at its first use. Rewire links to none, so a binary runs with and without
// them, and a build needs no toolkit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace rewire::codegen::cuda {

/// The places to search for a library: only the file that $`variable` names, if it is set; else each of
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

  /// Returns why the library cannot be used, in one line; empty: it can.
  const std::string& problem() const { return problem_; }
  /// Returns problem(), or nullopt if the library can be used.
  std::optional<std::string> missing() const;
  /// Throws UserError with problem() if the library cannot be used.
  void require() const;
  /// Returns the file that was opened; empty if none was.
  const std::string& path() const { return path_; }

  /// Opens another library of the same folder for good: one that this library opens by its bare name, which
  /// the loader would not find there. Does nothing if there is none.
  void open_beside(const std::string& soname) const;
  /// Finds a function. If the library has none of this name, `function` is null and problem() says so.
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

/// The functions of one library, opened at their first use. `Functions` holds the SharedLibrary as `file` and finds its
/// functions in its constructor.
template <class Functions>
struct Loaded {
  /// Returns the functions, whether the library can be used or not.
  static const Functions& any() {
    static const Functions functions;
    return functions;
  }
  /// Returns the functions. Throws UserError if the library cannot be used.
  static const Functions& usable() {
    any().file.require();
    return any();
  }
};

}  // namespace rewire::codegen::cuda
