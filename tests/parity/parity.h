// Compares an engine with the goldens that PyTorch made in float64 (tests/reference): logits, loss, every
// gradient, and what twenty optimizer steps do. Engine, element type and the rewrite of the joins are
// parameters, so that every backend and every strategy is held to the same numbers by the same code.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/engine.h"

namespace rewire::parity {

/// One file of tests/reference/goldens; its README.md names the tensors.
struct Golden {
  std::string name;
  ir::Selection model{"vit"}, objective{"supervised"};
  std::string output = "logits";     // the result of forward that it has
  std::vector<std::string> plugins;  // their specs, in order
  std::int64_t batch = 0;
  std::int64_t seed = 0;  // of what is drawn at random
  std::map<std::string, programs::TrainOptions> runs;
  runtime::TensorMap tensors;
};
/// `name` as "vit_token_plain".
Golden read_golden(const std::string& name);
/// Where they are: tests/reference/goldens, or what was set.
const std::filesystem::path& golden_folder();
void set_golden_folder(const std::filesystem::path& folder);

struct Backend {
  std::function<std::unique_ptr<runtime::Engine>(const ir::Module&)> make_engine;
  /// f64 turns every f32 of the module into f64, so that the evaluator's results are not rounded on their way
  /// out.
  ir::DType dtype = ir::DType::f32;
  /// Applied to the model before programs are added; empty for plain joins.
  std::function<void(ir::Module&)> rewrite;
};

/// A fresh engine with the golden's weights; optimizer state starts at zero and `finite` at one.
std::unique_ptr<runtime::Engine> start_engine(const Golden& golden, const Backend& backend,
                                              const ir::Module& module);

/// Relative L2 errors. A gradient's is over max(its norm, 1e-6 of the norm of all gradients); over the latter where
/// it is zero but for rounding.
struct Tolerance {
  double output = 0, gradient = 0;
  double losses = 0;   // each step's loss and learning rate
  double weights = 0;  // error of the last weights over the way they went
};
/// Of what computes in f64. The last weights are stored as f32 in the golden: 2^-24 of a weight is some 1e-6 of the
/// way it went.
inline constexpr Tolerance kExact{1e-12, 1e-10, 1e-10, 1e-5};
/// Of a backend in f32.
inline constexpr Tolerance kSingle{1e-5, 1e-4, 1e-4, 1e-4};

/// forward and grad on the first batch; forward in training too where the golden has its logits.
void check_gradients(const Golden& golden, const Backend& backend, const Tolerance& tolerance);
/// The golden's run of this name (adamw, sgd, nesterov, multistep), by its batches in turn.
void check_run(const Golden& golden, const std::string& run, const Backend& backend,
               const Tolerance& tolerance);
/// Both, with every run that the golden has.
void check_golden(const Golden& golden, const Backend& backend, const Tolerance& tolerance);

}  // namespace rewire::parity
