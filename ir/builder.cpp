// The builder emits checked ops. It inserts the reshapes and broadcasts that NumPy's rules imply.
#include "ir/builder.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

/// Returns the shape that both broadcast to. Throws UserError, which names both shapes, if they do not fit.
Shape common_shape(const Shape& a, const Shape& b, std::string_view location) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const std::int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      user_error("shapes {} and {} do not broadcast{}{}", to_string(a), to_string(b),
                 location.empty() ? "" : ", at ", location);
    }
    shape[shape.size() - i] = x == 1 ? y : x;
  }
  return shape;
}

}  // namespace

std::vector<Value> Builder::emit_all(Opcode code, std::span<const Value> operands, Attributes attributes,
                                     std::optional<TensorType> requested) {
  Op op;
  op.code = code;
  op.operands.assign(operands.begin(), operands.end());
  op.attributes = std::move(attributes);
  op.location = location_;
  for (TensorType& type : check_and_infer(module_, function_, op, requested)) {
    op.results.push_back(function_.new_value(std::move(type)));
  }
  std::vector<Value> results = op.results;
  function_.body.insert(function_.body.begin() + static_cast<std::ptrdiff_t>(position_), std::move(op));
  ++position_;
  return results;
}

Value Builder::emit(Opcode code, std::span<const Value> operands, Attributes attributes,
                    std::optional<TensorType> requested) {
  const std::vector<Value> results = emit_all(code, operands, std::move(attributes), std::move(requested));
  return results.empty() ? Value{} : results.front();
}

Value Builder::argument(std::string_view name, TensorType type) {
  const Value value = function_.new_value(std::move(type));
  function_.arguments.push_back({std::string(name), value});
  return value;
}

Value Builder::param(std::string_view name) {
  const Parameter* parameter = module_.find_parameter(name);
  if (parameter == nullptr) internal_error("module '{}' has no parameter '{}'", module_.name, name);
  return emit(Opcode::param, {}, {{"name", std::string(name)}}, parameter->type);
}

Value Builder::constant(double value, DType dtype, Shape shape) {
  return emit(Opcode::constant, {}, {{"value", value}}, TensorType{dtype, std::move(shape)});
}

void Builder::result(std::string_view name, Value value) {
  function_.results.push_back({std::string(name), value});
}

std::vector<Value> Builder::broadcast_together(std::vector<Value> values) {
  Shape common;
  for (const Value value : values) common = common_shape(common, shape(value), location_);
  for (Value& value : values) value = broadcast(value, common);
  return values;
}

Value Builder::add(Value a, Value b) {
  return binary(Opcode::add, a, b);
}

Value Builder::sub(Value a, Value b) {
  return binary(Opcode::sub, a, b);
}

Value Builder::mul(Value a, Value b) {
  return binary(Opcode::mul, a, b);
}

Value Builder::div(Value a, Value b) {
  return binary(Opcode::div, a, b);
}

Value Builder::binary(Opcode code, Value a, Value b) {
  return emit(code, broadcast_together({a, b}));
}

Value Builder::compare(std::string_view direction, Value a, Value b) {
  return emit(Opcode::compare, broadcast_together({a, b}), {{"direction", std::string(direction)}});
}

Value Builder::select(Value condition, Value if_true, Value if_false) {
  return emit(Opcode::select, broadcast_together({condition, if_true, if_false}));
}

Value Builder::cast(Value x, DType dtype) {
  return type(x).dtype == dtype ? x : emit(Opcode::cast, {x}, {}, TensorType{dtype, shape(x)});
}

Value Builder::reshape(Value x, Shape shape) {
  if (type(x).shape == shape) return x;
  return emit(Opcode::reshape, {x}, {}, TensorType{type(x).dtype, std::move(shape)});
}

Value Builder::transpose(Value x, Ints permutation) {
  return emit(Opcode::transpose, {x}, {{"permutation", std::move(permutation)}});
}

Value Builder::broadcast(Value x, const Shape& shape) {
  const Shape target = shape;  // a copy: `shape` may be in the table of types, which reshape grows
  if (type(x).shape == target) return x;
  if (common_shape(type(x).shape, target, location_) != target) {
    user_error("shape {} does not broadcast to {}{}{}", to_string(type(x).shape), to_string(target),
               location_.empty() ? "" : ", at ", location_);
  }
  Shape aligned(target.size() - type(x).shape.size(), 1);
  aligned.insert(aligned.end(), type(x).shape.begin(), type(x).shape.end());
  x = reshape(x, aligned);
  return aligned == target ? x : emit(Opcode::broadcast, {x}, {}, TensorType{type(x).dtype, target});
}

Value Builder::slice(Value x, int axis, std::int64_t start, std::int64_t limit) {
  const auto i = static_cast<std::size_t>(normal_axis(axis, type(x).rank()));
  Ints starts(shape(x).size(), 0);
  Ints limits = shape(x);
  starts[i] = start;
  limits[i] = limit;
  return emit(Opcode::slice, {x}, {{"starts", std::move(starts)}, {"limits", std::move(limits)}});
}

Value Builder::concat(std::span<const Value> parts, int axis) {
  return emit(Opcode::concat, parts, {{"axis", std::int64_t{axis}}});
}

Value Builder::sum(Value x, Ints axes) {
  return axes.empty() ? x : emit(Opcode::sum, {x}, {{"axes", std::move(axes)}});
}

Value Builder::max(Value x, Ints axes) {
  return axes.empty() ? x : emit(Opcode::max, {x}, {{"axes", std::move(axes)}});
}

Value Builder::mean(Value x, Ints axes) {
  const std::int64_t before = type(x).elements();
  const Value total = sum(x, std::move(axes));
  const std::int64_t count = before / type(total).elements();
  return count == 1 ? total : div(total, static_cast<double>(count));
}

Value Builder::sum_to(Value x, const Shape& shape) {
  const Shape target = shape;  // a copy, as in broadcast
  const Shape from = type(x).shape;
  if (common_shape(from, target, location_) != from) {
    user_error("shape {} is not a broadcast of {}{}{}", to_string(from), to_string(target),
               location_.empty() ? "" : ", at ", location_);
  }
  const std::size_t added = from.size() - target.size();
  Ints axes;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool grown = from[i] != 1 && (i < added || target[i - added] == 1);
    if (grown) axes.push_back(static_cast<std::int64_t>(i));
  }
  return reshape(sum(x, std::move(axes)), target);
}

Value Builder::matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
  return emit(Opcode::matmul, {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

Value Builder::linear(Value x, Value weight, Value bias) {
  const Value product = matmul(x, weight, false, true);
  return bias ? add(product, bias) : product;
}

Builder::Scope::Scope(Builder& builder, std::string_view name)
    : builder_(builder), saved_length_(builder.location_.size()) {
  if (!builder.location_.empty()) builder.location_ += '.';
  builder.location_ += name;
}

Builder::Scope::~Scope() {
  builder_.location_.resize(saved_length_);
}

}  // namespace rewire::ir
