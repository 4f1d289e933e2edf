#include "runtime/recipe/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "models/model.h"
#include "programs/objective.h"
#include "programs/optimizer.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

using ir::Bounds;
using ir::ParameterKind;
using ir::ParameterSpec;

constexpr Bounds kNotNegative{0};
constexpr Bounds kAtLeastOne{1};
constexpr Bounds kSeed{0, 9007199254740992};  // 2^53: the evaluator holds integers as doubles
constexpr Bounds kPositive{.min = 0, .min_excluded = true};
// Bounds of counts and durations: the product of any two of them is far from overflow.
constexpr Bounds kCount{1, 1e9};
constexpr Bounds kBatch{1, 1e6};  // the models' bound
constexpr double kMostPictures = 64;

const RecipeCondition kNoFile{[](const Recipe& r) { return !r.model.name.ends_with(".rir"); },
                              "a model of the zoo (a module's shapes are fixed in its file)"};

ParameterKind kind_of(const RecipeTarget& target, bool is_choice) {
  if (is_choice) return ParameterKind::choice;
  constexpr ParameterKind kKinds[] = {ParameterKind::boolean, ParameterKind::integer, ParameterKind::number,
                                      ParameterKind::text, ParameterKind::numbers};
  return kKinds[target.index()];
}

RecipeKey row(std::string_view section, std::string_view name, RecipeTarget target, std::string_view doc,
              Bounds bounds = {}, std::vector<std::string> choices = {}) {
  RecipeKey key;
  key.section = section;
  key.spec.name = name;
  key.spec.doc = doc;
  key.spec.kind = kind_of(target, !choices.empty());
  key.spec.bounds = bounds;
  key.spec.values = std::move(choices);
  key.target = target;
  return key;
}

RecipeKey path_row(std::string_view section, std::string_view name, RecipeTarget target,
                   std::string_view doc) {
  RecipeKey key = row(section, name, target, doc);
  key.spec.is_path = true;
  return key;
}

/// Adds the parameters of all `residents`, from which the key `chooser` of their section selects one. A
/// parameter has an effect if the selected resident has it. It then takes that resident's default and
/// bounds. `only`: a condition for all of them.
template <class Row>
void add_parameters(std::vector<RecipeKey>& keys, const RecipeKey& chooser, ir::Selection Recipe::* selection,
                    Recipe& recipe, std::span<const Row* const> residents, const RecipeCondition& only = {}) {
  const std::string section = chooser.section;
  ir::Selection& selected = recipe.*selection;
  for (const Row* resident : residents) {
    for (const ParameterSpec& spec : resident->schema) {
      const bool known = std::ranges::any_of(
          keys, [&](const RecipeKey& key) { return key.section == section && key.spec.name == spec.name; });
      if (known) continue;
      std::vector<std::string> owners;
      for (const Row* owner : residents) {
        if (ir::find_parameter(owner->schema, spec.name) != nullptr) owners.emplace_back(owner->name);
      }
      // A name that no resident has is reported later, as an unknown name.
      const auto has_it = [selection, owners, names = ir::row_names(residents), only](const Recipe& r) {
        if (only.holds != nullptr && !only.holds(r)) return false;
        const std::string& name = (r.*selection).name;
        return std::ranges::find(owners, name) != owners.end() ||
               std::ranges::find(names, name) == names.end();
      };
      const auto selected_row = std::ranges::find(residents, selected.name, &Row::name);
      const ParameterSpec* own =
          selected_row == residents.end() ? nullptr : ir::find_parameter((*selected_row)->schema, spec.name);
      RecipeCondition condition = only;
      if (owners.size() < residents.size())
        condition = {has_it, fmt::format("{}={}", chooser.path(), fmt::join(owners, "|"))};
      keys.push_back({section, own != nullptr ? *own : spec, &selected.values, condition});
      for (const Row* owner : residents) {
        if constexpr (requires { owner->family; }) {
          if (!owner->values.empty()) continue;  // a variant has its family's parameters
        }
        if (const ParameterSpec* theirs = ir::find_parameter(owner->schema, spec.name))
          keys.back().owners.push_back(
              {std::string(owner->name), ir::value_text(theirs->default_value), theirs->doc});
      }
    }
  }
}

