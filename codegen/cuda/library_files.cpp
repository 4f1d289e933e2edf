#include "codegen/cuda/library_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <tuple>

namespace rewire::codegen::cuda {

namespace fs = std::filesystem;

const LibraryNames kDriver{
    "the NVIDIA driver", "REWIRE_CUDA_DRIVER", "libcuda.so.1", "libcuda.so.1", "", "", ""};
const LibraryNames kManagement{"NVML", "REWIRE_NVML", "libnvidia-ml.so.1", "libnvidia-ml.so.1", "", "", ""};
const LibraryNames kNvrtc{"NVRTC",
                          "REWIRE_NVRTC",
                          "libnvrtc.so.13",
                          "libnvrtc.so.12",
                          "libnvrtc.so.11.2",
                          "nvidia-cuda-nvrtc",
                          "nvidia-cuda-nvrtc-cu12"};
const LibraryNames kCublasLt{"cuBLASLt",          "REWIRE_CUBLASLT", "libcublasLt.so.13", "libcublasLt.so.12",
                             "libcublasLt.so.11", "nvidia-cublas",   "nvidia-cublas-cu12"};
const LibraryNames kCufft{"cuFFT",          "REWIRE_CUFFT", "libcufft.so.12",   "libcufft.so.11",
                          "libcufft.so.10", "nvidia-cufft", "nvidia-cufft-cu12"};
// The parts that convolutions and attention need: cuDNN's documentation, "Backend libraries".
const LibraryNames kCudnn{
    "cuDNN",
    "REWIRE_CUDNN",
    "libcudnn.so.9",
    "libcudnn.so.9",
    "libcudnn.so.8",
    "nvidia-cudnn-cu13",
    "nvidia-cudnn-cu12",
    {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_heuristic.so.9",
     "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9"}};
const LibraryNames kNccl{"NCCL", "REWIRE_NCCL",      "libnccl.so.2",    "libnccl.so.2",
                         "",     "nvidia-nccl-cu13", "nvidia-nccl-cu12"};

namespace {

struct Folder {
  std::string path;
  bool guessed = false, chosen = false;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (auto entry = fs::directory_iterator(folder, ignored); entry != fs::directory_iterator();
       entry.increment(ignored))
    found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

/// The parts of a list such as $PATH; "" for none.
std::vector<std::string> listed(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ':');) {
    if (part.starts_with('/')) parts.push_back(part);
  }
  return parts;
}

class Folders {
 public:
  Folders() {
    if (const std::string home = variable("CUDA_HOME"); !home.empty()) add_toolkit(home, true);
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) add_environment(variable(name));
    add_own_environment();
    for (const std::string& folder : listed(variable("PATH"))) {
      std::error_code ignored;
      if (!fs::exists(folder + "/python3", ignored)) continue;
      add_environment(fs::path(folder).parent_path());
      break;
    }
    if (const std::string home = variable("HOME"); !home.empty()) add_environment(home + "/.local");
    for (const std::string& folder : listed(variable("LD_LIBRARY_PATH"))) add(folder);
    const std::string root = variable("REWIRE_CUDA_ROOT");
    for (const char* folder :
         {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
      add(root + folder);
    std::vector<fs::path> toolkits = entries(root + "/usr/local");
    std::ranges::reverse(toolkits);
    for (const fs::path& toolkit : toolkits) {
      if (toolkit.filename().string().starts_with("cuda")) add_toolkit(toolkit, false);
    }
  }

  const std::vector<Folder>& list() const { return list_; }

 private:
  void add(const fs::path& path, bool guessed = false, bool chosen = false) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) return;
    const std::string real = fs::canonical(path, ignored).string();
    if (known_.insert(real).second) list_.push_back({path.string(), guessed, chosen});
  }
  void add_toolkit(const fs::path& home, bool chosen) {
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
      add(home / folder, false, chosen);
  }
  void add_packages(const fs::path& packages) {
    for (const fs::path& wheel : entries(packages / "nvidia")) add(wheel / "lib", true);
    add(packages / "torch/lib", true);
  }
  /// A folder with bin/ and lib/ as Python and conda lay it out. Debian has the packages of /usr in /usr/local too.
  void add_environment(const fs::path& prefix) {
    if (prefix.empty() || !prefix.is_absolute()) return;
    if (prefix != "/usr" && prefix != "/") add(prefix / "lib", true);
    for (const fs::path& lib : {prefix / "lib", prefix / "local/lib"}) {
      for (const fs::path& python : entries(lib)) {
        if (!python.filename().string().starts_with("python3")) continue;
        for (const char* packages : {"site-packages", "dist-packages"}) add_packages(python / packages);
      }
    }
  }
  void add_own_environment() {
    std::error_code ignored;
    for (fs::path at = fs::read_symlink("/proc/self/exe", ignored); at.has_relative_path();
         at = at.parent_path()) {
      if (at.filename() == "site-packages" || at.filename() == "dist-packages") add_packages(at);
    }
  }

