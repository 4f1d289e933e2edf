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
// What counts or lasts: its product with any other such number is far from overflow.
constexpr Bounds kCount{1, 1e9};
constexpr Bounds kBatch{1, 1e6};  // as the models have it
constexpr double kMostPictures = 64;

const RecipeCondition kNoFile{[](const Recipe& r) { return !r.model.name.ends_with(".rir"); },
                              "a model of the zoo: a module's shapes are fixed in its file"};

ParameterKind kind_of(const RecipeTarget& target, bool is_choice) {
  if (is_choice) return ParameterKind::choice;
  constexpr ParameterKind kKinds[] = {ParameterKind::boolean, ParameterKind::integer, ParameterKind::number,
                                      ParameterKind::text, ParameterKind::numbers};
  return kKinds[target.index()];
}

RecipeKey row(std::string_view section, std::string_view name, RecipeTarget target, Bounds bounds = {},
              std::vector<std::string> choices = {}, RecipeCondition only = {}) {
  RecipeKey key;
  key.section = section;
  key.spec.name = name;
  key.spec.kind = kind_of(target, !choices.empty());
  key.spec.bounds = bounds;
  key.spec.values = std::move(choices);
  key.target = target;
  key.only = std::move(only);
  return key;
}

RecipeKey path_row(std::string_view section, std::string_view name, RecipeTarget target) {
  RecipeKey key = row(section, name, target);
  key.spec.is_path = true;
  return key;
}

/// Of a section whose key `chooser` selects one of `residents`: the parameters of all of them, each with an
/// effect where one is selected that has it, and with the default and bounds that this one gives it. `only`:
/// what all of them need.
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
      // A name that nobody has is refused as such, later.
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
    }
  }
}

/// All that transforms can be told, with the defaults that the preset gives.
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
  std::vector<RecipeKey> keys = {row("", "seed", &recipe.seed, kSeed)};
  const auto choose = [&](std::string_view section, std::string_view name, ir::Selection Recipe::* selection,
                          const auto& rows, bool by_name_alone = true) {
    RecipeKey chooser = row(section, name, &(recipe.*selection).name, {},
                            by_name_alone ? ir::row_names(rows) : std::vector<std::string>());
    chooser.selects = true;
    keys.push_back(chooser);
    add_parameters(keys, chooser, selection, recipe, rows, by_name_alone ? RecipeCondition() : kNoFile);
  };
  choose("model", "name", &Recipe::model, models::models(), /*by_name_alone=*/false);
  choose("data", "format", &Recipe::source, sources());
  keys.push_back(row("data", "threads", &data.threads, {1, 256}));
  keys.push_back(row("data", "prefetch", &data.prefetch, {1, 1024}));
  keys.push_back(row("data", "aug_repeats", &data.aug_repeats, {1, 1000}));
  keys.push_back(path_row("data", "train_list", &data.train_list));
  keys.push_back(
      row("data", "train_fraction", &data.train_fraction, {.min = 0, .max = 1, .min_excluded = true}));
  keys.push_back(row("data", "unreadable", &data.unreadable, {}, {"error", "skip"}));
  keys.push_back(row("data", "changed", &data.changed, {}, {"refuse", "accept"}));
  keys.push_back(path_row("data", "cache", &data.cache));
  RecipeKey preset = row("transforms", "preset", &recipe.preset, {}, ir::row_names(transform_presets()));
  preset.selects = true;
  keys.push_back(preset);
  for (ParameterSpec& spec : transform_parameters(recipe.preset))
    keys.push_back({"transforms", std::move(spec), &recipe.transforms});
  choose("objective", "name", &Recipe::objective, programs::objectives());
  choose("optimizer", "name", &Recipe::optimizer, programs::optimizers());
  choose("schedule", "name", &Recipe::schedule, programs::schedules());
  const std::vector<RecipeKey> run = {
      row("train", "batch", &train.batch, kBatch),
      row("train", "epochs", &train.epochs, kCount),
      row("train", "max_steps", &train.max_steps, {0, kCount.max}),
      row("train", "dtype", &train.dtype, {}, {"f32", "bf16"}),
      row("train", "stream_dtype", &train.stream_dtype, {}, {"f32", "bf16"}),
      row("train", "tf32", &train.tf32),
      row("train", "recompute", &train.recompute, {}, {"auto", "none", "block"}),
      path_row("train", "weights", &train.weights),
      row("train", "weights_prefix", &train.weights_prefix),
      row("train", "resample_positions", &train.resample_positions, {},
          {"false", "true", "timm", "deit", "pvt"}),
      row("train", "new_head", &train.new_head),
      row("train", "extra_weights", &train.extra_weights, {}, {"error", "ignore"}),
      row("train", "other_strategy", &train.other_strategy),
      row("train", "clip_norm", &train.clip_norm, kNotNegative),
      row("train", "clip", &train.clip, {}, {"all", "each"}),
      row("train", "accumulate", &train.accumulate, kCount),
      row("train", "on_switch", &train.on_switch, {}, {"keep", "reset"}),
      row("train", "ema", &train.ema, {.min = 0, .max = 1, .max_excluded = true}),
      row("train", "ema_warmup", &train.ema_warmup),
      row("train", "ema_end", &train.ema_end, {-1, 1}),
      row("train", "best_metric", &train.best_metric),
      row("train", "patience", &train.patience, {0, kCount.max}),
      row("train", "log_every", &train.log_every, kAtLeastOne),
      row("train", "checkpoint_every", &train.checkpoint_every, kPositive),
      row("train", "keep", &train.keep, kAtLeastOne),
      row("train", "threads", &train.threads, {0, 1024}),
      row("train", "events", &train.events),
      row("train", "report", &train.report),

      row("eval", "batch", &eval.batch, kBatch),
      row("eval", "classes", &eval.classes, {}, {"all", "present"}),
      row("eval", "every", &eval.every, kAtLeastOne),
      row("eval", "knn", &eval.knn, {0, 1e6}),
      row("eval", "knn_images", &eval.knn_images, {0, kCount.max}),
      row("eval", "pictures", &eval.pictures, {0, kMostPictures}),

      row("diagnose", "every", &diagnose.every, {0, kCount.max})};
  keys.insert(keys.end(), run.begin(), run.end());
  RecipeKey what = row("diagnose", "what", &diagnose.what);
  what.check_words = [](std::string_view text, std::string_view key) {
    programs::parse_diagnostics(text, key);
  };
  keys.push_back(what);
  keys.push_back(row("diagnose", "images", &diagnose.images, {0, kBatch.max}));
  return keys;
}

std::vector<RecipeKey> view_keys(ViewSpec& view) {
  std::vector<RecipeKey> keys = {row("view", "name", &view.name),
                                 row("view", "count", &view.count, {1, 1000}),
                                 row("view", "size", &view.size, {0, 65536})};
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
