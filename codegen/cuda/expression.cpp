// Text of types, literals and pointwise ops; see expression.h.
#include "codegen/cuda/expression.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/tensor.h"

namespace rewire::codegen::cuda {
namespace {

using ir::DType;
using ir::Opcode;

std::string with_point(std::string digits) {
  return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits;
}

std::string float_literal(double value, bool wide) {
  if (!wide) value = ir::round_to(DType::f32, value);
  if (std::isnan(value)) return wide ? "static_cast<double>(not_a_number())" : "not_a_number()";
  if (std::isinf(value)) {
    return fmt::format("{}{}", value < 0 ? "-" : "", wide ? "static_cast<double>(infinity())" : "infinity()");
  }
  return wide ? with_point(fmt::format("{}", value))
              : with_point(fmt::format("{}", static_cast<float>(value))) + "f";
}

std::string integer_literal(double value, DType dtype) {
  if (dtype == DType::u8) return fmt::format("static_cast<unsigned char>({})", static_cast<int>(value));
  if (value <= -9223372036854775808.0) return "(-9223372036854775807LL - 1)";
  if (value <= -2147483648.0 && dtype == DType::i32) return "(-2147483647 - 1)";
  return fmt::format("{}{}", static_cast<std::int64_t>(value), dtype == DType::i64 ? "LL" : "");
}

/// Returns C's function for an op with one float argument. The name is for f64; f32 adds an f ("exp",
/// "expf").
std::string_view maths_function(Opcode code) {
  switch (code) {
    case Opcode::exp:
      return "exp";
    case Opcode::log:
      return "log";
    case Opcode::sqrt:
      return "sqrt";
    case Opcode::sin:
      return "sin";
    case Opcode::cos:
      return "cos";
    case Opcode::tanh:
      return "tanh";
    case Opcode::erf:
      return "erf";
    case Opcode::floor:
      return "floor";
    default:
      return {};
  }
}

std::string_view compare_sign(const std::string& direction) {
  if (direction == "lt") return "<";
  if (direction == "le") return "<=";
  if (direction == "gt") return ">";
  if (direction == "ge") return ">=";
  return direction == "eq" ? "==" : "!=";
}

/// Writes a binary operator. It groups left to right, so a left operand of the same kind needs no
/// parentheses.
Expression binary(const std::vector<Expression>& x, std::string_view sign, Binding binding) {
  const bool chain = x[0].binding == binding && binding != Binding::comparison;
  return {fmt::format("{} {} {}", chain ? x[0].text : x[0].within(binding), sign, x[1].within(binding)),
          binding};
}

Expression call(std::string_view function, const std::vector<Expression>& x) {
  std::string text(function);
  for (std::size_t i = 0; i < x.size(); ++i) text += (i == 0 ? "(" : ", ") + x[i].text;
  return {text + ")"};
}

Expression float_op(Opcode code, const std::vector<Expression>& x, bool wide) {
  if (code == Opcode::erf && x.size() == 2) return call("erf_by_exp", x);
  if (const std::string_view function = maths_function(code); !function.empty())
    return call(wide ? std::string(function) : std::string(function) + "f", x);
  switch (code) {
    case Opcode::neg:
      return {"-" + x[0].within(Binding::sign), Binding::sign};
    case Opcode::abs:
      return call(wide ? "fabs" : "fabsf", x);
    case Opcode::rsqrt:
      return call("inverse_sqrt", x);
    case Opcode::sigmoid:
      return call("sigmoid", x);
    case Opcode::pow:
      if (!wide && x[0].text == literal(2, DType::f32)) return call("power_of_two", {x[1]});
      return call(wide ? "pow" : "powf", x);
    case Opcode::div:
      return binary(x, "/", Binding::product);
    default:
      internal_error("CUDA has no code for {} of floats", ir::opcode_name(code));
  }
}

Expression arithmetic(Opcode code, const std::vector<Expression>& x, DType dtype) {
  switch (code) {
    case Opcode::add:
      return binary(x, "+", Binding::sum);
    case Opcode::sub:
      return binary(x, "-", Binding::sum);
    case Opcode::mul:
      return binary(x, "*", Binding::product);
    case Opcode::maximum:
      return call("maximum", x);
    case Opcode::minimum:
      return call("minimum", x);
    default:
      break;
  }
  if (ir::is_float(dtype)) return float_op(code, x, dtype == DType::f64);
  if (code == Opcode::neg) return {"-" + x[0].within(Binding::sign), Binding::sign};
  if (code == Opcode::abs) return call("absolute", x);
  internal_error("CUDA has no code for {} of integers", ir::opcode_name(code));
}

/// Narrows a result to u8, bf16 or f16.
Expression narrowed(Expression x, DType dtype) {
  if (dtype == DType::u8) return {"static_cast<unsigned char>(" + x.text + ")"};
  if (dtype == DType::bf16) return {"round_to_bf16(" + x.text + ")"};
  if (dtype == DType::f16) return {"round_to_f16(" + x.text + ")"};
  return x;
}

}  // namespace

std::string_view arithmetic_type(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? "float" : storage_type(dtype);
}

std::int64_t arithmetic_bytes(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? 4 : static_cast<std::int64_t>(ir::dtype_bytes(dtype));
}

std::string_view storage_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::f32:
      return "float";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "int";
    case DType::u8:
      return "unsigned char";
    case DType::i1:
      break;
  }
  return "bool";
}

