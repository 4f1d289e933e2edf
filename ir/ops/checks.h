// Checks shared by shape rules. Each throws UserError with the reason only; check_and_infer adds the op, its
// place and the operand types.
#pragma once

#include <string_view>
#include <vector>

#include "ir/ops/op_info.h"

namespace rewire::ir {

/// Requires one type of all operands.
void require_same_types(const InferContext& context);
/// Requires a float dtype of operand i.
void require_float(const InferContext& context, std::size_t i);
/// Requires a float or integer dtype of operand i, not i1.
void require_number(const InferContext& context, std::size_t i);
/// Requires this type of operand i, called `name`.
void require_type(const InferContext& context, std::size_t i, std::string_view name, const TensorType& type);
/// Requires a stream attribute that is not empty.
void require_stream(const InferContext& context);

}  // namespace rewire::ir
