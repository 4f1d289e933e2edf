#include "runtime/measure/model_cost.h"

#include <fmt/ranges.h>

#include "ir/ops/work.h"

namespace rewire::runtime {

namespace {

std::string input_text(const ir::Shape& shape) {
  if (shape.size() == 4) return fmt::format("{}x{}x{}", shape[2], shape[3], shape[1]);
  if (shape.size() == 2) return fmt::format("{} tokens", shape[1]);
  return fmt::format("{}", fmt::join(shape.begin() + (shape.empty() ? 0 : 1), shape.end(), "x"));
}

}  // namespace

ModelCost cost_of(const ir::Module& module) {
  const ir::Function& forward = module.function("forward");
  ModelCost cost{input_text(forward.type(forward.arguments.at(0).value).shape), 0,
                 ir::multiply_adds(forward) * 1e-9};
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.is_weight() && parameter.kind == ir::StateKind::weight)
      cost.parameters += parameter.type.elements();
  }
  return cost;
}

}  // namespace rewire::runtime
