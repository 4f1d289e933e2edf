// All programs of a run in one module, so that one engine holds one state for them. A phase is a range of
// epochs with the same plugins on; each phase has its own programs. Parameters are the union over phases,
// shared by name, and all exist from the start.
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
  bool tf32 = false;                            // products of f32 may use TF32
  ir::Recompute recompute = ir::Recompute::cheap;
  /// The network for images of `side` pixels a side, over the same weights, for objectives with several
  /// sizes.
  std::function<ir::Module(std::int64_t batch, std::int64_t side)> resized = {};
  /// The network up to its features, over some of the same weights, for eval.knn.
  std::function<ir::Module(std::int64_t batch)> backbone = {};

  /// Returns the module of `form` for a batch.
  ir::Module of(const programs::NetworkFunction& form, std::int64_t batch) const {
    return form.side == 0 ? forward(batch * form.images) : resized(batch * form.images, form.side);
  }
};

/// Returns true if the network takes any batch size; one from a file has its own.
bool takes_any_batch(const NetworkSource& source);
/// Returns `forward` after the plugins that are on in `epoch`.
ir::Module rewritten_forward(const NetworkSource& source, std::int64_t batch, std::int64_t epoch);
/// Applies the source's precision to a rewritten `forward`, and its choice of what gradients recompute.
void set_precision(ir::Module& module, const NetworkSource& source);
/// Returns rewritten_forward() with set_precision() applied.
ir::Module computed_forward(const NetworkSource& source, std::int64_t batch, std::int64_t epoch);
/// Returns the plugins for parts that the network has: a decoder's plugin does not concern an encoder alone.
std::vector<PluginHandle> plugins_of_parts(const std::vector<PluginHandle>& plugins,
                                           const ir::Module& forward);
/// Joins modules with one `forward` each, one for each form, into one module with all functions. Throws
/// UserError if they do not share all weights.
ir::Module join_forms(const std::vector<programs::NetworkFunction>& forms, std::vector<ir::Module> modules);
/// Returns the objective's training inputs for the network before its plugins, for a batch of 1.
programs::Inputs training_inputs(const NetworkSource& source, const programs::Objective& objective);
/// Returns the functions that training calls for a batch, rewritten and in the source's precision.
ir::Module computed_forms(const NetworkSource& source, const std::vector<programs::NetworkFunction>& forms,
                          std::int64_t batch, std::int64_t epoch);

/// A phase and the names of its programs: "step", "eval", … in the first, "step_from_3" in the one that
/// begins with epoch 3.
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
  /// Returns the names of all programs.
  std::vector<std::string> names() const;
};

struct RunShape {
  std::int64_t batch = 0, eval_batch = 0, epochs = 0;
  bool features = false;                      // evaluation reads them
  std::int64_t competing = 0;                 // classes in evaluation (DataFeed::competing)
  std::int64_t pictures = 0;                  // samples that an evaluation draws; 0: none
  std::int64_t diagnose_batch = 0;            // 0: no program diagnose
  std::vector<std::string> diagnostics = {};  // reported by diagnose
};

/// Makes these programs for each phase:
///   step (or accumulate and apply) for `batch` images, eval for `eval_batch`
///   eval_ema, with the metrics of eval, if averages are kept
///   features(image) -> (features f32[batch, width]) of the network without its head, and features_ema, if
///     evaluation reads them
///   pictures for `eval_batch` images, or sample_step for `pictures`, if pictures of the objective are asked
///     for; from the averages if they are kept
///   diagnose (programs/diagnose.h) if it is asked for
/// Throws UserError if the network has no features of an image alone, two phases disagree about a parameter,
/// or a plugin begins after the last epoch.
RunPrograms make_run_programs(const NetworkSource& source, const programs::TrainOptions& options,
                              const RunShape& shape);

/// The program eval for `shape.eval_batch` images of the network of `epoch`. It has the parameters of all
/// phases, so that it can load the weights of a run's checkpoint.
struct EvalModule {
  ir::Module module;
  programs::Metrics metrics;
};
EvalModule make_eval_module(const NetworkSource& source, const Recipe& recipe, const RunShape& shape,
                            std::int64_t epoch);

/// Makes the programs sample_step and sample_correct for `images` samples, guided or not, of the network of
/// `epoch`.
ir::Module make_sample_module(const NetworkSource& source, const ir::Selection& objective,
                              std::int64_t images, const programs::SampleOptions& options, std::int64_t epoch,
                              std::int64_t epochs);

/// Makes the programs that draw text (programs/generate.h) with the network of `epoch`: read_1 and read_N, N =
/// prompt_tokens(), or if nothing is cached `whole`. Throws UserError if the network mixes tokens outside causal
/// attention, and something is cached.
ir::Module make_generate_module(const NetworkSource& source, bool cached, std::int64_t epoch,
                                std::int64_t epochs);

/// Returns a run's first weights: epoch 0's network, then the weights that later phases add. Logs a warning
/// if a plugin that is switched on later would initialise some of them differently.
TensorMap initial_weights(const NetworkSource& source, const RunPrograms& programs);

}  // namespace rewire::runtime
