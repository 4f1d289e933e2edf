// The Philox stream of a random op: seed and step are operands, the stream's name is an attribute.
#pragma once

#include "ir/ops/op_info.h"
#include "ir/philox.h"

namespace rewire::ir {

/// Returns the bits of an i64. The double 2^63 represents the largest i64, which is not a double
/// (ir::round_to).
inline std::uint64_t word_of(double value) {
  const double within = round_to(DType::i64, value);
  return within >= 0x1p63 ? std::uint64_t{0x7fffffffffffffff}
                          : static_cast<std::uint64_t>(static_cast<std::int64_t>(within));
}

inline PhiloxStream eval_stream(const EvalContext& context, std::size_t seed, std::size_t step) {
  PhiloxStream stream;
  stream.seed = word_of(context.in(seed).scalar());
  stream.step = static_cast<std::uint32_t>(word_of(context.in(step).scalar()));
  stream.stream = stream_hash(context.op.attributes.get_string("stream"));
  return stream;
}

}  // namespace rewire::ir