  std::vector<Folder> list_;
  std::set<std::string> known_;
};

/// Returns {9, 10, 2} of "9.10.2.21"; what is no number ends it.
std::vector<int> numbers_of(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty() && numbers.size() < 3) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) break;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with('.')) break;
    text.remove_prefix(1);
  }
  return numbers;
}

/// Reads the version from the names that a file's links lead to: libcudnn.so.9 -> libcudnn.so.9.10.2.
std::vector<int> version_by_links(fs::path path) {
  constexpr int kMostLinks = 8;
  std::vector<int> best;
  for (int link = 0; link < kMostLinks; ++link) {
    const std::string name = path.filename().string();
    const std::size_t at = name.find(".so.");
    const std::vector<int> numbers =
        at == std::string::npos ? std::vector<int>{} : numbers_of(std::string_view(name).substr(at + 4));
    if (numbers.size() > 1 && numbers.size() > best.size()) best = numbers;
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / next;
  }
  return best;
}

/// Reads the version of a file of site-packages/nvidia/*/lib from its wheel's folder, as
/// nvidia_cudnn_cu12-9.10.2.21.dist-info. Returns false if there is no such folder.
bool read_wheel(LibraryFile& file, const LibraryNames& names) {
  const fs::path wheels = fs::path(file.path).parent_path().parent_path().parent_path();
  if (wheels.filename() != "nvidia") return false;
  for (const int cuda : {13, 12}) {
    std::string stem = cuda == 13 ? names.wheel_13 : names.wheel_12;
    std::ranges::replace(stem, '-', '_');
    stem += '-';
    for (const fs::path& entry : entries(wheels.parent_path())) {
      const std::string name = entry.filename().string();
      if (!name.starts_with(stem) || !name.ends_with(".dist-info")) continue;
      if (file.cuda != 0 && file.cuda != cuda) continue;
      file.version = numbers_of(std::string_view(name).substr(stem.size()));
      file.cuda = cuda;
      return true;
    }
  }
  return false;
}

LibraryFile judged(const Folder& folder, const std::string& soname, const LibraryNames& names, int driver) {
  LibraryFile file{folder.path + "/" + soname, folder.guessed};
  file.chosen = folder.chosen;
  if (names.soname_12 != names.soname_13) file.cuda = soname == names.soname_13 ? 13 : 12;
  if (!read_wheel(file, names)) file.version = version_by_links(file.path);
  std::error_code ignored;
  for (const std::string& part : names.parts) {
    if (!fs::exists(folder.path + "/" + part, ignored)) file.lacks.push_back(part);
  }
  if (soname == names.too_old)
    file.refusal = "too old";
  else if (file.cuda == 13 && driver != 0 && driver < kDriverOf13)
    file.refusal = fmt::format("for CUDA 13, which needs driver {} or newer", kBranchOf13);
  return file;
}

}  // namespace

std::string version_text(const std::vector<int>& version) {
  return fmt::format("{}", fmt::join(version, "."));
}

std::vector<LibraryFile> library_files(const LibraryNames& names, int driver) {
  static const Folders folders;
  std::vector<LibraryFile> files;
  for (const Folder& folder : folders.list()) {
    std::set<std::string> tried;
    for (const std::string& soname : {names.soname_13, names.soname_12, names.too_old}) {
      std::error_code ignored;
      if (!soname.empty() && tried.insert(soname).second && fs::exists(folder.path + "/" + soname, ignored))
        files.push_back(judged(folder, soname, names, driver));
    }
  }
  const bool by_cuda =
      names.soname_12 != names.soname_13;  // else the newest is the best, whatever CUDA it is for
  const auto rank = [by_cuda](const LibraryFile& file) {
    return std::tuple(file.refusal.empty(), -static_cast<int>(file.lacks.size()), file.chosen,
                      by_cuda ? file.cuda : 0, file.version);
  };
  std::ranges::stable_sort(files, std::greater<>(), rank);
  return files;
}

std::string how_to_install(const LibraryNames& names, int driver) {
  const std::string& wheel = driver >= kDriverOf13 ? names.wheel_13 : names.wheel_12;
  const std::string what =
      wheel.empty() ? fmt::format("install the driver, {} or newer", kOldestBranch) : "pip install " + wheel;
  return fmt::format("{}, or set {} to its path", what, names.variable);
}

}  // namespace rewire::codegen::cuda
