// Checks that the gradient of a training program is the derivative of its loss, by the evaluator in double
// precision along random directions. For a direction u in the weights w of one role:
//
//   <grad, u>  against (8 (L(w + h u) - L(w - h u)) - (L(w + 2h u) - L(w - 2h u))) / 12 h  =  dL/du + O(h^4)
//
// If a stop_gradient cuts a path, the gradient belongs to a loss in which the cut value is a constant. So
// L(w + h u) is evaluated with the results of all stop_gradients at w: a declared cut is no error, and an
// error anywhere else is still found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

struct GradientCheckRow {
  std::string role;          // of the weights that the direction moves: qkv, norm, …
  std::int64_t weights = 0;  // elements moved
  double gradient = 0;       // <grad, u>
  double difference = 0;     // the fourth-order central difference
  double error = 0;          // |gradient - difference| / max(|gradient|, |difference|, 1e-6 max(1, |loss|))
  bool passed = false;       // error <= kGradientTolerance
};

/// Truncation and rounding of the difference are orders below this; a wrong term is not.
inline constexpr double kGradientTolerance = 1e-6;

struct GradientCheck {
  double loss = 0;
  std::vector<GradientCheckRow> rows;  // `directions` for each role, in the order of the parameters
  bool passed() const;
};

/// Returns the stop_gradients that keep a gradient of the loss from a trainable weight, such as
/// "blocks.0.attn.gate, of mul at blocks.0.attn.gate", in the order of the program `grad`, which `module`
/// has.
std::vector<std::string> gradient_cuts(const ir::Module& module);

/// Checks `module`, which has the program `grad` (programs::add_grad_program). Normal noise of deviation
/// 0.02 is added to the weights first, so that no zero or symmetry of a fresh network hides an error; images
/// are normal, labels uniform. All are drawn from `seed`.
GradientCheck check_gradients(const ir::Module& module, const TensorMap& weights, std::uint64_t seed,
                              std::int64_t directions);

}  // namespace rewire::runtime
