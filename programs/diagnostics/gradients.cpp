// Norms of the loss's gradient by the weights of each block, and by all weights.
#include "ir/opcodes.h"
#include "programs/diagnostic.h"
#include "programs/programs.h"
#include "programs/sums.h"

namespace rewire::programs {
namespace {

using ir::Value;

/// Adds the gradient's norm over the weights whose names begin with `place`.
void add_gradient(Observation& seen, const std::string& name, const std::string& place) {
  ir::Builder& b = seen.build();
  Value total;
  for (const ir::Argument& gradient : seen.results_of(std::string(kGradientPrefix) + place)) {
    const Value g = seen.wide(gradient.value), squares = sum_all(b, b.mul(g, g));
    total = total ? b.add(total, squares) : squares;
  }
  if (total) seen.add(name, b.unary(ir::Opcode::sqrt, total));
}

}  // namespace

extern const DiagnosticRow kGradients{
    .name = "gradients",
    .doc = "norms of the gradients, by block and of all weights",
    .of_block =
        [](Observation& seen, const Block& block) {
          add_gradient(seen, block.name + ".gradient_norm", block.name + ".");
        },
    .of_network = [](Observation& seen) { add_gradient(seen, "gradient_norm", ""); }};

}  // namespace rewire::programs
