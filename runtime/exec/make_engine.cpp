#include "runtime/exec/make_engine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "codegen/object_cache.h"
#include "ir/error.h"
#include "ir/passes/mixed_precision.h"
#include "runtime/device/log.h"
#include "runtime/exec/engine_row.h"
#include "runtime/exec/tune/tune_keys.h"
#include "runtime/group/group.h"

namespace rewire::runtime {
namespace {

// True if every run poisons and checks the gaps of the memory plan.
#if defined(REWIRE_DEBUG_CHECKS)
constexpr bool kCheckMemory = true;
#else
constexpr bool kCheckMemory = false;
#endif

const EngineRow* const kEngines[] = {&kJitEngineRow, &kEvaluatorEngineRow, &kCudaEngineRow};

const EngineRow& engine_row(std::string_view name) {
  for (const EngineRow* row : kEngines) {
    if (row->name == name) return *row;
  }
  user_error("unknown engine '{}'{}", name, did_you_mean(name, engine_names()));
}

void refuse_overrides_on_cpu(const EngineRow& row, const EngineSettings& settings) {
  if (row.on_cpu && !settings.overrides.empty())
    user_error("--override-kernel {}: kernels of CUDA C++ need --device cuda",
               settings.overrides.front().kernel);
}

EngineOptions options_of(const EngineSettings& settings) {
  return {settings, usable_kernel_cache(), kCheckMemory};
}

/// Raised when generated code changes so much that old timings mislead.
constexpr int kTimingGeneration = 2;

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
  // As in the XDG base directory specification, a relative path is ignored.
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
                   fmt::format("{}; without a cache every start compiles all kernels and no choice is timed: "
                               "set XDG_CACHE_HOME to a folder of yours",
                               refusal.what()));
    return "";
  }
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const EngineRow* row : kEngines) {
    if (row->on_cpu) names.emplace_back(row->name);
  }
  return names;
}

bool computes_on_host(std::string_view name) {
  return engine_row(name).on_cpu;
}

void choose_device(std::string_view name, std::string_view which) {
  const EngineRow& row = engine_row(name);
  if (row.choose_device == nullptr) return;
  try {
    row.choose_device(which);
  } catch (const UserError& refusal) {
    user_error("--device {}{}{}: {}", name, which.empty() ? "" : ":", which, refusal.what());
  }
}

void require_engine(std::string_view name) {
  const EngineRow& row = engine_row(name);
  if (row.missing == nullptr) return;
  if (const std::string problem = row.missing(); !problem.empty())
    user_error("--device {}: {}", name, problem);
}

void require_precision(std::string_view name, const ir::Module& module) {
  const EngineRow& row = engine_row(name);
  if (row.on_cpu && row.open != nullptr && ir::allows_tf32(module))
    user_error("train.tf32=true needs --device cuda, because a CPU has no TF32; set train.tf32=false");
}

std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module,
                                    const EngineSettings& settings) {
  if (engine_row(name).open != nullptr) return make_compiling_engine(name, module, settings);
  refuse_overrides_on_cpu(engine_row(name), settings);
  return make_evaluator_engine(module);
}

std::unique_ptr<JitEngine> make_compiling_engine(std::string_view name, const ir::Module& module,
                                                 const EngineSettings& settings) {
  const EngineRow& row = engine_row(name);
  refuse_overrides_on_cpu(row, settings);
  require_precision(name, module);
  if (row.open == nullptr) user_error("the engine '{}' compiles nothing", name);
  return row.open(module, options_of(settings));
}

void share_devices(std::string_view name, Group& group) {
  const EngineRow& row = engine_row(name);
  if (group.size() > 1 && row.share_devices != nullptr) row.share_devices(group);
}

EngineFacts engine_facts(std::string_view name) {
  return engine_row(name).facts();
}

Tuner make_tuner(std::string_view engine, const ChoiceOptions& options) {
  const EngineRow& row = engine_row(engine);
  TunerOptions tuner;
  tuner.given = options.given;
  tuner.time = options.autotune && row.open != nullptr;
  tuner.cache_directory = usable_kernel_cache();
  tuner.place = timing_place(engine) + tune_text(options.given);
  if (row.make_trial != nullptr) {
    tuner.make_trial = [&row](const ir::Module& module, const ChoiceRecord& choices) {
      return row.make_trial(module, options_of({.choices = choices}));
    };
  }
  if (row.choose_late != nullptr) {
    tuner.late_choices = [&row](const ir::Module& module, const std::vector<std::string>& functions,
                                Tuner& asks) { row.choose_late(module, functions, options_of({}), asks); };
  }
  return Tuner(std::move(tuner));
}

}  // namespace rewire::runtime
