// The mean cosine between two different tokens of a block.
#include "ir/opcodes.h"
#include "programs/diagnostic.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::Value;

/// With unit vectors u, the mean cosine is (|sum u|^2 - sum |u|^2) / (n (n - 1)).
void add_similarity(Observation& seen, const Block& block) {
  const Value tokens = seen.image_tokens(block);
  if (!tokens) return;
  Builder& b = seen.build();
  const auto square = [&](Value x) { return b.mul(x, x); };
  const auto count = static_cast<double>(b.shape(tokens)[1]);
  const Value length = b.unary(ir::Opcode::sqrt, b.sum(square(tokens), {2}));
  const Value unit = quotient(b, tokens, b.broadcast(length, b.shape(tokens)));
  const Value of_sum = b.sum(square(b.sum(unit, {1})), {2});
  const Value own = b.sum(b.sum(square(unit), {2}), {1});
  seen.add_mean(block.name + ".similarity", b.div(b.sub(of_sum, own), count * (count - 1)));
}

}  // namespace

extern const DiagnosticRow kSimilarity{.name = "similarity",
                                       .doc = "the mean cosine between two tokens of each block",
                                       .of_block = add_similarity};

}  // namespace rewire::programs
