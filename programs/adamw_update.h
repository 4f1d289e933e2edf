// AdamW's update of one weight, shared by all optimizers that move some weights by it. adamw_update.cpp has
// its equations.
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
  /// `scalars` must outlive it, and scalars.begin() must precede the other calls.
  explicit AdamwUpdate(SharedScalars& scalars) : scalars_(scalars) {}

  static std::vector<StateSpec> states(const ir::TensorType& weight);
  /// Emits the scalars that update() reads.
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