/// Returns the parameters of all transforms, with the defaults that the preset gives.
std::vector<ParameterSpec> transform_parameters(std::string_view preset) {
  const auto presets = transform_presets();
  const auto selected = std::ranges::find(presets, preset, &TransformPreset::name);
  std::vector<ParameterSpec> specs;
  for (const TransformRow* transform : transforms()) {
    for (ParameterSpec spec : transform->schema) {
      const ir::Attribute* value = selected == presets.end() ? nullptr : (*selected)->values.find(spec.name);
      if (value != nullptr) spec.default_value = *value;
      specs.push_back(std::move(spec));
    }
  }
  return specs;
}

}  // namespace

std::string RecipeKey::path() const {
  return section.empty() ? spec.name : fmt::format("{}.{}", section, spec.name);
}

ir::Attribute RecipeKey::value() const {
  return std::visit(
      [&](const auto* held) -> ir::Attribute {
        using T = std::decay_t<decltype(*held)>;
        if constexpr (std::is_same_v<T, ir::Attributes>) {
          const ir::Attribute* given = held->find(spec.name);
          return given != nullptr ? *given : spec.default_value;
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return ir::Doubles(*held);
        } else {
          return *held;
        }
      },
      target);
}

void RecipeKey::set(ir::Attribute given) const {
  ir::Attribute accepted = spec.accept(std::move(given), path());
  if (check_words != nullptr) check_words(std::get<std::string>(accepted), path());
  std::visit(
      [&](auto* held) {
        using T = std::decay_t<decltype(*held)>;
        if constexpr (std::is_same_v<T, ir::Attributes>) {
          held->set(spec.name, std::move(accepted));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          *held = std::get<ir::Doubles>(std::move(accepted));
        } else {
          *held = std::get<T>(std::move(accepted));
        }
      },
      target);
}

