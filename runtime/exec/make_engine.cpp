#include "runtime/exec/make_engine.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "codegen/cuda/nvrtc.h"
#include "codegen/library/cublas_lt.h"
#include "codegen/library/cudnn.h"
#include "codegen/llvm/jit.h"
#include "codegen/object_cache.h"
#include "ir/error.h"
#include "ir/passes/mixed_precision.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/log.h"
#include "runtime/exec/benchmark.h"
#include "runtime/exec/cuda/device_trial.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/tune/attention_choices.h"
#include "runtime/exec/tune/convolution_choices.h"
#include "runtime/exec/tune/epilogue_choices.h"
#include "runtime/exec/tune/fourier_choices.h"
#include "runtime/exec/tune/gemm_choices.h"
#include "runtime/exec/tune/product_choices.h"
#include "runtime/exec/tune/tile_choices.h"

namespace rewire::runtime {
namespace {

// The gaps of the memory plan are poisoned and checked with every run.
#if defined(REWIRE_DEBUG_CHECKS)
constexpr bool kCheckMemory = true;
#else
constexpr bool kCheckMemory = false;
#endif

std::unique_ptr<JitEngine> make_jit(const ir::Module& module, int threads, const ChoiceRecord& choices,
                                    const std::vector<KernelOverride>& /*overrides*/) {
  JitEngineOptions options;
  options.threads = threads;
  options.check_memory = kCheckMemory;
  options.cache_directory = usable_kernel_cache();
  options.choices = choices;
  return make_jit_engine(module, options);
}

CompileOptions compiling() {
  return {usable_kernel_cache(), compile_processes()};
}

/// Never released: libraries keep what they loaded into a context while engines come and go, and when the
/// process ends the driver may be gone before us.
void hold_context() {
  static const auto* const context = new cuda::Context(0);
  static_cast<void>(context);
}

std::unique_ptr<JitEngine> make_cuda(const ir::Module& module, int /*threads*/, const ChoiceRecord& choices,
                                     const std::vector<KernelOverride>& overrides) {
  CudaEngineOptions options;
  options.compiling = compiling();
  options.choices = choices;
  options.overrides = overrides;
  options.check_memory = kCheckMemory;
  std::unique_ptr<JitEngine> engine = make_cuda_engine(module, options);
  hold_context();
  return engine;
}

/// By the host's clock, on inputs of its own.
Trial make_jit_trial(const ir::Module& module, const ChoiceRecord& choices) {
  const std::shared_ptr<Engine> engine = make_jit(module, 0, choices, {});
  engine->prepare("trial");
  const auto inputs = std::make_shared<const TensorMap>(
      random_inputs(module.function("trial"), [](std::string_view) { return 0; }));
  return [engine, inputs] {
    const auto start = std::chrono::steady_clock::now();
    engine->run("trial", *inputs);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
}

Trial make_cuda_trial(const ir::Module& module, const ChoiceRecord& choices) {
  return make_device_trial(module, choices, compiling());
}

EngineFacts cpu_facts() {
  return {codegen::host_cpu_description(), built_with(), host_environment()};
}

EngineFacts cuda_facts() {
  require_engine(kCudaEngine);
  int version = 0;
  cuda::driver().version("", &version);
  EngineFacts facts{describe(cuda::device_facts(0)),
                    {{"driver", fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
                     {"NVRTC", codegen::cuda::nvrtc_version()},
                     {"cuBLASLt", codegen::CublasLt::version()}},
                    device_environment()};
  if (!codegen::cudnn_missing()) facts.libraries.push_back({"cuDNN", codegen::Cudnn::version()});
  return facts;
}

void choose_on_device(const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
  require_engine(kCudaEngine);
  hold_context();
  choose_transforms(module, functions, tuner, make_cuda_trial);
  std::optional<DevicePrograms> programs(std::in_place, module, functions, tuner.record());
  const std::vector<codegen::ProductEpilogue> epilogues = programs->epilogues;
  const bool tf32 = ir::allows_tf32(module);
  report_refused(programs->refused_epilogues, tf32, tuner);
  if (choose_epilogues(epilogues, tf32, tuner, make_cuda_trial)) {
    programs.reset();
    programs.emplace(module, functions, tuner.record());
  }
  choose_attention(*programs, compiling(), tuner);
  choose_convolutions(*programs, tuner);
  choose_algorithms(*programs, tuner);
  choose_schedules(*programs, compiling(), tuner);
}

void choose_on_cpu(const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
  // Where our products were measured, the model's answer is the clock's (docs/codegen.md, Matrix products on a CPU).
  if (codegen::prefers_own_products() && !tuner.is_any_given(kProductChoice)) return;
  choose_products(module, functions, usable_kernel_cache(), tuner);
}

struct EngineRow {
  std::string_view name;
  bool on_cpu;
  std::unique_ptr<JitEngine> (*make)(const ir::Module&, int threads, const ChoiceRecord&,
                                     const std::vector<KernelOverride>&);  // null: the evaluator
  EngineFacts (*facts)();
  Trial (*make_trial)(const ir::Module&, const ChoiceRecord&);
  void (*choose_late)(const ir::Module&, const std::vector<std::string>& functions, Tuner&);
};
constexpr std::array<EngineRow, 3> kEngines = {
    {{"jit", true, make_jit, cpu_facts, make_jit_trial, choose_on_cpu},
     {"evaluator", true, nullptr, cpu_facts, nullptr, nullptr},
     {kCudaEngine, false, make_cuda, cuda_facts, make_cuda_trial, choose_on_device}}};

const EngineRow& engine_row(std::string_view name) {
  for (const EngineRow& row : kEngines) {
    if (row.name == name) return row;
  }
  user_error("unknown engine '{}'{}", name, did_you_mean(name, engine_names()));
}

void refuse_overrides_on_cpu(const EngineRow& row, const std::vector<KernelOverride>& overrides) {
  if (row.on_cpu && !overrides.empty())
    user_error("--override-kernel {}: kernels of CUDA C++ are --device cuda's", overrides.front().kernel);
}

/// Raised when generated code changes so much that old timings mislead.
constexpr int kTimingGeneration = 1;

std::string timing_place(std::string_view engine) {
  const EngineFacts facts = engine_facts(engine);
  std::string place =
      fmt::format("{}, generation {}, Rewire {}", facts.target, kTimingGeneration, REWIRE_VERSION);
  for (const LibraryVersion& library : facts.libraries)
    place += fmt::format(", {} {}", library.name, library.version);
  for (const auto& [name, value] : facts.environment) place += fmt::format(", {}={}", name, value);
  return place;
}

}  // namespace

std::string kernel_cache_directory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  // As the XDG base directory specification: a relative path is ignored.
  const std::string cache = variable("XDG_CACHE_HOME");
  if (cache.starts_with('/')) return cache + "/rewire";
  const std::string home = variable("HOME");
  return home.starts_with('/') ? home + "/.cache/rewire" : std::string();
}

std::string usable_kernel_cache() {
  const std::string directory = kernel_cache_directory();
  if (directory.empty()) return directory;
  try {
    const codegen::ObjectCache probe(directory);
    return directory;
  } catch (const UserError& refusal) {
    write_log_once(LogLevel::warning, "kernel cache",
                   fmt::format("{}; nothing is kept, so every start compiles all kernels and no choice "
                               "is timed: set XDG_CACHE_HOME to a folder of yours",
                               refusal.what()));
    return "";
  }
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const EngineRow& row : kEngines) {
    if (row.on_cpu) names.emplace_back(row.name);
  }
  return names;
}

void require_engine(std::string_view name) {
  if (engine_row(name).on_cpu) return;
  if (const std::string problem = cuda_missing(); !problem.empty()) user_error("--device cuda: {}", problem);
}

void require_precision(std::string_view name, const ir::Module& module) {
  const EngineRow& row = engine_row(name);
  if (row.on_cpu && row.make != nullptr && ir::allows_tf32(module))
    user_error("train.tf32 is true: that takes --device cuda, a CPU has no TF32; --set train.tf32=false");
}

std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module, int threads,
                                    const ChoiceRecord& choices,
                                    const std::vector<KernelOverride>& overrides) {
  const EngineRow& row = engine_row(name);
  refuse_overrides_on_cpu(row, overrides);
  require_precision(name, module);
  if (row.make == nullptr) return make_evaluator_engine(module);
  return row.make(module, threads, choices, overrides);
}

std::unique_ptr<JitEngine> make_compiling_engine(std::string_view name, const ir::Module& module, int threads,
                                                 const ChoiceRecord& choices,
                                                 const std::vector<KernelOverride>& overrides) {
  const EngineRow& row = engine_row(name);
  refuse_overrides_on_cpu(row, overrides);
  require_precision(name, module);
  if (row.make == nullptr) user_error("the engine '{}' compiles nothing", name);
  return row.make(module, threads, choices, overrides);
}

EngineFacts engine_facts(std::string_view name) {
  return engine_row(name).facts();
}

Tuner make_tuner(std::string_view engine, const ChoiceOptions& options) {
  const EngineRow& row = engine_row(engine);
  TunerOptions tuner;
  tuner.given = options.given;
  tuner.time = options.autotune && row.make != nullptr;
  tuner.cache_directory = usable_kernel_cache();
  tuner.place = timing_place(engine);
  tuner.make_trial = row.make_trial;
  if (row.choose_late != nullptr) tuner.late_choices = row.choose_late;
  return Tuner(std::move(tuner));
}

}  // namespace rewire::runtime
