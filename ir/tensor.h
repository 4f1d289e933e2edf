// Host tensors of the evaluator: any dtype held as doubles, row-major. The oracle computes in double whatever
// the dtype; integers and truth values are exact (|i64| <= 2^53).
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

/// The parameters and other state by name, read by `param` and written by `update`.
struct EvalState {
  std::map<std::string, Tensor, std::less<>> tensors;
  bool training = false;  // what is_training answers
  /// Round what each op computes to its dtype, as a backend that stores every value would.
  bool round = false;
  /// And f32 operands of matrix products to TF32, where the module allows it.
  bool round_to_tf32 = false;
  /// Not 0: ops have errors of the size of a rounding, other ones for each number (ir/rounding_noise.h).
  std::uint64_t noise = 0;
};

/// Rounds a double to what `dtype` can hold, for comparing with a backend's stored value, and as a cast does.
/// f32, bf16, f16: nearest even; i1: x != 0; integers: toward zero, kept within their range, NaN 0. The
/// largest i64 is no double: 2^63 stands for it.
double round_to(DType dtype, double value);
/// To TF32: f32 with 10 bits of mantissa.
double round_to_tf32(double value);

/// Whether a constant of `dtype` may have this value: a float dtype takes any, rounded where it is stored; an
/// integer or truth value must be exact.
bool holds(DType dtype, double value);

}  // namespace rewire::ir
