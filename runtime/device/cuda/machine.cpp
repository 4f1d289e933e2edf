#include "runtime/device/cuda/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "codegen/cuda/nvrtc.h"
#include "codegen/library/cublas_lt.h"
#include "codegen/library/cublas_lt_functions.h"
#include "codegen/library/cudnn_functions.h"
#include "codegen/library/cufft.h"
#include "codegen/library/cufft_functions.h"
#include "ir/error.h"
#include "ir/ops/fourier.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/management.h"
#include "runtime/device/cuda/nccl.h"

namespace rewire::runtime {
namespace {

constexpr int kOldestArch = 80;  // the oldest with machine instructions for bf16
constexpr std::int64_t kLeastMemory = std::int64_t{1}
                                      << 30;  // bytes: a context and its libraries take half of it

double gibibytes_of(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string too_old(const cuda::DeviceFacts& facts) {
  if (facts.arch >= kOldestArch) return "";
  return fmt::format("{} has compute capability {}.{}; kernels are made for 8.0 and newer", facts.name,
                     facts.arch / 10, facts.arch % 10);
}

/// Returns why the driver does not run a library that was made for CUDA `major`, as one that a variable names may be; "":
/// it does.
std::string too_new(const codegen::cuda::LibraryNames& names, const std::string& version,
                    const std::string& path) {
  const int driver = codegen::cuda::driver_cuda();
  if (driver == 0 || driver >= codegen::cuda::kDriverOf13 || std::stoi(version) < 13) return "";
  return fmt::format("{} {} in {} needs driver {} or newer; {}", names.name, version, path,
                     codegen::cuda::kBranchOf13, codegen::cuda::how_to_install(names, driver));
}
std::string nvrtc_too_new() {
  return too_new(codegen::cuda::kNvrtc, codegen::cuda::nvrtc_version(), codegen::cuda::nvrtc_path());
}
std::string blas_too_new() {
  return too_new(codegen::cuda::kCublasLt, codegen::CublasLt::version(),
                 codegen::cublas::Library::usable().file.path());
}

/// Returns why the driver runs no library that Rewire takes; "": it does.
std::string old_driver() {
  const int version = codegen::cuda::driver_cuda();
  if (version >= codegen::cuda::kOldestDriver) return "";
  return fmt::format("the NVIDIA driver is for CUDA {}, and Rewire needs CUDA 12; install driver {} or newer",
                     cuda_text(version), codegen::cuda::kOldestBranch);
}

/// Makes a part unusable, unless there is no reason.
void refuse(CudaPart& part, std::string why) {
  if (why.empty()) return;
  part.verdict = CudaVerdict::unusable;
  part.why = std::move(why);
}

CudaPart driver_part() {
  CudaPart part{"driver", ""};
  if (const int version = codegen::cuda::driver_cuda(); version != 0) {
    const auto release = cuda::driver_release();
    part.found = fmt::format("{}{}for CUDA {}", release.value_or(""), release ? " " : "", cuda_text(version));
    if (version >= codegen::cuda::kOldestDriver && version < codegen::cuda::kDriverOf13)
      part.note = fmt::format("runs libraries of CUDA 12; those of CUDA 13 need driver {} or newer",
                              codegen::cuda::kBranchOf13);
  }
  std::string why = cuda::driver_missing().value_or("");
  if (why.empty()) why = old_driver();
  if (why.empty() && cuda::device_count() == 0) why = cuda::no_device();
  refuse(part, std::move(why));
  return part;
}

CudaPart device_part(int ordinal, const std::vector<cuda::DeviceFacts>& all) {
  const cuda::DeviceFacts& facts = all[static_cast<std::size_t>(ordinal)];
  CudaPart part{fmt::format("device {}", ordinal),
                fmt::format("{}, sm_{}, {} multiprocessors, {:.1f} GiB", facts.name, facts.arch,
                            facts.multiprocessors, gibibytes_of(facts.memory_bytes)),
                facts.uuid};
  part.why = too_old(facts);
  const auto free = cuda::free_memory(facts.uuid);
  if (free) part.note = fmt::format("{:.1f} GiB free, {}", gibibytes_of(*free), facts.uuid);
  if (part.why.empty() && free && *free < kLeastMemory) {
    part.why = "too little memory is free; end the programs that hold it (nvidia-smi lists them)";
    if (all.size() > 1)
      part.why += fmt::format(", or name another, as --device cuda:{}", ordinal == 0 ? 1 : 0);
  }
  if (!part.why.empty()) part.verdict = CudaVerdict::unusable;
  return part;
}

/// Tells of a library that was opened, or was not. `without`: what the lack of it costs.
CudaPart library_part(const codegen::cuda::LibraryNames& names, const codegen::cuda::SharedLibrary& file,
                      const std::function<std::string()>& version, CudaVerdict verdict_without,
                      const std::string& without) {
  CudaPart part{names.name, ""};
  if (!file.problem().empty()) {
    part.verdict = verdict_without;
    part.why = file.problem() + without;
    return part;
  }
  part.found = fmt::format("{} in {}", version(), file.path());
  if (!file.others().empty())
    part.note = fmt::format("not taken: {}", fmt::join(file.others(), "; not taken: "));
  if (!file.lacks().empty()) {
    part.verdict = CudaVerdict::slow;
    part.why = fmt::format("{} {} not beside it, so it has fewer ways to compute; {}",
                           fmt::join(file.lacks(), ", "), file.lacks().size() == 1 ? "is" : "are",
                           codegen::cuda::how_to_install(names, codegen::cuda::driver_cuda()));
  }
  return part;
}

CudaPart nvrtc_part(const std::vector<cuda::DeviceFacts>& devices) {
  CudaPart part = library_part(codegen::cuda::kNvrtc, codegen::cuda::nvrtc_file(),
                               codegen::cuda::nvrtc_version, CudaVerdict::unusable, "");
  if (part.verdict == CudaVerdict::usable) refuse(part, nvrtc_too_new());
  for (const cuda::DeviceFacts& facts : devices) {
    if (part.verdict != CudaVerdict::usable || !too_old(facts).empty()) break;
    if (const auto lack = codegen::cuda::nvrtc_lacks(facts.arch)) {
      refuse(part, *lack);
    } else if (const int arch = codegen::cuda::nvrtc_arch(facts.arch).value_or(0); arch != facts.arch) {
      part.note = fmt::format("compiles for sm_{} what sm_{} runs{}{}", arch, facts.arch,
                              part.note.empty() ? "" : "; ", part.note);
    }
  }
  return part;
}

std::vector<CudaPart> library_parts(const std::vector<cuda::DeviceFacts>& devices) {
  using enum CudaVerdict;
  namespace codes = codegen;
  std::vector<CudaPart> parts = {nvrtc_part(devices)};
  parts.push_back(library_part(codes::cuda::kCublasLt, codes::cublas::Library::any().file,
                               codes::CublasLt::version, unusable, ""));
  if (parts.back().verdict == usable) refuse(parts.back(), blas_too_new());
  parts.push_back(
      library_part(codes::cuda::kCufft, codes::cufft::Library::any().file, codes::cufft_version, slow,
                   fmt::format("; Fourier transforms of more than {} points run on one thread of the host",
                               ir::kLongestFourierProduct)));
  parts.push_back(library_part(
      codes::cuda::kCudnn, codes::cudnn::Library::any().file,
      [] { return codes::cudnn::version_text(codes::cudnn::Library::usable().version()); }, unusable,
      "; networks without convolutions do without it"));
  parts.push_back(library_part(codes::cuda::kNccl, cuda::nccl_file(), cuda::nccl_version, slow,
                               "; gradients of several processes travel through the hosts"));
  return parts;
}

std::string summary_of(const CudaFacts& facts) {
  if (!facts.missing.empty()) return "--device cuda is not usable: " + facts.missing;
  const auto unusable = [&](std::string_view name) {
    return std::ranges::any_of(facts.parts, [&](const CudaPart& part) {
      return part.name == name && part.verdict == CudaVerdict::unusable;
    });
  };
  if (unusable("device 0")) return "--device cuda takes device 0, which has too little free memory";
  return fmt::format("--device cuda is usable{}, on device 0: {}",
                     unusable("cuDNN") ? ", but for networks with convolutions" : "", facts.device);
}

}  // namespace

std::string_view verdict_name(CudaVerdict verdict) {
  switch (verdict) {
    case CudaVerdict::usable:
      return "usable";
    case CudaVerdict::slow:
      return "slow";
    case CudaVerdict::unusable:
      return "not usable";
  }
  return "";
}

std::string cuda_missing() {
  if (const auto problem = cuda::driver_missing()) return *problem;
  if (std::string problem = old_driver(); !problem.empty()) return problem;
  if (cuda::device_count() == 0) return cuda::no_device();
  const cuda::DeviceFacts facts = cuda::device_facts(cuda::own_device());
  if (std::string problem = too_old(facts); !problem.empty()) return problem;
  if (const auto problem = codegen::cuda::nvrtc_lacks(facts.arch)) return *problem;
  if (const auto problem = codegen::cublas_lt_missing()) return *problem;
  if (std::string problem = nvrtc_too_new(); !problem.empty()) return problem;
  return blas_too_new();
}

CudaFacts probe_cuda() {
  CudaFacts facts;
  try {
    facts.missing = cuda_missing();
    facts.parts = {driver_part()};
    std::vector<cuda::DeviceFacts> devices;
    const int count = cuda::driver_missing() ? 0 : cuda::device_count();
    for (int ordinal = 0; ordinal < count; ++ordinal) devices.push_back(cuda::device_facts(ordinal));
    for (std::size_t ordinal = 0; ordinal < devices.size(); ++ordinal)
      facts.parts.push_back(device_part(static_cast<int>(ordinal), devices));
    if (!devices.empty()) facts.device = cuda::describe(devices.front());
    for (CudaPart& part : library_parts(devices)) facts.parts.push_back(std::move(part));
  } catch (const RuntimeFailure& failure) {  // a call of the driver's
    facts.missing = failure.what();
  }
  facts.summary = summary_of(facts);
  return facts;
}

}  // namespace rewire::runtime
