#include "runtime/network/start_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/error.h"
#include "models/model.h"
#include "runtime/network/weights.h"

namespace rewire::runtime {
namespace {

/// `true` means the rule of the code that fine-tunes such networks; for a module from a file, timm's rule.
models::PositionRule position_rule(const Recipe& recipe) {
  const std::string& asked = recipe.train.resample_positions;
  if (asked == "deit") return models::PositionRule::deit;
  if (asked == "pvt") return models::PositionRule::pvt;
  if (asked == "timm" || recipe.model.name.ends_with(".rir")) return models::PositionRule::timm;
  return models::find_model(recipe.model.name).family->positions;
}

}  // namespace

TensorMap read_start_weights(const Recipe& recipe, const ir::Module& module, const ir::Module& original,
                             const WeightsOrigin& origin) {
  const RecipeTrain& train = recipe.train;
  const bool resamples = train.resample_positions != "false";
  const std::pair<bool, const char*> told[] = {{resamples, "resample_positions"},
                                               {train.new_head, "new_head"},
                                               {train.extra_weights == "ignore", "extra_weights"},
                                               {!train.weights_prefix.empty(), "weights_prefix"}};
  if (train.weights.empty()) {
    const auto* key = std::ranges::find(told, true, &std::pair<bool, const char*>::first);
    if (key == std::end(told)) return {};
    user_error("train.{} has no effect without train.weights; set train.weights", key->second);
  }
  WeightsFit how{.prefix = train.weights_prefix,
                 .required = &original,
                 .new_head = train.new_head,
                 .further = train.extra_weights == "ignore",
                 .origin = &origin,
                 .other_strategy = train.other_strategy};
  if (resamples) how.positions = position_rule(recipe);
  TensorMap weights = read_weights(module, train.weights, how);
  log_weights_left_fresh(module, weights, train.weights);
  return weights;
}

}  // namespace rewire::runtime
