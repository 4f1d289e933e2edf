// Adds checked ops to a function. The named helpers broadcast as NumPy does: ranks are aligned at the right
// and extents of 1 grow, by explicit reshape and broadcast ops. emit() does not broadcast. All throw
// UserError if operands do not fit.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

class Builder {
 public:
  Builder(Module& module, Function& function)
      : module_(module), function_(function), position_(function.body.size()) {}

  Module& module() { return module_; }
  Function& function() { return function_; }
  const TensorType& type(Value value) const { return function_.type(value); }
  const Shape& shape(Value value) const { return function_.type(value).shape; }

  /// Sets the body index at which ops are inserted; each emitted op advances it. Default: the end.
  void set_position(std::size_t position) { position_ = position; }
  std::size_t position() const { return position_; }

  /// Emits any op and returns its first result. `requested` is the result type of typed ops (constant,
  /// reshape, cast, …).
  Value emit(Opcode code, std::span<const Value> operands, Attributes attributes = {},
             std::optional<TensorType> requested = {});
  Value emit(Opcode code, std::initializer_list<Value> operands, Attributes attributes = {},
             std::optional<TensorType> requested = {}) {
    return emit(code, std::span<const Value>(operands.begin(), operands.size()), std::move(attributes),
                std::move(requested));
  }
  std::vector<Value> emit_all(Opcode code, std::span<const Value> operands, Attributes attributes = {},
                              std::optional<TensorType> requested = {});

  // Arguments, parameters, constants, and results of the function.
  Value argument(std::string_view name, TensorType type);
  Value param(std::string_view name);  // a parameter of the module; InternalError if there is none
  Value constant(double value, DType dtype = DType::f32, Shape shape = {});
  void result(std::string_view name, Value value);  // adds a named result to the function

  // Pointwise with broadcasting.
  Value unary(Opcode code, Value x) { return emit(code, {x}); }
  Value binary(Opcode code, Value a, Value b);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value add(Value a, double b) { return add(a, constant_like(a, b)); }
  Value sub(Value a, double b) { return sub(a, constant_like(a, b)); }
  Value mul(Value a, double b) { return mul(a, constant_like(a, b)); }
  Value div(Value a, double b) { return div(a, constant_like(a, b)); }
  Value compare(std::string_view direction, Value a, Value b);
  Value select(Value condition, Value if_true, Value if_false);
  Value cast(Value x, DType dtype);  // x itself if it has that dtype
  /// Returns a scalar constant of x's dtype.
  Value constant_like(Value x, double value) { return constant(value, type(x).dtype); }

  // Shape and reduction. Axes may be negative. Reductions keep their axes with extent 1.
  Value reshape(Value x, Shape shape);
  Value transpose(Value x, Ints permutation);
  Value broadcast(Value x, const Shape& shape);  // NumPy rules; x itself if nothing changes
  std::vector<Value> broadcast_together(std::vector<Value> values);  // to their common shape
  Value slice(Value x, int axis, std::int64_t start, std::int64_t limit);
  Value concat(std::span<const Value> parts, int axis);
  Value sum(Value x, Ints axes);
  Value max(Value x, Ints axes);
  Value mean(Value x, Ints axes);
  /// Sums x over the axes along which `shape` would broadcast to x's shape, and reshapes to `shape`. This
  /// is the VJP of broadcast.
  Value sum_to(Value x, const Shape& shape);

  // Contraction.
  Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
  /// Returns y = x W^T + b in PyTorch's layout: weight [out, in], bias [out], or an invalid bias for none.
  Value linear(Value x, Value weight, Value bias = {});

  /// Extends the location of the ops that are emitted during its lifetime: Builder::Scope scope(b, "attn")
  /// inside "blocks.3" gives "blocks.3.attn".
  class Scope {
   public:
    Scope(Builder& builder, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::size_t saved_length_;
  };
  /// Replaces the whole location. For example, the ops of a gradient get the location of the forward op.
  void set_location(std::string location) { location_ = std::move(location); }
  const std::string& location() const { return location_; }

 private:
  Module& module_;
  Function& function_;
  std::size_t position_;
  std::string location_;
};

}  // namespace rewire::ir
