// The words of emitted CUDA C++: types, literals, and one pointwise op as an expression. Each op follows the
// evaluator: maximum and minimum pass NaN on, a float becomes an integer toward zero within its range.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// What values of a dtype are computed in: "float" for f32, bf16 and f16.
std::string_view arithmetic_type(ir::DType dtype);
std::int64_t arithmetic_bytes(ir::DType dtype);
/// What they are in memory.
std::string_view storage_type(ir::DType dtype);

/// A constant, rounded to the dtype; reads back exactly.
std::string literal(double value, ir::DType dtype);
/// What a reduction starts with.
std::string reduction_start(tile::ReduceKind kind, ir::DType dtype);
/// Those of some conditions that are not empty, joined by "&&"; each binds at least as tightly.
std::string conjunction(std::initializer_list<std::string> conditions);
/// What the prelude's reductions over threads take for it: "Sum" or "Max".
std::string_view reduction_functor(tile::ReduceKind kind);
/// How tightly an expression's outermost operator binds.
enum class Binding : std::uint8_t {
  condition,
  disjunction,
  conjunction,
  comparison,
  sum,
  product,
  sign,
  value
};

/// Text that is read once stands where it is read; if it is longer, it gets a name.
inline constexpr std::size_t kLongestInline = 60;

/// C++ text.
struct Expression {
  std::string text;
  Binding binding = Binding::value;

  /// As an operand of something that binds so tightly: in brackets where it must be.
  std::string within(Binding outside) const;
};

/// "sum += x" or "largest = maximum(largest, x)".
std::string accumulate(tile::ReduceKind kind, ir::DType dtype, const std::string& target,
                       const Expression& x);

/// `dtypes`: those of the operands.
Expression pointwise_expression(const tile::Pointwise& node, const std::vector<Expression>& operands,
                                const std::vector<ir::DType>& dtypes, ir::DType result);
/// From the dtype of a value to that of another.
Expression cast_expression(const Expression& x, ir::DType from, ir::DType to);

}  // namespace rewire::codegen::cuda
