// AdamW's update of one weight, for every optimizer that has weights which it moves so. Its equations are in
// adamw_update.cpp.
#pragma once

#include <tuple>

#include "programs/optimizer.h"

namespace rewire::programs {

struct AdamwSettings {
  WeightSettings weight;
  Betas betas;
  double eps;
};

class AdamwUpdate {
 public:
  /// `scalars` outlives it, and has begun when the others are called.
  explicit AdamwUpdate(SharedScalars& scalars) : scalars_(scalars) {}

  static std::vector<StateSpec> states(const ir::TensorType& weight);
  /// Emits the scalars that the update will read.
  void prepare(ir::Builder& builder, const Trainable& weight, const AdamwSettings& settings);
  Updated update(ir::Builder& builder, const Trainable& weight, const AdamwSettings& settings,
                 const std::vector<ir::Value>& states);

 private:
  struct Corrected {
    ir::Value rate, scale;  // lr / (1 - b1^t), 1 / sqrt(1 - b2^t)
  };
  const Corrected& corrected(ir::Builder& builder, const Trainable& weight, const AdamwSettings& settings);

  SharedScalars& scalars_;
  std::map<std::tuple<std::int32_t, double, Betas>, Corrected> corrected_;
};

}  // namespace rewire::programs
