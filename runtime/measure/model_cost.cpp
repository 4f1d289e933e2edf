#include "runtime/measure/model_cost.h"

#include <fmt/format.h>

#include "ir/ops/work.h"

namespace rewire::runtime {

ModelCost cost_of(const ir::Module& module) {
  const ir::Function& forward = module.function("forward");
  const ir::Shape& image = forward.type(forward.arguments.at(0).value).shape;
  ModelCost cost{fmt::format("{}x{}x{}", image.at(2), image.at(3), image.at(1)), 0,
                 ir::multiply_adds(forward) * 1e-9};
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.is_weight() && parameter.kind == ir::StateKind::weight)
      cost.parameters += parameter.type.elements();
  }
  return cost;
}

}  // namespace rewire::runtime