std::vector<RecipeKey> recipe_keys(Recipe& recipe) {
  RecipeData& data = recipe.data;
  RecipeTrain& train = recipe.train;
  RecipeEval& eval = recipe.eval;
  RecipeDiagnose& diagnose = recipe.diagnose;
  std::vector<RecipeKey> keys = {
      row("", "seed", &recipe.seed,
          "seed of initial weights, data order, augmentation and everything else that is random", kSeed)};
  const auto choose = [&](std::string_view section, std::string_view name, ir::Selection Recipe::* selection,
                          const auto& rows, std::string_view doc, bool by_name_alone = true) {
    RecipeKey chooser = row(section, name, &(recipe.*selection).name, doc, {},
                            by_name_alone ? ir::row_names(rows) : std::vector<std::string>());
    chooser.selects = true;
    chooser.residents = ir::named_docs(rows);
    keys.push_back(chooser);
    add_parameters(keys, chooser, selection, recipe, rows, by_name_alone ? RecipeCondition() : kNoFile);
  };
  choose("model", "name", &Recipe::model, models::models(),
         "the network: a model of the zoo, which rewire models lists, or a .rir module",
         /*by_name_alone=*/false);
  choose("data", "format", &Recipe::source, sources(), "how the data are stored");
  keys.push_back(
      row("data", "threads", &data.threads,
          "threads that prepare batches; 0: one per core that the process may use if the steps are "
          "computed on a GPU (ranks of one host divide the cores that they share), and one in all if "
          "they are computed on these cores",
          {0, 256}));
  keys.push_back(
      row("data", "prefetch", &data.prefetch, "largest number of batches prepared ahead", {1, 1024}));
  keys.push_back(row("data", "aug_repeats", &data.aug_repeats,
                     "repeated augmentation: how often each training image comes in a row, augmented anew "
                     "each time; the number of batches per epoch stays the same",
                     {1, 1000}));
  keys.push_back(path_row("data", "train_list", &data.train_list,
                          "file that lists the training images to use, one per line; empty: all"));
  keys.push_back(row("data", "train_fraction", &data.train_fraction,
                     "share of each class's training images that is used, the same images for every seed",
                     {.min = 0, .max = 1, .min_excluded = true}));
  keys.push_back(row("data", "unreadable", &data.unreadable,
                     "what happens at an image that cannot be read; error: the run ends; skip: the image is "
                     "left out and counted",
                     {}, {"error", "skip"}));
  keys.push_back(row("data", "changed", &data.changed,
                     "what --resume does if the data have changed since the run began; refuse: it ends; "
                     "accept: it continues with the new data in the next epoch",
                     {}, {"refuse", "accept"}));
  keys.push_back(path_row("data", "cache", &data.cache,
                          "folder of decoded images, or of a text's tokens, filled on first use; empty: no "
                          "decoded images, and tokens in Rewire's own cache"));
  RecipeKey preset = row("transforms", "preset", &recipe.preset,
                         "a named set of values for this section; the recipe overrides single values", {},
                         ir::row_names(transform_presets()));
  preset.residents = ir::named_docs(transform_presets());
  preset.selects = true;
  keys.push_back(preset);
  for (ParameterSpec& spec : transform_parameters(recipe.preset))
    keys.push_back({"transforms", std::move(spec), &recipe.transforms});
  choose("objective", "name", &Recipe::objective, programs::objectives(),
         "what the network is trained for; the default depends on the model");
  choose("optimizer", "name", &Recipe::optimizer, programs::optimizers(), "update rule of the weights");
  choose("schedule", "name", &Recipe::schedule, programs::schedules(), "learning rate after the warm-up");
  const std::vector<RecipeKey> run = {
      row("train", "batch", &train.batch, "samples per batch", kBatch),
      row("train", "epochs", &train.epochs, "passes over the training set", kCount),
      row("train", "max_steps", &train.max_steps, "end the run after this many steps; 0: after train.epochs",
          {0, kCount.max}),
      row("train", "dtype", &train.dtype,
          "precision; f32: everything in f32; bf16: matrix products with bf16 operands, f32 weights and sums",
          {}, {"f32", "bf16"}),
      row("train", "stream_dtype", &train.stream_dtype,
          "type of the residual stream; f32; bf16, which needs train.dtype=bf16", {}, {"f32", "bf16"}),
      row("train", "tf32", &train.tf32,
          "round the operands of f32 matrix products to TF32; needs --device cuda"),
      row("train", "recompute", &train.recompute,
          "activations that the backward pass computes again instead of keeping; none: keep all; auto: "
          "those that cost less to compute than to keep; block: everything inside a block",
          {}, {"auto", "none", "block"}),
      path_row("train", "weights", &train.weights,
               "safetensors file with initial weights; weights of plugins may be missing in it; empty: none"),
      row("train", "weights_prefix", &train.weights_prefix,
          "take only the tensors of train.weights whose names begin with this prefix, and remove it; empty: "
          "the prefix is found from the names"),
      row("train", "resample_positions", &train.resample_positions,
          "resize the position embeddings of train.weights to this resolution; false: refuse another "
          "resolution; true: as the model's own code does; timm, deit, pvt: as that code does",
          {}, {"false", "true", "timm", "deit", "pvt"}),
      row("train", "new_head", &train.new_head,
          "start the head afresh if train.weights has other classes or no head"),
      row("train", "extra_weights", &train.extra_weights,
          "what happens at tensors of train.weights that the network lacks; error: the run ends; ignore: "
          "they are left out",
          {}, {"error", "ignore"}),
      row("train", "other_strategy", &train.other_strategy,
          "accept train.weights of a network with other plugins or other plugin values"),
      row("train", "clip_norm", &train.clip_norm,
          "scale gradients down to this norm if theirs is larger; 0: no clipping", kNotNegative),
      row("train", "clip", &train.clip,
          "norm that train.clip_norm limits; all: of all gradients together; each: of each gradient", {},
          {"all", "each"}),
      row("train", "accumulate", &train.accumulate, "batches whose gradients are summed into one step",
          kCount),
      row("train", "shards", &train.shards,
          "parts of a batch, which processes share: results depend on their number, not on that of "
          "processes; a "
          "power of two; batch norm, mixup and cutmix see one part; 0: one for each process",
          {0, kCount.max}),
      row("train", "zero", &train.zero,
          "stage of ZeRO; 1: with several processes each updates a part of the weights, and only it has the "
          "optimizer's "
          "states of these; 0: each updates all. The results are the same",
          {0, 1}),
      row("train", "on_switch", &train.on_switch,
          "optimizer's state at an epoch that switches a plugin on or off; keep: unchanged; reset: as in a "
          "new run",
          {}, {"keep", "reset"}),
      row("train", "ema", &train.ema,
          "decay of the weights' exponential moving average; 0: no average is kept",
          {.min = 0, .max = 1, .max_excluded = true}),
      row("train", "ema_warmup", &train.ema_warmup,
          "let the decay of the average rise from 0, as 1 - t^(-2/3) after step t"),
      row("train", "ema_end", &train.ema_end,
          "decay of the average at the end of the run, reached along half a cosine; below 0: constant",
          {-1, 1}),
      row("train", "best_metric", &train.best_metric,
          "metric that selects the best checkpoint, as top1, ema_top1 or knn_top1; empty: the loss"),
      row("train", "patience", &train.patience,
          "end the run after this many evaluations without a new best; 0: never", {0, kCount.max}),
      row("train", "log_every", &train.log_every, "steps between two lines of metrics.jsonl", kAtLeastOne),
      row("train", "checkpoint_every", &train.checkpoint_every,
          "epochs between two checkpoints; 0.25: four per epoch", kPositive),
      row("train", "keep", &train.keep, "number of checkpoints to keep, the newest ones", kAtLeastOne),
      row("train", "threads", &train.threads,
          "compute threads; 0: one per core that the process may use, by its affinity and the quota of its "
          "container",
          {0, 1024}),
      row("train", "events", &train.events, "write event files for TensorBoard"),
      row("train", "report", &train.report,
          "write report.html at the end of the run, and after evaluations unless that takes too long"),

      row("eval", "batch", &eval.batch,
          "images per batch; smaller test sets are one batch; a .rir module has its own batch size", kBatch),
      row("eval", "classes", &eval.classes,
          "classes that compete for a test image; all: all classes of the model; present: those of the test "
          "set",
          {}, {"all", "present"}),
      row("eval", "every", &eval.every, "epochs between two evaluations", kAtLeastOne),
      row("eval", "knn", &eval.knn,
          "k of a k-nearest-neighbour classification of the test images by their features; 0: none",
          {0, 1e6}),
      row("eval", "knn_images", &eval.knn_images,
          "number of training images to compare with, the first ones; 0: all", {0, kCount.max}),
      row("eval", "pictures", &eval.pictures,
          "samples that each evaluation draws as pictures, for objectives that have pictures; 0: none",
          {0, kMostPictures}),

      row("diagnose", "every", &diagnose.every, "steps between two diagnose lines; 0: none",
          {0, kCount.max})};
  keys.insert(keys.end(), run.begin(), run.end());
  RecipeKey what = row("diagnose", "what", &diagnose.what,
                       "quantities of a diagnose line, joined by '+' or as a list of strings: streams, rank, "
                       "diversity, similarity, entropy, gradients, parameters, conditioning");
  what.check_words = [](std::string_view text, std::string_view key) {
    programs::parse_diagnostics(text, key);
  };
  keys.push_back(what);
  keys.push_back(
      row("diagnose", "images", &diagnose.images,
          "number of test images that are diagnosed, the first ones; 0: 64, or all if there are fewer",
          {0, kBatch.max}));
  return keys;
}

std::vector<RecipeKey> view_keys(ViewSpec& view) {
  std::vector<RecipeKey> keys = {
      row("view", "name", &view.name, "name of the view, which the objective asks for"),
      row("view", "count", &view.count, "how often each image is drawn for this view", {1, 1000}),
      row("view", "size", &view.size, "side of the view in pixels; 0: that of the network's input",
          {0, 65536})};
  for (const TransformRow* transform : transforms()) {
    if (transform->make_batch != nullptr) continue;  // views are not mixed
    for (const ParameterSpec& spec : transform->schema) keys.push_back({"view", spec, &view.values});
  }
  return keys;
}

std::string current_path(std::string path) {
  constexpr std::pair<std::string_view, std::string_view> kMoved[] = {
      {"train.label_smoothing", "objective.label_smoothing"}};
  const auto moved = std::ranges::find(kMoved, path, &std::pair<std::string_view, std::string_view>::first);
  return moved == std::end(kMoved) ? path : std::string(moved->second);
}

}  // namespace rewire::runtime