std::string literal(double value, DType dtype) {
  if (dtype == DType::i1) return value != 0 ? "true" : "false";
  if (ir::is_integer(dtype)) return integer_literal(value, dtype);
  const std::string text = float_literal(value, dtype == DType::f64);
  return dtype == DType::bf16 || dtype == DType::f16 ? narrowed({text}, dtype).text : text;
}

std::string reduction_start(tile::ReduceKind kind, DType dtype) {
  if (kind == tile::ReduceKind::sum) return literal(0, dtype);
  if (dtype == DType::u8) return literal(0, dtype);
  return literal(-std::numeric_limits<double>::infinity(), dtype);
}

std::string conjunction(std::initializer_list<std::string> conditions) {
  std::string text;
  for (const std::string& condition : conditions) {
    if (!condition.empty()) text += (text.empty() ? "" : " && ") + condition;
  }
  return text;
}

std::string_view reduction_functor(tile::ReduceKind kind) {
  return kind == tile::ReduceKind::sum ? "Sum" : "Max";
}

std::string Expression::within(Binding outside) const {
  return binding > outside ? text : "(" + text + ")";
}

std::string accumulate(tile::ReduceKind kind, DType dtype, const std::string& target, const Expression& x) {
  if (kind == tile::ReduceKind::max) return fmt::format("{0} = maximum({0}, {1})", target, x.text);
  if (dtype != DType::u8) return fmt::format("{} += {}", target, x.text);
  return fmt::format("{0} = static_cast<unsigned char>({0} + {1})", target, x.within(Binding::sum));
}

Expression pointwise_expression(const tile::Pointwise& node, const std::vector<Expression>& x,
                                const std::vector<DType>& dtypes, DType result) {
  switch (node.code) {
    case Opcode::cast:
      return cast_expression(x[0], dtypes[0], result);
    case Opcode::stop_gradient:
      return x[0];
    case Opcode::select:
      return {fmt::format("{} ? {} : {}", x[0].within(Binding::condition), x[1].within(Binding::condition),
                          x[2].within(Binding::condition)),
              Binding::condition};
    case Opcode::compare:
      return binary(x, compare_sign(node.direction), Binding::comparison);
    case Opcode::isfinite:
      return call("is_finite", x);
    case Opcode::logical_not:
      return {"!" + x[0].within(Binding::sign), Binding::sign};
    case Opcode::logical_and:
      return binary(x, "&&", Binding::conjunction);
    case Opcode::logical_or:
      return binary(x, "||", Binding::disjunction);
    default:
      return narrowed(arithmetic(node.code, x, result), result);
  }
}

Expression cast_expression(const Expression& x, DType from, DType to) {
  if (from == to) return x;
  if (arithmetic_type(from) == arithmetic_type(to)) return narrowed(x, to);
  const Expression converted{fmt::format("convert<{}>({})", arithmetic_type(to), x.text)};
  return to == DType::u8 ? converted : narrowed(converted, to);
}

}  // namespace rewire::codegen::cuda
