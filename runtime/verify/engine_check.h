// Checks that an engine computes a training program like the evaluator: one run of `forward` and of `grad`
// on each, from the same weights and inputs (perturbed_state.h).
//
// Each tensor is first held to a fixed bound. If that is not enough, two things are measured:
// - 16-bit values, and products of TF32. The evaluator with every value rounded to its dtype is off by e.
//   The engine may be off by twice that, because it rounds in other places, and by one rounding for a tensor
//   whose e is small by chance: 2^-9 of bf16; 2^-10 of TF32, its last place, because a device may truncate.
// - Cancellation. Terms of a gradient that nearly cancel leave a small sum with the rounding errors of large
//   terms. The evaluator with errors of that size (ir/rounding_noise.h) scatters by s, the root mean square
//   of kNoiseRuns runs; the engine may be off by 4 s. If noise leaves an op's domain, s is not finite and
//   allows nothing:
//
//   error <= f32's bound (+ 2 e + one rounding)  or  error <= f32's bound (+ …) + 4 s
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Bounds of relative L2 errors in f32: for a result of forward and the loss, and for a gradient.
inline constexpr double kEngineOutputTolerance = 1e-5;
inline constexpr double kEngineGradientTolerance = 1e-4;
inline constexpr int kNoiseRuns = 8;
inline constexpr double kNarrowRounding = 0x1p-9;  // of bf16, half a unit in the last place
inline constexpr double kScatters = 4;             // of the noise's scatter

struct EngineCheckRow {
  std::string what;           // a result of forward or a kind of side results, "loss", the role of weights
  std::string worst;          // the tensor with the largest error of these
  std::int64_t elements = 0;  // of all of them
  double error = 0;  // |x - y| / max(|y|, f), f = 1e-6 of the norm of all gradients for a gradient, else 0
  double tolerance = 0;  // of the worst tensor
  std::string bound;     // the part that was needed: "fixed", "rounding" (2 e and one), "cancellation" (4 s)
  bool passed() const { return error <= tolerance; }  // false for a NaN
};

struct EngineCheck {
  std::vector<EngineCheckRow> rows;  // outputs, loss, gradients by role in the order of the parameters
  bool passed() const;
};

/// The runs of one program, from one state and on the same inputs.
struct ProgramRuns {
  std::string program;
  TensorMap inputs, actual, expected, rounded;
  std::vector<TensorMap> noisy;  // once they are asked for
};

/// Measures the error of an engine against a reference, tensor by tensor. All arguments must outlive it; the
/// engines' state is overwritten.
class EngineComparison {
 public:
  /// `state`: every parameter of the module.
  EngineComparison(Engine& engine, Engine& reference, const ir::Module& module, const TensorMap& state);

  ProgramRuns run(const std::string& program, TensorMap inputs) const;
  /// Compares the result `name`. `floor`: the least norm that errors are relative to; `fixed`: the bound of
  /// f32. `finite`: compares finite elements only, if rounding may decide which these are; else a value that
  /// is not finite fails.
  EngineCheckRow compare(const std::string& name, ProgramRuns& runs, double floor, double fixed,
                         bool finite = false) const;

 private:
  TensorMap run_from(Engine& engine, const ProgramRuns& runs) const;
  void make_noise(ProgramRuns& runs) const;
  bool rounding_decides(const std::string& name, ProgramRuns& runs) const;
  double scatter(const std::string& name, ProgramRuns& runs, double floor, bool finite) const;

  Engine& engine_;
  Engine& reference_;
  const ir::Module& module_;
  const TensorMap& state_;
  std::unique_ptr<Engine> rounded_;  // if values are narrow
  double rounding_ = 0;
};

/// Returns |actual - expected| / max(|expected|, floor); 0 if all three are 0.
double relative_error(const HostTensor& actual, const HostTensor& expected, double floor);
/// Returns that error over the elements that are finite in both. Infinite if the shapes differ, or an
/// element is not finite in one only, or is another infinity.
double finite_error(const HostTensor& actual, const HostTensor& expected, double floor);

/// Checks an engine. `module` has `forward` and the program `grad` (programs::add_grad_program). Both
/// engines run it; their state is overwritten. `reference` is the evaluator; a test of a device may use
/// another engine that was checked against it.
EngineCheck check_engine(Engine& engine, Engine& reference, const ir::Module& module,
                         const TensorMap& weights, std::uint64_t seed);
/// Returns true if a program of the module holds a bf16 or f16.
bool has_narrow_values(const ir::Module& module);

}  // namespace rewire::runtime
