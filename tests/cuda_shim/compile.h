// CUDA text to functions on the host: files of several kernels, through the system's C++ compiler, into
// shared objects that stay in a folder under the hash of their text. A second run compiles nothing. What no
// run has used for long is dropped when the folder has grown large.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda_shim/launch.h"

namespace rewire::cuda_shim {

/// FNV-1a.
std::uint64_t hash_text(std::string_view text, std::uint64_t state = 0xcbf29ce484222325ULL);

struct KernelText {
  std::string symbol, text;  // one `extern "C" __global__ void SYMBOL(pointers)`
};

struct CompileReport {
  int kernels = 0, files = 0, compiled_files = 0;
  double seconds = 0;
};

struct CompileOptions {
  int jobs = 2;
  /// Off: half the time to compile, several times that to run. For kernels that run once on small tensors.
  bool optimise = true;
};

/// That somebody uses a folder of compiled kernels. While one lives, in whichever process, no file is
/// dropped.
class FolderUse {
 public:
  /// Where nobody else uses the folder: drops the files that were used longest ago, as long as all together
  /// have more than `most_bytes`. RuntimeFailure if there is no folder to write in.
  FolderUse(const std::filesystem::path& folder, std::uintmax_t most_bytes);
  ~FolderUse();
  FolderUse(const FolderUse&) = delete;
  FolderUse& operator=(const FolderUse&) = delete;

 private:
  int lock_ = -1;
};

class HostCompiler {
 public:
  /// `prelude` stands before the kernels of every file. The folder is made if it is not there; at most
  /// 512 MiB stay in it from one run to the next.
  HostCompiler(std::filesystem::path folder, std::string_view prelude, const CompileOptions& options = {});
  ~HostCompiler();
  HostCompiler(const HostCompiler&) = delete;
  HostCompiler& operator=(const HostCompiler&) = delete;

  /// Compiles those not known yet: equal symbols must mean equal code. RuntimeFailure with the compiler's
  /// words if it refuses a text.
  void add(std::span<const KernelText> kernels);
  /// InternalError if it was never added.
  const KernelFunction& kernel(std::string_view symbol) const;
  const CompileReport& report() const { return report_; }

 private:
  struct File {
    std::vector<std::string> symbols;
    std::string text;
  };
  std::vector<File> arrange(const std::vector<const KernelText*>& kernels) const;
  std::vector<std::string> command() const;
  std::filesystem::path object_of(const File& file) const;
  void precompile();
  void compile(const File& file, const std::filesystem::path& object) const;
  void run_compiler(const std::vector<std::string>& what, const std::filesystem::path& result,
                    const std::string& name) const;
  void load(const File& file, const std::filesystem::path& object);

  std::filesystem::path folder_;
  FolderUse use_;
  std::string prelude_;
  CompileOptions options_;
  std::uint64_t key_ = 0;  // the compiler's command and device.h with what it includes: part of every hash
  std::filesystem::path precompiled_;  // a header, its object beside it; empty until a kernel is compiled
  std::vector<void*> objects_;
  std::map<std::string, KernelFunction, std::less<>> kernels_;
  CompileReport report_;
};

}  // namespace rewire::cuda_shim
