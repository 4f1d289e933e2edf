// NVRTC through dlopen; see nvrtc.h. Its few functions are declared here from its documentation.
#include "codegen/cuda/nvrtc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "codegen/cuda/shared_library.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

using Program = void*;
using Status = int;  // 0: success
constexpr Status kInvalidOption = 5, kCompilation = 6;
constexpr int kFirstWithMinimal = 13;  // the oldest version that is known to have --minimal

struct NvrtcFunctions {
  SharedLibrary file{kNvrtc};

  Status (*version)(int*, int*);
  Status (*supported_count)(int*);
  Status (*supported)(int*);
  Status (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  Status (*destroy)(Program*);
  Status (*compile)(Program, int, const char* const*);
  Status (*log_size)(Program, std::size_t*);
  Status (*log)(Program, char*);
  Status (*cubin_size)(Program, std::size_t*);
  Status (*cubin)(Program, char*);
  Status (*ptx_size)(Program, std::size_t*);
  Status (*ptx)(Program, char*);
  const char* (*error)(Status);

  NvrtcFunctions() {
    file.find(version, "nvrtcVersion");
    file.find(supported_count, "nvrtcGetNumSupportedArchs");
    file.find(supported, "nvrtcGetSupportedArchs");
    file.find(create, "nvrtcCreateProgram");
    file.find(destroy, "nvrtcDestroyProgram");
    file.find(compile, "nvrtcCompileProgram");
    file.find(log_size, "nvrtcGetProgramLogSize");
    file.find(log, "nvrtcGetProgramLog");
    file.find(cubin_size, "nvrtcGetCUBINSize");
    file.find(cubin, "nvrtcGetCUBIN");
    file.find(ptx_size, "nvrtcGetPTXSize");
    file.find(ptx, "nvrtcGetPTX");
    file.find(error, "nvrtcGetErrorString");
    if (!file.problem().empty()) return;
    int major = 0, minor = 0;
    version(&major, &minor);
    file.open_beside(fmt::format("libnvrtc-builtins.so.{}.{}", major, minor));
  }
};

using Nvrtc = Loaded<NvrtcFunctions>;

class Compilation {
 public:
  Compilation(const NvrtcFunctions& library, std::string_view text) : library_(library) {
    check(library.create(&program_, std::string(text).c_str(), "rewire.cu", 0, nullptr, nullptr), "create");
  }
  ~Compilation() { library_.destroy(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  /// Returns false if NVRTC refuses the text; log() has the reason.
  bool compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    const Status status = library_.compile(program_, static_cast<int>(pointers.size()), pointers.data());
    if (status == 0 || status == kCompilation) return status == 0;
    if (status == kInvalidOption) internal_error("NVRTC refuses its options:\n{}", log());
    const std::string words = log();
    internal_error("NVRTC cannot compile: {}{}{}", library_.error(status), words.empty() ? "" : ": ",
                   words.substr(0, words.find('\n')));
  }

  std::string log() const { return text(library_.log_size, library_.log); }
  std::string cubin() const { return bytes(library_.cubin_size, library_.cubin); }
  std::string ptx() const { return text(library_.ptx_size, library_.ptx); }

 private:
  void check(Status status, const char* what) const {
    if (status != 0) internal_error("NVRTC cannot {}: {}", what, library_.error(status));
  }

  std::string bytes(Status (*size_of)(Program, std::size_t*), Status (*get)(Program, char*)) const {
    std::size_t size = 0;
    check(size_of(program_, &size), "report a size");
    std::string result(size, '\0');
    check(get(program_, result.data()), "return a result");
    return result;
  }
  std::string text(Status (*size_of)(Program, std::size_t*), Status (*get)(Program, char*)) const {
    std::string result = bytes(size_of, get);
    while (!result.empty() && result.back() == '\0') result.pop_back();
    return result;
  }

  const NvrtcFunctions& library_;
  Program program_ = nullptr;
};

/// The first NVRTC that knows an architecture newer than 9.0: CUDA Toolkit Release Notes.
std::string first_nvrtc(int arch) {
  return arch % 10 == 3 || arch == 121 ? "12.9" : "12.8";
}

int major_version() {
  int major = 0, minor = 0;
  Nvrtc::usable().version(&major, &minor);
  return major;
}

std::vector<std::string> options_for(int arch, bool virtual_only) {
  if (const auto problem = nvrtc_lacks(arch)) throw UserError(*problem);
  std::vector<std::string> options = {
      fmt::format("--gpu-architecture={}_{}", virtual_only ? "compute" : "sm", *nvrtc_arch(arch)),
      "--std=c++17", "--ptxas-options=-v", "--diag-suppress=177"};  // 177: a function that is never called
  // Leaves out the declarations of textures and of CUDA's runtime. They take a third of the compile time of
  // an empty text.
  if (major_version() >= kFirstWithMinimal) options.emplace_back("--minimal");
  return options;
}

/// Returns the number directly before `unit` on a line; 0 if there is none.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  std::size_t digits_end = end;
  while (digits_end > 0 && line[digits_end - 1] == ' ') --digits_end;
  std::size_t begin = digits_end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  std::from_chars(line.data() + begin, line.data() + digits_end, number);
  return number;
}

}  // namespace

