// All programs of a run in one module, so that one engine holds one state for them. A phase is a range of
// epochs in which the same plugins are on: it has programs of its own. Parameters are the union over phases,
// shared by name, and all of them exist from the start.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/passes/mixed_precision.h"
#include "ir/passes/recompute.h"
#include "programs/input.h"
#include "programs/programs.h"
#include "runtime/io/host_tensor.h"
#include "runtime/plugin/plugin.h"
#include "runtime/recipe/recipe.h"

namespace rewire::programs {
class Objective;
}

namespace rewire::runtime {

/// A network before its plugins, for any batch size.
struct NetworkSource {
  std::function<ir::Module(std::int64_t batch)> forward;
  std::vector<PluginHandle> plugins;
  std::uint64_t seed = 0;
  std::optional<ir::MixedPrecision> precision;  // nothing: f32 throughout
  bool tf32 = false;                            // products of f32 may be of TF32
  ir::Recompute recompute = ir::Recompute::cheap;
  /// The network for images of so many pixels a side, over the same weights: what objectives of several sizes ask for.
  std::function<ir::Module(std::int64_t batch, std::int64_t side)> resized = {};
  /// The network without what stands behind its features, over some of the same weights: what eval.knn asks for.
  std::function<ir::Module(std::int64_t batch)> backbone = {};

  /// What `form` takes for a batch.
  ir::Module of(const programs::Form& form, std::int64_t batch) const {
    return form.side == 0 ? forward(batch * form.images) : resized(batch * form.images, form.side);
  }
};

/// Whether the network is of any batch size: that of a file has its own.
bool takes_any_batch(const NetworkSource& source);
/// `forward` as the plugins that are on in `epoch` leave it.
ir::Module rewritten_forward(const NetworkSource& source, std::int64_t batch, std::int64_t epoch);
/// A `forward` that plugins have rewritten as it is computed: in the source's precision, and with what it says of
/// what gradients compute again.
void set_precision(ir::Module& module, const NetworkSource& source);
/// Both.
ir::Module computed_forward(const NetworkSource& source, std::int64_t batch, std::int64_t epoch);
/// Those that are of a part which the network has: what is of a decoder says nothing to an encoder alone.
std::vector<PluginHandle> plugins_of_parts(const std::vector<PluginHandle>& plugins,
                                           const ir::Module& forward);
/// Modules of one `forward` each, those of the forms, as one of all their functions. UserError where they do not share
/// all their weights.
ir::Module join_forms(const std::vector<programs::Form>& forms, std::vector<ir::Module> modules);
/// What the objective trains on of the network as it is before its plugins, for a batch of 1.
programs::Inputs training_inputs(const NetworkSource& source, const programs::Objective& objective);
/// The functions that training calls for a batch, rewritten and as they are computed.
ir::Module computed_forms(const NetworkSource& source, const std::vector<programs::Form>& forms,
                          std::int64_t batch, std::int64_t epoch);

/// The names of a phase's programs: "step", "eval", … in the first, "step_from_3" in the one that begins with
/// epoch 3.
struct Phase {
  std::int64_t first_epoch = 0;
  std::string suffix;
  programs::Metrics train_metrics, eval_metrics;
  std::vector<std::string>
      pictures;  // results of the program pictures, in order; none: there is no such program
  std::string program(const std::string& kind) const { return kind + suffix; }
};

struct RunPrograms {
  ir::Module module;  // verified
  std::vector<Phase> phases;
  const Phase& phase_of(std::int64_t epoch) const;
  std::int64_t refresh_period = 0;  // steps between two runs of the program refresh; 0: there is none
  /// Of all programs.
  std::vector<std::string> names() const;
};

struct RunShape {
  std::int64_t batch = 0, eval_batch = 0, epochs = 0;
  bool features = false;                      // whether evaluation reads them
  std::int64_t competing = 0;                 // classes in evaluation (DataFeed::competing)
  std::int64_t pictures = 0;                  // samples that an evaluation draws; 0: none
  std::int64_t diagnose_batch = 0;            // 0: no program diagnose
  std::vector<std::string> diagnostics = {};  // what that one tells
};

/// Programs step (or accumulate and apply) for `batch` images and eval for `eval_batch`, for each phase; where
/// averages are kept, eval_ema too, which tells what eval tells; features(image) -> (features f32[batch, width]) and
/// features_ema of the network without its head where evaluation reads them. Where pictures are asked for, what draws those
/// of the objective, from the averages where they are kept: pictures for `eval_batch` images, or sample_step for
/// `pictures`; diagnose (programs/diagnose.h) where it is asked for. UserError where the network has no features of an image alone, two phases disagree about a parameter, or a
/// plugin begins after the last epoch.
RunPrograms make_run_programs(const NetworkSource& source, const programs::TrainOptions& options,
                              const RunShape& shape);

/// The program eval for `shape.eval_batch` images of the network of `epoch`, with the parameters of all phases: what the
/// weights of a run's checkpoint are read into.
struct EvalModule {
  ir::Module module;
  programs::Metrics metrics;
};
EvalModule make_eval_module(const NetworkSource& source, const Recipe& recipe, const RunShape& shape,
                            std::int64_t epoch);

/// The programs sample_step and sample_correct for `images` samples, guided or not, of the network of `epoch`.
ir::Module make_sample_module(const NetworkSource& source, const ir::Selection& objective,
                              std::int64_t images, const programs::SampleOptions& options, std::int64_t epoch,
                              std::int64_t epochs);

/// The weights that a run begins with: those of epoch 0's network, then what later phases add. Where a plugin
/// that goes on later would initialise others of them, the log has a line.
TensorMap initial_weights(const NetworkSource& source, const RunPrograms& programs);

}  // namespace rewire::runtime
