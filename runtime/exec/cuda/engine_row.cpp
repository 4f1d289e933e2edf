// The row of the engine on an NVIDIA GPU.
#include "runtime/exec/engine_row.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/nvrtc.h"
#include "codegen/library/cublas_lt.h"
#include "codegen/library/cudnn.h"
#include "ir/passes/mixed_precision.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/machine.h"
#include "runtime/device/log.h"
#include "runtime/exec/cuda/device_trial.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/cuda/tf32_notice.h"
#include "runtime/exec/cuda/tune/attention_choices.h"
#include "runtime/exec/cuda/tune/convolution_choices.h"
#include "runtime/exec/cuda/tune/epilogue_choices.h"
#include "runtime/exec/cuda/tune/fourier_choices.h"
#include "runtime/exec/cuda/tune/gemm_choices.h"
#include "runtime/exec/cuda/tune/tile_choices.h"
#include "runtime/exec/make_engine.h"
#include "runtime/group/agreement.h"

namespace rewire::runtime {
namespace {

CompileOptions compiling(const EngineOptions& options) {
  return {options.cache_directory, compile_processes()};
}

/// Holds a context that is never released. Libraries keep what they loaded into a context while engines come
/// and go. When the process ends, the driver may be unloaded before our destructors run.
void hold_context() {
  static const auto* const context = new cuda::Context();
  static_cast<void>(context);
}

std::unique_ptr<JitEngine> open_cuda(const ir::Module& module, const EngineOptions& options) {
  CudaEngineOptions cuda;
  cuda.compiling = compiling(options);
  cuda.choices = options.choices;
  cuda.overrides = options.overrides;
  cuda.others = options.others;
  cuda.check_memory = options.check_memory;
  std::unique_ptr<JitEngine> engine = make_cuda_engine(module, cuda);
  hold_context();
  return engine;
}

Trial make_cuda_trial(const ir::Module& module, const EngineOptions& options) {
  return make_device_trial(module, options.choices, compiling(options));
}

EngineFacts cuda_facts() {
  require_engine(kCudaEngine);
  int version = 0;
  cuda::driver().version("", &version);
  EngineFacts facts{describe(cuda::device_facts(cuda::own_device())),
                    {{"driver", fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
                     {"NVRTC", codegen::cuda::nvrtc_version()},
                     {"cuBLASLt", codegen::CublasLt::version()}},
                    device_environment()};
  if (!codegen::cudnn_missing()) facts.libraries.push_back({"cuDNN", codegen::Cudnn::version()});
  return facts;
}

void choose_on_device(const ir::Module& module, const std::vector<std::string>& functions,
                      const EngineOptions& options, Tuner& tuner) {
  require_engine(kCudaEngine);
  hold_context();
  const MakeTrial make_trial = [&](const ir::Module& trial, const ChoiceRecord& choices) {
    return make_device_trial(trial, choices, compiling(options));
  };
  choose_transforms(module, functions, tuner, make_trial);
  std::optional<DevicePrograms> programs(std::in_place, module, functions, tuner.record());
  const std::vector<codegen::ProductEpilogue> epilogues = programs->epilogues;
  const bool tf32 = ir::allows_tf32(module);
  report_refused(programs->refused_epilogues, tf32, tuner);
  if (choose_epilogues(epilogues, tf32, tuner, make_trial)) {
    programs.reset();
    programs.emplace(module, functions, tuner.record());
  }
  if (const std::string notice = idle_tensor_cores(programs->programs, tf32); !notice.empty())
    write_log_once(LogLevel::info, "tf32", notice);
  choose_attention(*programs, compiling(options), tuner);
  choose_convolutions(*programs, tuner);
  choose_algorithms(*programs, tuner);
  choose_schedules(*programs, compiling(options), tuner);
}

}  // namespace

/// A rank's host and GPUs, as it tells the others.
struct RankDevices {
  std::array<char, 256> host{};
  std::array<char, 64>
      first{};  // what names the first device: all that it sees of one GPU each may be different
  int count = 0;
};

void choose_device_of_process(std::string_view which) {
  cuda::set_own_device(which.empty() ? 0 : cuda::device_named(which));
}

/// Gives the ranks of a host its devices in turn, or each the one device that its launcher lets it see.
void share_devices(Group& group) {
  require_engine(kCudaEngine);
  RankDevices own;
  ::gethostname(own.host.data(), own.host.size() - 1);
  own.count = cuda::device_count();
  const std::string uuid = cuda::device_facts(0).uuid;
  std::copy_n(uuid.begin(), std::min(uuid.size(), own.first.size() - 1), own.first.begin());
  const std::vector<RankDevices> all = gathered(group, own);
  int here = 0, number = 0;  // the ranks that see the same devices, and this one's place among them
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == group.rank()) number = here;
    if (all[rank].host == own.host && all[rank].first == own.first) ++here;
  }
  if (own.count < here)
    user_error("--device cuda: {} ranks run on {}, which has {} GPU{} for them: each rank needs one", here,
               own.host.data(), own.count, own.count == 1 ? "" : "s");
  cuda::set_own_device(number);
}

const EngineRow kCudaEngineRow{.name = kCudaEngine,
                               .on_cpu = false,
                               .missing = cuda_missing,
                               .open = open_cuda,
                               .facts = cuda_facts,
                               .choose_device = choose_device_of_process,
                               .share_devices = share_devices,
                               .make_trial = make_cuda_trial,
                               .choose_late = choose_on_device};

}  // namespace rewire::runtime
