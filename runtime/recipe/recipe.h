// A recipe: everything that says how a network is built, rewritten, fed and trained, read from TOML into
// typed options. Sections [model] [[plugin]] [data] [transforms] [[view]] [objective] [optimizer] [schedule] [train]
// [eval] [diagnose] and the key `seed`; runtime/recipe/keys.cpp lists every key. An unknown key, a wrong type and a
// value out of range are UserErrors with file, line and the way out. A recipe written back by to_toml() reads
// as the same recipe.
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

/// [data], beside `source`: which of its images are taken, and how.
struct RecipeData {
  std::int64_t threads = 1;          // that prepare batches
  std::int64_t prefetch = 4;         // batches prepared ahead, at most
  std::int64_t aug_repeats = 1;      // how often in a row a training image comes
  std::string train_list;            // a file that names the training images to take; "": all
  double train_fraction = 1;         // of each class's training images
  std::string unreadable = "error";  // error | skip
  std::string changed = "refuse";    // refuse | accept: data that are not what a resumed run was trained on
  std::string cache;                 // folder of decoded images; "": none
};

/// [train]
struct RecipeTrain {
  std::int64_t batch = 64;
  std::int64_t epochs = 10;
  std::int64_t max_steps = 0;        // after so many the run is complete, wherever it is; 0: after its epochs
  std::string dtype = "f32";         // f32 | bf16: of products; weights and the optimizer are f32
  std::string stream_dtype = "f32";  // f32 | bf16: of the residual stream, with dtype bf16
  bool tf32 = false;                 // products of f32 round their operands to TF32, on a GPU
  std::string recompute = "auto";    // auto | none | block: what gradients read that is computed again
  std::string weights;               // safetensors to start from, over the fresh initialisation; "": none
  std::string weights_prefix;        // of the names of those tensors in `weights` that are taken, without it
  std::string resample_positions = "false";  // of a position embedding in `weights` that is of another grid
  bool new_head = false;                     // instead of that of `weights`, which may have other classes
  bool other_strategy = false;               // whether `weights` may be of a network with other plugins
  std::string extra_weights = "error";       // error | ignore: tensors of `weights` that the network lacks
  double clip_norm = 0;                      // 0: no clipping
  std::string clip = "all";                  // all | each: whose norm clip_norm bounds
  std::int64_t accumulate = 1;
  std::string on_switch = "keep";  // keep | reset: the optimizer's state where an epoch switches a plugin
  double ema = 0;                  // decay of the weights' moving averages; 0: none are kept
  bool ema_warmup = false;         // which rises to that decay
  double ema_end = -1;             // that it reaches by the end of the run; below 0: it stays
  std::string best_metric;         // of an evaluation, that tells which checkpoint is the best; "": its first
  std::int64_t patience = 0;       // evaluations without a better one that end the run; 0: none do
  std::int64_t log_every = 50;     // steps from one line of metrics.jsonl to the next
  double checkpoint_every = 1;     // epochs; 0.25: four times an epoch
  std::int64_t keep = 2;           // checkpoints: the last ones
  std::int64_t threads = 0;        // that compute; 0: usable_cores()
  bool events = true;              // event files for TensorBoard
  bool report = true;              // report.html, anew behind evaluations
};

/// [eval]
struct RecipeEval {
  std::int64_t batch = 250;
  std::string classes = "all";  // that compete for an image; "present": those of the test images
  std::int64_t every = 1;       // epochs
  std::int64_t knn = 0;  // nearest training images that tell a test image's class by its features; 0: none do
  std::int64_t knn_images = 10000;  // training images that are compared with: the first ones; 0: all
  std::int64_t pictures = 8;        // samples that are drawn; 0: none
  bool only_present() const { return classes == "present"; }
};

/// [diagnose]
struct RecipeDiagnose {
  std::int64_t every = 0;                              // updates from one line to the next; 0: none
  std::string what = programs::default_diagnostics();  // joined by '+'
  std::int64_t images = 0;                             // test images; 0: 64, or all where there are fewer
};

struct Recipe {
  std::int64_t seed = 0;
  ir::Selection model{"vit"};  // or the path of a .rir file
  std::vector<PluginSpec> plugins;
  ir::Selection source{"idx"};  // data.format, and the keys of [data] that are its own
  RecipeData data;
  std::string preset = "none";  // transforms.preset
  ir::Attributes
      transforms;  // [transforms]; what is not told has the preset's value, or the schema's default
  std::vector<ViewSpec> views;  // [[view]]; none: the preset's
  ir::Selection objective{"supervised"}, optimizer{"adamw"}, schedule{"constant"};
  RecipeTrain train;
  RecipeEval eval;
  RecipeDiagnose diagnose;
};

/// Who wrote a recipe: that of a run folder may hold keys without effect, as earlier versions wrote it.
enum class RecipeOf : std::uint8_t { anyone, run };

/// Reads TOML; `file_name` stands in the errors. Each override is "section.key=value" (or "seed=3") as --set
/// gives it, applied in order after the file; the value is TOML, and text that is no TOML is a string.
/// UserError also on a key without effect (keys.h): of the file by the file's own choices, unless it has its
/// default value; of the overrides by those in force. `recipe`: what stands before the file is read.
Recipe parse_recipe(std::string_view text, std::string_view file_name,
                    const std::vector<std::string>& overrides = {}, RecipeOf of = RecipeOf::anyone,
                    Recipe recipe = {});
Recipe read_recipe(const FilePlace& place, const std::vector<std::string>& overrides = {},
                   RecipeOf of = RecipeOf::anyone);

/// One override, "section.key=value"; `place` stands in its errors instead of --set.
void apply_setting(Recipe& recipe, const std::string& setting, const std::string& place);

/// The recipe as TOML, every key that has a value and an effect in the table's order, a preset's values among
/// them instead of its name: what a run folder keeps.
std::string to_toml(const Recipe& recipe);

/// What the step program is built from; an epoch of the schedule is `steps_per_epoch` optimizer steps.
programs::TrainOptions train_options(const Recipe& recipe, double steps_per_epoch);
/// [transforms] with the preset's values; and the views.
ir::Attributes transform_values(const Recipe& recipe);
const std::vector<ViewSpec>& views(const Recipe& recipe);
/// How train.dtype asks the network to be computed; nothing for f32 throughout.
std::optional<ir::MixedPrecision> mixed_precision(const Recipe& recipe);

/// How train.recompute asks for it.
ir::Recompute recompute_mode(const Recipe& recipe);

/// The plugins that --plugin flags ask for: they replace the recipe's list; a lone "none" clears it; no flag
/// keeps it. UserError on text that is no plugin spec, and on "none" beside others.
void override_plugins(Recipe& recipe, const std::vector<std::string>& flags);

}  // namespace rewire::runtime
