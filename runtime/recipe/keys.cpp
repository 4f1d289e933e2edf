#include "runtime/recipe/keys.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace rewire::runtime {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr RecipeRange kNotNegative{0, kLargest};
constexpr RecipeRange kAtLeastOne{1, kLargest};
constexpr RecipeRange kUnit{0, 1};
constexpr RecipeRange kSeed{0, 9007199254740992};  // 2^53: the evaluator holds integers as doubles
constexpr RecipeRange kPositive{std::numeric_limits<double>::min(), kLargest};
// What counts or lasts: its product with any other such number is far from overflow.
constexpr RecipeRange kCount{1, 1e9};
constexpr RecipeRange kEpochs{0, 1e9};
constexpr RecipeRange kBatch{1, 1e6};  // as the models have it

constexpr RecipeCondition kZoo{[](const Recipe& r) { return !r.model.name.ends_with(".rir"); },
                               "a model of the zoo: a module's shapes are fixed in its file"};
constexpr RecipeCondition kIdx{[](const Recipe& r) { return r.data.format == "idx"; }, "data.format=idx"};
constexpr RecipeCondition kSynthetic{[](const Recipe& r) { return r.data.format == "synthetic"; },
                                     "data.format=synthetic"};
constexpr RecipeCondition kAdamW{[](const Recipe& r) { return r.optimizer.name == "adamw"; },
                                 "optimizer.name=adamw"};
constexpr RecipeCondition kSgd{[](const Recipe& r) { return r.optimizer.name == "sgd"; },
                               "optimizer.name=sgd"};
constexpr RecipeCondition kCosine{[](const Recipe& r) { return r.schedule.name == "cosine"; },
                                  "schedule.name=cosine"};
constexpr RecipeCondition kMultistep{[](const Recipe& r) { return r.schedule.name == "multistep"; },
                                     "schedule.name=multistep"};

}  // namespace

std::string RecipeKey::path() const {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

std::string_view RecipeKey::type_name() const {
  constexpr std::array<std::string_view, std::variant_size_v<RecipeTarget>> kNames = {
      "true or false",     "an integer", "a number", "a string",
      "a list of numbers", "an integer", "a number", "a string"};
  return kNames[target.index()];
}

std::vector<RecipeKey> recipe_keys(Recipe& recipe) {
  RecipeModel& model = recipe.model;
  RecipeData& data = recipe.data;
  RecipeTransforms& transforms = recipe.transforms;
  OptimizerOptions& optimizer = recipe.optimizer;
  RecipeSchedule& schedule = recipe.schedule;
  RecipeTrain& train = recipe.train;
  RecipeEval& eval = recipe.eval;
  return {
      {"", "seed", &recipe.seed, kSeed},

      {"model", "name", &model.name},
      {"model", "dim", &model.dim, {}, {}, kZoo},
      {"model", "depth", &model.depth, {}, {}, kZoo},
      {"model", "heads", &model.heads, {}, {}, kZoo},
      {"model", "mlp_ratio", &model.mlp_ratio, {}, {}, kZoo},
      {"model", "patch", &model.patch, {}, {}, kZoo},
      {"model", "image", &model.image, {}, {}, kZoo},
      {"model", "channels", &model.channels, {}, {}, kZoo},
      {"model", "classes", &model.classes, {}, {}, kZoo},
      {"model", "pool", &model.pool, {}, {}, kZoo},
      {"model", "act_layer", &model.act_layer, {}, {}, kZoo},
      {"model", "drop_path", &model.drop_path, {}, {}, kZoo},
      {"model", "dropout", &model.dropout, {}, {}, kZoo},

      {"data", "format", &data.format, {}, {"idx", "synthetic"}},
      {"data", "path", &data.path, {}, {}, kIdx},
      {"data", "count", &data.count, kCount, {}, kSynthetic},
      {"data", "threads", &data.threads, {1, 256}},
      {"data", "prefetch", &data.prefetch, {1, 1024}},

      {"transforms", "crop_padding", &transforms.crop_padding, {0, kMostCropPadding}},
      {"transforms", "crop_fill", &transforms.crop_fill, {}, {"zero", "reflect"}},
      {"transforms", "horizontal_flip", &transforms.horizontal_flip},
      {"transforms", "mean", &transforms.mean},
      {"transforms", "std", &transforms.std, kPositive},

      {"optimizer", "name", &optimizer.name, {}, {"adamw", "sgd"}},
      {"optimizer", "lr", &optimizer.lr, kNotNegative},
      {"optimizer", "beta1", &optimizer.beta1, kUnit, {}, kAdamW},
      {"optimizer", "beta2", &optimizer.beta2, kUnit, {}, kAdamW},
      {"optimizer", "eps", &optimizer.eps, kNotNegative, {}, kAdamW},
      {"optimizer", "weight_decay", &optimizer.weight_decay, kNotNegative},
      {"optimizer", "decay", &optimizer.decay, {}, {"matrices", "all"}},
      {"optimizer", "momentum", &optimizer.momentum, kUnit, {}, kSgd},
      {"optimizer", "nesterov", &optimizer.nesterov, {}, {}, kSgd},

      {"schedule", "name", &schedule.name, {}, {"constant", "cosine", "multistep"}},
      {"schedule", "warmup_epochs", &schedule.warmup_epochs, kEpochs},
      {"schedule", "warmup_lr", &schedule.warmup_lr, kNotNegative},
      {"schedule", "min_lr", &schedule.min_lr, kNotNegative, {}, kCosine},
      {"schedule", "milestones", &schedule.milestones, {kPositive.minimum, kEpochs.maximum}, {}, kMultistep},
      {"schedule", "gamma", &schedule.gamma, kNotNegative, {}, kMultistep},

      {"train", "batch", &train.batch, kBatch},
      {"train", "epochs", &train.epochs, kCount},
      {"train", "max_steps", &train.max_steps, {0, kCount.maximum}},
      {"train", "dtype", &train.dtype, {}, {"f32", "bf16"}},
      {"train", "stream_dtype", &train.stream_dtype, {}, {"f32", "bf16"}},
      {"train", "tf32", &train.tf32},
      {"train", "weights", &train.weights},
      {"train", "label_smoothing", &train.label_smoothing, kUnit},
      {"train", "clip_norm", &train.clip_norm, kNotNegative},
      {"train", "accumulate", &train.accumulate, kCount},
      {"train", "on_switch", &train.on_switch, {}, {"keep", "reset"}},
      {"train", "log_every", &train.log_every, kAtLeastOne},
      {"train", "checkpoint_every", &train.checkpoint_every, kPositive},
      {"train", "keep", &train.keep, kAtLeastOne},
      {"train", "threads", &train.threads, {0, 1024}},

      {"eval", "batch", &eval.batch, kBatch},
      {"eval", "every", &eval.every, kAtLeastOne},
  };
}

}  // namespace rewire::runtime
