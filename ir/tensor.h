// Host tensors of the evaluator, row-major. Any dtype is held as doubles, and the evaluator computes in
// double. Integers and truth values are exact (|i64| <= 2^53).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/types.h"

namespace rewire::ir {

struct Tensor {
  TensorType type;
  std::vector<double> data;

  Tensor() = default;
  explicit Tensor(TensorType tensor_type)
      : type(std::move(tensor_type)), data(static_cast<std::size_t>(type.elements())) {}
  Tensor(TensorType tensor_type, std::vector<double> values)
      : type(std::move(tensor_type)), data(std::move(values)) {}
  double scalar() const { return data.at(0); }
};

/// Parameters and other state by name, which `param` reads and `update` writes.
struct EvalState {
  std::map<std::string, Tensor, std::less<>> tensors;
  bool training = false;  // the value of is_training
  /// Rounds the results of each op to its dtype, like a backend that stores every value.
  bool round = false;
  /// Also rounds f32 operands of matrix products to TF32, if the module allows it.
  bool round_to_tf32 = false;
  /// If not 0, ops have errors of the size of a rounding, different ones for each number
  /// (ir/rounding_noise.h).
  std::uint64_t noise = 0;
};

/// Rounds a double to a value of `dtype`, as a cast does; for comparing with a backend's stored value. f32,
/// bf16, f16: nearest even. i1: x != 0. Integers: toward zero, clamped to their range, NaN to 0. The double
/// 2^63 represents the largest i64, which is not a double.
double round_to(DType dtype, double value);
/// Rounds to TF32: f32 with 10 bits of mantissa.
double round_to_tf32(double value);

/// Returns whether a constant of `dtype` may have this value. A float dtype takes any value and rounds it
/// when it is stored; an integer or truth value must be exact.
bool holds(DType dtype, double value);

}  // namespace rewire::ir
