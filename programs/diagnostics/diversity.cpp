// The distance of a block's tokens from their mean (Tang et al., 2021): r(Z) = |Z - 1 z^T|, with
// |M| = sqrt(|M|_1 |M|_inf).
#include "ir/opcodes.h"
#include "programs/diagnostic.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

/// Returns sqrt(|M|_1 |M|_inf) of each sample's matrix [tokens, width], as [batch, 1, 1].
Value composite_norm(Builder& b, Value matrices) {
  const Value sizes = b.unary(Opcode::abs, matrices);
  const Value column = b.max(b.sum(sizes, {1}), {2}), row = b.max(b.sum(sizes, {2}), {1});
  return b.unary(Opcode::sqrt, b.mul(column, row));
}

void add_diversity(Observation& seen, const Block& block) {
  const Value tokens = seen.image_tokens(block);
  if (!tokens) return;
  Builder& b = seen.build();
  const Value distance = composite_norm(b, b.sub(tokens, b.mean(tokens, {1})));
  seen.add_mean(block.name + ".diversity", distance);
  seen.add_mean(block.name + ".relative_diversity", quotient(b, distance, composite_norm(b, tokens)));
}

}  // namespace

extern const DiagnosticRow kDiversity{
    .name = "diversity", .doc = "how far each block's tokens are from their mean", .of_block = add_diversity};

}  // namespace rewire::programs
