#include "runtime/exec/make_engine.h"

#include <array>
#include <cstdlib>

#include "codegen/llvm/jit.h"
#include "ir/error.h"
#include "runtime/device/probe.h"

namespace rewire::runtime {
namespace {

std::unique_ptr<Engine> make_jit(const ir::Module& module, int threads) {
  JitEngineOptions options;
  options.threads = threads;
  options.cache_directory = kernel_cache_directory();
  return make_jit_engine(module, options);
}

std::unique_ptr<Engine> make_evaluator(const ir::Module& module, int /*threads*/) {
  return make_evaluator_engine(module);
}

struct EngineRow {
  std::string_view name;
  bool compiles;
  std::unique_ptr<Engine> (*make)(const ir::Module&, int threads);
};
/// Raised when generated code changes so much that old timings mislead.
constexpr int kTimingGeneration = 1;

std::string timing_place() {
  std::string place = fmt::format("{}, generation {}", codegen::host_cpu_description(), kTimingGeneration);
  place += fmt::format(", Rewire {}", REWIRE_VERSION);
  for (const LibraryVersion& library : built_with())
    place += fmt::format(", {} {}", library.name, library.version);
  return place;
}

constexpr std::array<EngineRow, 2> kEngines = {
    {{"jit", true, make_jit}, {"evaluator", false, make_evaluator}}};

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

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const EngineRow& row : kEngines) names.emplace_back(row.name);
  return names;
}

const EngineRow& engine_row(std::string_view name) {
  for (const EngineRow& row : kEngines) {
    if (row.name == name) return row;
  }
  user_error("unknown engine '{}'{}", name, did_you_mean(name, engine_names()));
}

std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module, int threads) {
  return engine_row(name).make(module, threads);
}

Tuner make_tuner(std::string_view engine, const ChoiceOptions& options) {
  const EngineRow& row = engine_row(engine);
  TunerOptions tuner;
  tuner.given = options.given;
  tuner.time = options.autotune && row.compiles;
  tuner.cache_directory = kernel_cache_directory();
  tuner.place = timing_place();
  tuner.make_engine = [&row](const ir::Module& trial) { return row.make(trial, 0); };
  return Tuner(std::move(tuner));
}

}  // namespace rewire::runtime