std::optional<std::string> nvrtc_missing() {
  return Nvrtc::any().file.missing();
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  Nvrtc::usable().version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::optional<int> nvrtc_arch(int arch) {
  const NvrtcFunctions& library = Nvrtc::usable();
  int count = 0;
  library.supported_count(&count);
  std::vector<int> known(static_cast<std::size_t>(count));
  library.supported(known.data());
  std::optional<int> best;
  for (const int one : known) {
    if (one <= arch && one / 10 == arch / 10 && one > best.value_or(0)) best = one;
  }
  return best;
}

std::optional<std::string> nvrtc_lacks(int arch) {
  if (const auto missing = nvrtc_missing()) return missing;
  if (nvrtc_arch(arch)) return std::nullopt;
  return fmt::format("NVRTC {} in {} does not know sm_{}; install {} or newer: {}", nvrtc_version(),
                     nvrtc_path(), arch, first_nvrtc(arch), how_to_install(kNvrtc, driver_cuda()));
}

std::string cubin_identity(int arch) {
  return fmt::format("NVRTC {}, {}", nvrtc_version(), fmt::join(options_for(arch, false), " "));
}

std::string nvrtc_path() {
  return Nvrtc::usable().file.path();
}

const SharedLibrary& nvrtc_file() {
  return Nvrtc::any().file;
}

Compiled try_compile(std::string_view text, int arch, Output output) {
  const NvrtcFunctions& library = Nvrtc::usable();
  Compilation compilation(library, text);
  Compiled answer;
  answer.accepted = compilation.compile(options_for(arch, output == Output::ptx));
  if (answer.accepted) answer.code = output == Output::ptx ? compilation.ptx() : compilation.cubin();
  answer.log = compilation.log();
  return answer;
}

CudaBinary compile_cubin(std::string_view text, int arch) {
  Compiled answer = try_compile(text, arch);
  if (!answer.accepted) internal_error("NVRTC refuses emitted CUDA C++:\n{}", answer.log);
  return {std::move(answer.code), resources_of(answer.log)};
}

std::string compile_ptx(std::string_view text, int arch) {
  Compiled answer = try_compile(text, arch, Output::ptx);
  if (!answer.accepted) internal_error("NVRTC refuses emitted CUDA C++:\n{}", answer.log);
  return std::move(answer.code);
}

std::vector<KernelResources> resources_of(std::string_view log) {
  std::vector<KernelResources> kernels;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (const std::size_t entry = line.find("entry function '"); entry != std::string_view::npos) {
      const std::string_view rest = line.substr(entry + 16);
      kernels.push_back({std::string(rest.substr(0, rest.find('\''))), 0, 0, 0, 0});
    }
    if (kernels.empty()) continue;
    KernelResources& kernel = kernels.back();
    if (line.find("spill stores") != std::string_view::npos) {
      kernel.stack_bytes = number_before(line, " bytes stack frame");
      kernel.spill_bytes =
          number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    } else if (line.find("Used ") != std::string_view::npos) {
      kernel.registers = number_before(line, " registers");
      kernel.shared_bytes = number_before(line, " bytes smem");
    }
  }
  return kernels;
}

}  // namespace rewire::codegen::cuda
