// Programs and data of a run; see run_plan.h.
#include "runtime/train/run_plan.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"

namespace rewire::runtime {

RunPlan::RunPlan(const TrainRequest& request)
    : recipe(request.recipe),
      face(network_face(request.network.forward(1), recipe.objective)),
      train_data(recipe, Split::train, face),
      test_data(recipe, Split::test, face),
      steps_per_epoch(train_data.batches() / recipe.train.accumulate) {
  if (steps_per_epoch == 0) {
    user_error("an epoch has {} batches of {}, fewer than one step of train.accumulate={}",
               train_data.batches(), recipe.train.batch, recipe.train.accumulate);
  }
  programs = make_run_programs(request.network, train_options(recipe, static_cast<double>(steps_per_epoch)),
                               {recipe.train.batch, test_data.batch(), recipe.train.epochs});
}

std::int64_t RunPlan::steps_per_checkpoint() const {
  const double steps = std::min(recipe.train.checkpoint_every, 1.0) * static_cast<double>(steps_per_epoch);
  return std::max<std::int64_t>(1, std::llround(steps));
}

std::int64_t RunPlan::total_steps() const {
  const std::int64_t all = recipe.train.epochs * steps_per_epoch;
  return recipe.train.max_steps == 0 ? all : std::min(all, recipe.train.max_steps);
}

bool RunPlan::saves_after(std::int64_t epoch) const {
  const auto every =
      static_cast<std::int64_t>(std::llround(std::clamp(recipe.train.checkpoint_every, 1.0, 1e9)));
  return (epoch + 1) % every == 0 || epoch + 1 == recipe.train.epochs;
}

}  // namespace rewire::runtime
