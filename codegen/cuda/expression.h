// Types, literals and pointwise ops as CUDA C++. Each op follows the evaluator: maximum and minimum
// propagate NaN, and a float is converted to an integer toward zero, within the integer's range.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// Returns the type that a dtype is computed in: "float" for f32, bf16 and f16.
std::string_view arithmetic_type(ir::DType dtype);
std::int64_t arithmetic_bytes(ir::DType dtype);
/// Returns the type of a dtype in memory.
std::string_view storage_type(ir::DType dtype);

/// Returns a constant, rounded to the dtype; it reads back exactly.
std::string literal(double value, ir::DType dtype);
/// Returns the value that a reduction starts with.
std::string reduction_start(tile::ReduceKind kind, ir::DType dtype);
/// Joins the nonempty conditions by "&&". Each must bind at least as tightly.
std::string conjunction(std::initializer_list<std::string> conditions);
/// Returns the functor of the prelude's reductions over threads: "Sum" or "Max".
std::string_view reduction_functor(tile::ReduceKind kind);
/// The binding strength of an outermost operator, the weakest first.
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

/// The longest text that is inlined into its one reader; a longer one gets a name.
inline constexpr std::size_t kLongestInline = 60;

/// C++ text with its binding strength.
struct Expression {
  std::string text;
  Binding binding = Binding::value;

  /// Returns the text as an operand of `outside`, in brackets where needed.
  std::string within(Binding outside) const;
};

/// Returns "sum += x" or "largest = maximum(largest, x)".
std::string accumulate(tile::ReduceKind kind, ir::DType dtype, const std::string& target,
                       const Expression& x);

/// Returns a pointwise op as text. `dtypes`: the operands'.
Expression pointwise_expression(const tile::Pointwise& node, const std::vector<Expression>& operands,
                                const std::vector<ir::DType>& dtypes, ir::DType result);
/// Returns the conversion of a value from one dtype to another.
Expression cast_expression(const Expression& x, ir::DType from, ir::DType to);

}  // namespace rewire::codegen::cuda
