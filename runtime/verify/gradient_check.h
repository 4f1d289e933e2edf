// Is the gradient of a training program the derivative of its loss? Asked of the evaluator, in double
// precision, along random directions: for a direction u in the weights w of one role,
//
//   <grad, u>  against  (8 (L(w + h u) - L(w - h u)) - (L(w + 2h u) - L(w - 2h u))) / 12 h  =  dL/du + O(h^4)
//
// Where a stop_gradient cuts a path, the gradient is that of a loss in which the cut value is a constant. So
// L(w + h u) is evaluated with the results of all stop_gradients as they are at w: what is declared to be cut
// is not held against a gradient, and an error anywhere else is found as before.
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

/// Both truncation and rounding of the difference stay orders below this; a wrong term does not.
inline constexpr double kGradientTolerance = 1e-6;

struct GradientCheck {
  double loss = 0;
  std::vector<GradientCheckRow> rows;  // `directions` for each role, in the order of the parameters
  bool passed() const;
};

/// The stop_gradients that keep a gradient of the loss from a trainable weight, as "blocks.0.attn.gate, of
/// mul at blocks.0.attn.gate", in the order of the program `grad`, which `module` has.
std::vector<std::string> gradient_cuts(const ir::Module& module);

/// `module` has the program `grad` (programs::add_grad_program). The weights are perturbed by normal noise of
/// deviation 0.02 first, so that no zero or symmetry of a fresh network hides an error; images are normal,
/// labels uniform. All of it is drawn from `seed`.
GradientCheck check_gradients(const ir::Module& module, const TensorMap& weights, std::uint64_t seed,
                              std::int64_t directions);

}  // namespace rewire::runtime
