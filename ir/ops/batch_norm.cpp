// batch_norm uses the statistics of the batch in training, else the running
// statistics of earlier batches. Its decomposition is in decompose.cpp and
// its gradient in autodiff/vjp_composite.cpp, with the other composites.
#include <cmath>

#include "ir/error.h"
#include "ir/ops/axes.h"
#include "ir/ops/checks.h"
#include "ir/ops/composite_parts.h"
#include "ir/ops/functions.h"

namespace rewire::ir {

std::vector<TensorType> infer_batch_norm(const InferContext& context) {
  const TensorType& x = context.operand(0);
  require_float(context, 0);
  const int axis = normal_axis(context.attributes.get_int("axis"), x.rank());
  const TensorType vector{x.dtype, {x.shape[static_cast<std::size_t>(axis)]}};
  constexpr std::string_view kVectorNames[] = {"the weight (operand 1)", "the bias (operand 2)",
                                               "the running mean (operand 3)",
                                               "the running variance (operand 4)"};
  for (std::size_t i = 0; i < std::size(kVectorNames); ++i)
    require_type(context, i + 1, kVectorNames[i], vector);
  require_type(context, 5, "the training flag (operand 5)", {DType::i1, {}});
  const double momentum = context.attributes.get_double("momentum");
  if (!(context.attributes.get_double("epsilon") > 0))
    user_error("epsilon must be above 0, not {}", context.attributes.get_double("epsilon"));
  if (!(momentum >= 0 && momentum <= 1)) user_error("momentum must be in [0, 1], not {}", momentum);
  return {x, vector, vector};
}

void eval_batch_norm(EvalContext& context) {
  const Tensor& x = context.in(0);
  const AxisView view =
      view_around(x.type.shape, normal_axis(context.op.attributes.get_int("axis"), x.type.rank()));
  const double momentum = context.op.attributes.get_double("momentum");
  const double epsilon = context.op.attributes.get_double("epsilon");
  const bool training = context.in(5).scalar() != 0;
  const auto count = static_cast<double>(view.outer * view.inner);
  for (std::int64_t channel = 0; channel < view.extent; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    const auto each = [&](const auto& visit) {
      for (std::int64_t outer = 0; outer < view.outer; ++outer)
        for (std::int64_t inner = 0; inner < view.inner; ++inner)
          visit(static_cast<std::size_t>((outer * view.extent + channel) * view.inner + inner));
    };
    double mean = context.in(3).data[c], variance = context.in(4).data[c];
    context.out(1).data[c] = mean;
    context.out(2).data[c] = variance;
    if (training && count > 0) {
      mean = variance = 0;
      each([&](std::size_t i) { mean += x.data[i] / count; });
      each([&](std::size_t i) { variance += (x.data[i] - mean) * (x.data[i] - mean) / count; });
      const double unbiased = variance * unbiased_factor(view.outer * view.inner);
      context.out(1).data[c] += momentum * (mean - context.out(1).data[c]);
      context.out(2).data[c] += momentum * (unbiased - context.out(2).data[c]);
    }
    const double scale = context.in(1).data[c] / std::sqrt(variance + epsilon);
    each([&](std::size_t i) { context.out().data[i] = (x.data[i] - mean) * scale + context.in(2).data[c]; });
  }
}

}  // namespace rewire::ir
