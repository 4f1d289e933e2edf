// The residual join: the checks of its operands and attributes, and its meaning, the sum of its terms.
#include "ir/residual.h"
#include "ir/error.h"
#include "ir/ops/axes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

constexpr std::size_t kInput = 2;  // the only operand whose type may differ

void check_facts(const Attributes& attributes, int rank) {
  const std::string& site = attributes.get_string("site");
  if (site != "attn" && site != "mlp" && site != "conv") {
    user_error("site must be attn, mlp or conv, not '{}'", site);
  }
  if (attributes.get_string("scope").empty()) user_error("attribute 'scope' is empty");
  for (const char* name : {"block", "stage", "heads"}) {
    if (attributes.get_int(name) < 0) user_error("{} is {}, below 0", name, attributes.get_int(name));
  }
  const std::int64_t join_index = attributes.get_int("join_index");
  const std::int64_t join_count = attributes.get_int("join_count");
  if (join_index < 0 || join_index >= join_count) {
    user_error("join_index {} is outside [0, join_count = {})", join_index, join_count);
  }
  for (const char* name : {"batch_axis", "token_axis", "channel_axis"}) {
    const std::int64_t axis = attributes.get_int(name);
    if (axis < -rank || axis >= rank) user_error("{} {} is out of range for rank {}", name, axis, rank);
  }
}

}  // namespace

std::vector<TensorType> infer_residual(const InferContext& context) {
  const TensorType& stream = context.operand(0);
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    require_float(context, i);
    if (i != kInput && context.operand(i) != stream) {
      user_error("operand {} is {}, but the stream is {}", i, to_string(context.operand(i)),
                 to_string(stream));
    }
  }
  const std::size_t least = kFirstJoinTerm + (context.attributes.get_bool("has_shortcut") ? 2 : 1);
  if (context.operands.size() < least) {
    user_error("takes stream, branch, input, {}branch slot and paths: at least {} operands, got {}",
               least == kFirstJoinTerm + 2 ? "shortcut slot, " : "", least, context.operands.size());
  }
  check_facts(context.attributes, stream.rank());
  return {stream};
}

void eval_residual(EvalContext& context) {
  std::vector<double>& y = context.out().data;
  for (std::size_t term = kFirstJoinTerm; term < context.operands.size(); ++term) {
    const std::vector<double>& x = context.in(term).data;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  }
}

}  // namespace rewire::ir
