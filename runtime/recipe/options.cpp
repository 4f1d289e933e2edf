// The parts of a recipe that other code takes: the options of the step program, and the plugins
// that the command line asks for.
#include <bit>
#include <cmath>
#include <cstdint>

#include "ir/error.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

void check_shards(const Recipe& recipe) {
  const RecipeTrain& train = recipe.train;
  if (!std::has_single_bit(static_cast<std::uint64_t>(train.shard_count())))
    user_error("train.shards is {}; it must be a power of two", train.shards);
  if (train.batch % train.shard_count() != 0)
    user_error("train.batch={} does not divide into train.shards={} equal parts", train.batch, train.shards);
}

programs::TrainOptions train_options(const Recipe& recipe, double steps_per_epoch) {
  check_shards(recipe);
  programs::TrainOptions options;
  options.objective = recipe.objective;
  options.optimizer = recipe.optimizer;
  options.schedule = recipe.schedule;
  options.timeline.steps_per_epoch = steps_per_epoch;
  options.timeline.total_steps = options.timeline.steps(static_cast<double>(recipe.train.epochs));
  options.clip_norm = recipe.train.clip_norm;
  options.clip_each = recipe.train.clip == "each";
  options.accumulate = recipe.train.accumulate;
  options.shards = options.own_shards = recipe.train.shard_count();
  options.ema = recipe.train.ema;
  options.ema_warmup = recipe.train.ema_warmup;
  options.ema_end = recipe.train.ema_end;
  return options;
}

ir::Attributes transform_values(const Recipe& recipe) {
  return overlay(find_preset(recipe.preset).values, recipe.transforms);
}

const std::vector<ViewSpec>& views(const Recipe& recipe) {
  return recipe.views.empty() ? find_preset(recipe.preset).views : recipe.views;
}

std::optional<ir::MixedPrecision> mixed_precision(const Recipe& recipe) {
  const bool narrow_stream = recipe.train.stream_dtype == "bf16";
  if (recipe.train.dtype != "bf16") {
    if (narrow_stream)
      user_error("train.stream_dtype is bf16 but train.dtype is f32; set train.dtype=bf16 too");
    return std::nullopt;
  }
  return ir::MixedPrecision{narrow_stream ? ir::DType::bf16 : ir::DType::f32};
}

ir::Recompute recompute_mode(const Recipe& recipe) {
  if (recipe.train.recompute == "none") return ir::Recompute::none;
  return recipe.train.recompute == "block" ? ir::Recompute::blocks : ir::Recompute::cheap;
}

void override_plugins(Recipe& recipe, const std::vector<std::string>& flags) {
  if (flags.empty()) return;
  std::vector<PluginSpec> plugins;
  for (const std::string& flag : flags) {
    if (flag != "none") {
      plugins.push_back(parse_plugin_spec(flag));
    } else if (flags.size() > 1) {
      user_error("--plugin none clears the list of plugins: it cannot be combined with another --plugin");
    }
  }
  recipe.plugins = std::move(plugins);
}

}  // namespace rewire::runtime
