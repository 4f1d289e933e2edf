#include "runtime/exec/make_engine.h"

#include <array>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

struct EngineRow {
  std::string_view name;
  std::unique_ptr<Engine> (*make)(const ir::Module&);
};
constexpr std::array<EngineRow, 1> kEngines = {{{"evaluator", make_evaluator_engine}}};

}  // namespace

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const EngineRow& row : kEngines) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module) {
  for (const EngineRow& row : kEngines) {
    if (row.name == name) return row.make(module);
  }
  user_error("unknown engine '{}'{}", name, did_you_mean(name, engine_names()));
}

}  // namespace rewire::runtime
