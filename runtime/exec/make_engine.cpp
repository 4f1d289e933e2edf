#include "runtime/exec/make_engine.h"

#include <array>
#include <cstdlib>

#include "ir/error.h"

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
  std::unique_ptr<Engine> (*make)(const ir::Module&, int threads);
};
constexpr std::array<EngineRow, 2> kEngines = {{{"jit", make_jit}, {"evaluator", make_evaluator}}};

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

std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module, int threads) {
  for (const EngineRow& row : kEngines) {
    if (row.name == name) return row.make(module, threads);
  }
  user_error("unknown engine '{}'{}", name, did_you_mean(name, engine_names()));
}

}  // namespace rewire::runtime
