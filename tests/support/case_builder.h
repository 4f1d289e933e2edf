// Tools for the generators of op cases: random shapes and tensors, and the function under construction.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <random>
#include <span>

#include "ir/builder.h"
#include "tests/support/op_cases.h"

namespace rewire::testing {

class CaseBuilder {
 public:
  explicit CaseBuilder(std::uint64_t seed);

  std::int64_t integer(std::int64_t low, std::int64_t high);  // both ends included
  double real(double low, double high);
  bool chance(double probability) { return real(0, 1) < probability; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return std::data(choices)[integer(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }
  std::int64_t extent(std::int64_t largest);
  ir::Shape shape(int min_rank, int max_rank, std::int64_t max_elements = 1500);
  /// Returns an axis of a tensor of that rank, sometimes counted from the end.
  std::int64_t axis(std::size_t rank);
  /// Returns 0, 1, …, count - 1 in random order.
  ir::Ints permutation(std::size_t count);
  /// Returns f32 mostly, else one of the others.
  ir::DType dtype(std::initializer_list<ir::DType> others) {
    return chance(0.75) ? ir::DType::f32 : pick(others);
  }

  /// Uniform in [low, high], rounded to the dtype; truth values are fair coins.
  ir::Tensor tensor(ir::TensorType type, double low = -2, double high = 2);
  ir::Tensor tensor(ir::Shape shape, double low = -2, double high = 2) {
    return tensor(ir::TensorType{ir::DType::f32, std::move(shape)}, low, high);
  }
  /// Magnitudes in [low, high], of either sign.
  ir::Tensor away_from_zero(ir::Shape shape, double low = 0.1, double high = 2);
  /// No two values are closer than 1/128.
  ir::Tensor distinct(ir::Shape shape);
  ir::Tensor scalar(ir::DType dtype, double value) { return ir::Tensor({dtype, {}}, {value}); }
  std::string stream();

  /// Adds the next argument of the function. Only float inputs can be differentiable.
  ir::Value input(ir::Tensor tensor, bool differentiable = true);
  /// Applies the op and names its results r0, r1, ….
  void apply(ir::Opcode code, std::initializer_list<ir::Value> operands, ir::Attributes attributes = {},
             std::optional<ir::TensorType> requested = {}) {
    apply(code, std::span<const ir::Value>(operands.begin(), operands.size()), std::move(attributes),
          std::move(requested));
  }
  void apply(ir::Opcode code, std::span<const ir::Value> operands, ir::Attributes attributes = {},
             std::optional<ir::TensorType> requested = {});
  ir::Module& module() { return case_.module; }
  ir::EvalState& state() { return case_.state; }
  OpCase finish() { return std::move(case_); }

 private:
  OpCase case_;
  std::mt19937_64 engine_;
};

}  // namespace rewire::testing
