// Random draws: element i of a stream is PhiloxStream::uniform(i) or normal(i), whatever the shape.
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"
#include "ir/ops/stream.h"

namespace rewire::ir {

std::vector<TensorType> infer_random(const InferContext& context) {
  require_type(context, 0, "the seed (operand 0)", {DType::i64, {}});
  require_type(context, 1, "the step (operand 1)", {DType::i64, {}});
  require_stream(context);
  if (!is_float(context.requested->dtype)) {
    user_error("draws have a float dtype; {} was requested", to_string(*context.requested));
  }
  return {*context.requested};
}

void eval_random(EvalContext& context) {
  const PhiloxStream stream = eval_stream(context, 0, 1);
  const bool uniform = context.op.code == Opcode::random_uniform;
  std::vector<double>& y = context.out().data;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = uniform ? stream.uniform(i) : stream.normal(i);
}

}  // namespace rewire::ir
