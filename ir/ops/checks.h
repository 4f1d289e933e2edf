// Checks that several shape rules share. Each throws UserError with the reason alone; check_and_infer adds
// the op, its place and the operand types.
#pragma once

#include <string_view>
#include <vector>

#include "ir/ops/op_info.h"

namespace rewire::ir {

/// All operands have one type.
void require_same_types(const InferContext& context);
/// Operand i is of a float dtype.
void require_float(const InferContext& context, std::size_t i);
/// Operand i is of a float or integer dtype, not i1.
void require_number(const InferContext& context, std::size_t i);
/// Operand i, called `name`, has exactly this type.
void require_type(const InferContext& context, std::size_t i, std::string_view name, const TensorType& type);
/// The attribute `stream` is not empty.
void require_stream(const InferContext& context);

}  // namespace rewire::ir
