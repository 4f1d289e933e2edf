// Opens a library of NVIDIA's at its first use. Rewire links to none, so a binary runs with and without
// them, and a build needs no toolkit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "codegen/cuda/library_files.h"

namespace rewire::codegen::cuda {

/// Returns the newest CUDA that the driver runs, 12020 for 12.2; 0 if there is no driver.
int driver_cuda();

class SharedLibrary {
 public:
  /// Opens the file that $`names.variable` names, if it is set; else the best of library_files() that can be opened;
  /// else, if none was found, what the loader finds by the library's names. The loader alone finds the driver and NVML,
  /// unless $REWIRE_CUDA_ROOT says where to search.
  explicit SharedLibrary(const LibraryNames& names);

  /// Returns why the library cannot be used, in one line; empty: it can.
  const std::string& problem() const { return problem_; }
  /// Returns problem(), or nullopt if the library can be used.
  std::optional<std::string> missing() const;
  /// Throws UserError with problem() if the library cannot be used.
  void require() const;
  /// Returns the file that was opened; empty if none was.
  const std::string& path() const { return path_; }
  /// Returns the parts that are not beside the file that was opened.
  const std::vector<std::string>& lacks() const { return lacks_; }
  /// Returns the other files that were found, as "/opt/lib/libcudnn.so.9 (9.1.0)".
  const std::vector<std::string>& others() const { return others_; }
  /// Makes the library unusable, unless it is already. `why`: a line.
  void refuse(const std::string& why);

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

  void open_named(const std::string& variable, const std::string& chosen);
  void open_found(const LibraryNames& names);
  void* address(const char* symbol);

  std::string name_, problem_, path_;
  std::vector<std::string> lacks_, others_;
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
