// Checks that several shape rules share.
#include "ir/ops/checks.h"

#include "ir/error.h"

namespace rewire::ir {

void require_same_types(const InferContext& context) {
  const TensorType& first = context.operand(0);
  for (const TensorType& type : context.operands) {
    if (type.dtype != first.dtype) user_error("operand dtypes differ (cast one)");
    if (type.shape != first.shape) user_error("operand shapes differ (broadcast one)");
  }
}

void require_float(const InferContext& context, std::size_t i) {
  if (!is_float(context.operand(i).dtype)) {
    user_error("operand {} must be of a float dtype, not {}", i, dtype_name(context.operand(i).dtype));
  }
}

void require_number(const InferContext& context, std::size_t i) {
  if (context.operand(i).dtype == DType::i1) {
    user_error("operand {} must be of a float or integer dtype, not i1", i);
  }
}

void require_type(const InferContext& context, std::size_t i, std::string_view name, const TensorType& type) {
  if (context.operand(i) != type) {
    user_error("{} must be {}, not {}", name, to_string(type), to_string(context.operand(i)));
  }
}

void require_stream(const InferContext& context) {
  if (context.attributes.get_string("stream").empty()) user_error("attribute 'stream' is empty");
}

}  // namespace rewire::ir
