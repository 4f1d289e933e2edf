// The Philox stream of an op that draws: seed and step are operands, the stream's name is an attribute.
#pragma once

#include "ir/ops/op_info.h"
#include "ir/philox.h"

namespace rewire::ir {

inline PhiloxStream eval_stream(const EvalContext& context, std::size_t seed, std::size_t step) {
  PhiloxStream stream;
  stream.seed = static_cast<std::uint64_t>(static_cast<std::int64_t>(context.in(seed).scalar()));
  stream.step = static_cast<std::uint32_t>(
      static_cast<std::uint64_t>(static_cast<std::int64_t>(context.in(step).scalar())));
  stream.stream = stream_hash(context.op.attributes.get_string("stream"));
  return stream;
}

}  // namespace rewire::ir
