// A recipe says how a network is built, rewritten, fed and trained; it is read from TOML into typed options.
// It has the sections [model] [[plugin]] [data] [transforms] [[view]] [objective] [optimizer] [schedule]
// [train] [eval] [diagnose] and the key `seed`; runtime/recipe/keys.cpp lists every key. An unknown key, a
// wrong type and a value out of range are UserErrors with file, line and the remedy. A recipe written back
// by to_toml() reads as the same recipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/passes/mixed_precision.h"
#include "ir/passes/recompute.h"
#include "programs/diagnose.h"
#include "programs/programs.h"
#include "runtime/data/vision/presets.h"
#include "runtime/io/place.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// Keys of [data], beside `source`: which of its images are used, and how.
struct RecipeData {
  std::int64_t threads = 0;          // threads that prepare batches; 0: as the Target of a DataFeed asks
  std::int64_t prefetch = 4;         // most batches prepared ahead
  std::int64_t aug_repeats = 1;      // times in a row that a training image comes
  std::string train_list;            // a file that names the training images to use; "": all
  double train_fraction = 1;         // share of each class's training images
  std::string unreadable = "error";  // error | skip
  std::string changed = "refuse";    // refuse | accept: data other than a resumed run was trained on
  std::string cache;                 // folder of decoded images; "": none
};

/// Keys of [train].
struct RecipeTrain {
  std::int64_t batch = 64;
  std::int64_t epochs = 10;
  std::int64_t max_steps = 0;        // steps after which the run is complete; 0: after its epochs
  std::string dtype = "f32";         // f32 | bf16: dtype of products; weights and the optimizer are f32
  std::string stream_dtype = "f32";  // f32 | bf16: dtype of the residual stream, with dtype bf16
  bool tf32 = false;                 // products of f32 round their operands to TF32, on a GPU
  std::string recompute = "auto";    // auto | none | block: which values gradients recompute
  std::string weights;               // safetensors to start from, over the fresh initialisation; "": none
  std::string weights_prefix;        // prefix of the tensors to read in `weights`; dropped from their names
  std::string resample_positions = "false";  // rule for a position embedding of another grid in `weights`
  bool new_head = false;                     // a fresh head; `weights` may have other classes
  bool other_strategy = false;               // `weights` may be of a network with other plugins
  std::string extra_weights = "error";       // error | ignore: tensors of `weights` that the network lacks
  double clip_norm = 0;                      // 0: no clipping
  std::string clip = "all";                  // all | each: whose norm clip_norm bounds
  std::int64_t accumulate = 1;
  std::int64_t shards = 0;  // parts of a batch that processes share; 0: one for each process
  std::int64_t zero = 0;    // 1: each process updates a part of the weights and has the states for it alone
  std::string on_switch = "keep";  // keep | reset: the optimizer's state when an epoch switches a plugin
  double ema = 0;                  // decay of the weights' moving averages; 0: no averages
  bool ema_warmup = false;         // the decay rises to `ema`
  double ema_end = -1;             // the decay at the end of the run; below 0: it stays
  std::string best_metric;         // the evaluation's metric that selects the best checkpoint; "": its first
  std::int64_t patience = 0;       // evaluations without a better one that end the run; 0: no limit
  std::int64_t log_every = 50;     // steps between two lines of metrics.jsonl
  double checkpoint_every = 1;     // epochs; 0.25: four times an epoch
  std::int64_t keep = 2;           // last checkpoints that stay
  std::int64_t threads = 0;        // compute threads; 0: usable_cores()
  bool events = true;              // event files for TensorBoard
  bool report = true;              // report.html, written anew after evaluations

  std::int64_t shard_count() const { return shards == 0 ? 1 : shards; }
  /// Returns the samples that a step program takes at once.
  std::int64_t shard_batch() const { return batch / shard_count(); }
  /// Returns how often a step program runs in a step.
  std::int64_t shard_batches() const { return accumulate * shard_count(); }
};

/// Keys of [eval].
struct RecipeEval {
  std::int64_t batch = 250;
  std::string classes = "all";  // classes that compete for an image; "present": the test images' classes
  std::int64_t every = 1;       // epochs
  std::int64_t knn = 0;  // nearest training images that vote for a test image's class by features; 0: none
  std::int64_t knn_images = 10000;  // training images to compare with: the first ones; 0: all
  std::int64_t pictures = 8;        // samples to draw; 0: none
  bool only_present() const { return classes == "present"; }
};

/// Keys of [diagnose].
struct RecipeDiagnose {
  std::int64_t every = 0;                              // updates between two lines; 0: none
  std::string what = programs::default_diagnostics();  // joined by '+'
  std::int64_t images = 0;                             // test images; 0: 64, or all if there are fewer
};

struct Recipe {
  std::int64_t seed = 0;
  ir::Selection model{"vit"};  // or the path of a .rir file
  std::vector<PluginSpec> plugins;
  ir::Selection source{"idx"};  // data.format, and its own keys of [data]
  RecipeData data;
  std::string preset = "none";  // transforms.preset
  ir::Attributes
      transforms;  // [transforms]; a value that is not set is the preset's, or else the schema's default
  std::vector<ViewSpec> views;  // [[view]]; none: the preset's
  ir::Selection objective{"supervised"}, optimizer{"adamw"}, schedule{"constant"};
  RecipeTrain train;
  RecipeEval eval;
  RecipeDiagnose diagnose;
};

/// Throws UserError unless train.shards is a power of two that divides train.batch.
void check_shards(const Recipe& recipe);

/// The author of a recipe. A run folder's recipe may have keys without effect, as earlier versions wrote it.
enum class RecipeOf : std::uint8_t { anyone, run };

/// Reads TOML; errors name `file_name`. Each override is "section.key=value" (or "seed=3") as --set gives
/// it, applied in order after the file; its value is TOML, and other text is a string. Also throws UserError
/// on a key without effect (keys.h). For a key of the file the file's own choices decide, unless it has its
/// default value; for an override, the choices in force. `recipe`: the values before the file is read.
Recipe parse_recipe(std::string_view text, std::string_view file_name,
                    const std::vector<std::string>& overrides = {}, RecipeOf of = RecipeOf::anyone,
                    Recipe recipe = {});
Recipe read_recipe(const FilePlace& place, const std::vector<std::string>& overrides = {},
                   RecipeOf of = RecipeOf::anyone);

/// Applies one override, "section.key=value"; errors name `place` instead of --set.
void apply_setting(Recipe& recipe, const std::string& setting, const std::string& place);

/// Returns the recipe as TOML for a run folder: every key that has a value and an effect, in the table's
/// order, with a preset's values instead of its name.
std::string to_toml(const Recipe& recipe);

/// Returns the options of the step program; an epoch of the schedule is `steps_per_epoch` optimizer steps.
programs::TrainOptions train_options(const Recipe& recipe, double steps_per_epoch);
/// Return [transforms] with the preset's values, and the views.
ir::Attributes transform_values(const Recipe& recipe);
const std::vector<ViewSpec>& views(const Recipe& recipe);
/// Returns the precision that train.dtype asks for; nothing for f32 throughout.
std::optional<ir::MixedPrecision> mixed_precision(const Recipe& recipe);

/// Returns the mode that train.recompute asks for.
ir::Recompute recompute_mode(const Recipe& recipe);

/// Applies --plugin flags: they replace the recipe's list, a lone "none" clears it, and no flag keeps it.
/// Throws UserError on text that is no plugin spec, and on "none" beside others.
void override_plugins(Recipe& recipe, const std::vector<std::string>& flags);

}  // namespace rewire::runtime
