// Does an engine compute a training program as the evaluator does? One run of `forward` and of `grad` on
// each, from the same weights and inputs (check_point.h).
//
// What a program with 16-bit values may be off by depends on the network: it is measured. A third engine, the
// evaluator with every value rounded to its dtype, is off by e; the engine may be off by twice that, for it
// rounds in other places, and by one rounding of bf16, 2^-9, for a tensor where e is small by chance:
//   error <= f32's tolerance + 2 e + 2^-9
//
// Likewise where products may be of TF32, with 2^-10: its last place, for a device may cut off where the
// evaluator rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/host_tensor.h"

namespace rewire::runtime {

/// Relative L2 errors that f32 stays below: of a result of forward and the loss, and of a gradient.
inline constexpr double kEngineOutputTolerance = 1e-5;
inline constexpr double kEngineGradientTolerance = 1e-4;

struct EngineCheckRow {
  std::string what;           // a result of forward, "loss", or the role of weights
  std::string worst;          // the tensor with the largest error of those
  std::int64_t elements = 0;  // of all of them
  double error = 0;  // |x - y| / max(|y|, f), f = 1e-6 of the norm of all gradients for a gradient, else 0
  double tolerance = 0;                               // of the worst tensor
  bool passed() const { return error <= tolerance; }  // false for a NaN
};

struct EngineCheck {
  std::vector<EngineCheckRow> rows;  // outputs, loss, gradients by role in the order of the parameters
  bool passed() const;
};

/// `module` has `forward` and the program `grad` (add_grad_program), and all engines run it; their state is
/// overwritten. `rounded` (Rounding::dtypes) is for a module with 16-bit values or TF32, nullptr without.
EngineCheck check_engine(Engine& engine, Engine& evaluator, const ir::Module& module,
                         const TensorMap& weights, std::uint64_t seed, Engine* rounded = nullptr);
/// Whether a program of the module holds a bf16 or f16.
bool has_narrow_values(const ir::Module& module);

}  // namespace rewire::runtime
