// The entropy of a block's attention: the mean of -sum p ln p of a row over heads, queries and samples.
#include "ir/opcodes.h"
#include "ir/ops/attention.h"
#include "programs/diagnostic.h"
#include "programs/sums.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

/// Returns the entropy of a map's rows as ln Z - sum of e s / Z. s are the logits minus their maximum,
/// e = exp s, and Z is the sum of e. This form takes no logarithm of a probability, which may be 0.
Value row_entropy(Builder& b, const ir::Op& attention) {
  const Value logits = ir::emit_attention_logits(b, attention);
  const Value shifted = b.sub(logits, b.max(logits, {3}));
  const Value sizes = b.unary(Opcode::exp, shifted), total = b.sum(sizes, {3});
  return b.sub(b.unary(Opcode::log, total), b.div(b.sum(b.mul(sizes, shifted), {3}), total));
}

void add_entropy(Observation& seen, const Block& block) {
  Builder& b = seen.build();
  Value sum;
  double maps = 0;
  for (const std::size_t at : attention_ops(seen.function(), block)) {
    const ir::Op op = seen.function().body[at];
    const Value entropy = mean_all(b, row_entropy(b, op));
    sum = sum ? b.add(sum, entropy) : entropy;
    ++maps;
  }
  if (sum) seen.add(block.name + ".attention_entropy", b.div(sum, maps));
}

}  // namespace

extern const DiagnosticRow kEntropy{
    .name = "entropy", .doc = "the entropy of each block's attention", .of_block = add_entropy};

}  // namespace rewire::programs
