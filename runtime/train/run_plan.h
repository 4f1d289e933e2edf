// A run's programs and data, checked against each other before the run may touch a folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/exec/others_updates.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/run_programs.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_course.h"
#include "runtime/train/trainer.h"

namespace rewire::runtime {

/// Shares the trained weights out to ranks, so that each has about as many bytes of their optimizer's states.
std::map<std::string, int, std::less<>> owners_of_weights(const ir::Module& module, int ranks);

struct RunPlan {
  /// Plans the run in the folder `run` that is at `start`, or a new one. Throws UserError if recipe, network
  /// and data do not fit together, or the run has been trained on other data, unless data.changed=accept:
  /// then it goes on with the next epoch. The request must outlive it. All ranks of
  /// its group plan together.
  explicit RunPlan(const TrainRequest& request, const RunProgress* start = nullptr,
                   const std::string& run = "");

  std::int64_t samples_per_step() const { return sizes.samples(); }
  /// Returns the batches of a step that this process computes.
  LoaderShare share() const;
  /// Returns the shards of a step's batch that this process computes.
  std::int64_t own_shards() const { return recipe.train.shard_count() / ranks; }
  /// Returns the steps between checkpoints, from the start of an epoch; a checkpoint at its end is separate.
  std::int64_t steps_per_checkpoint() const;
  bool saves_after(std::int64_t epoch) const;
  bool evaluates_after(std::int64_t epoch) const {
    return (epoch + 1) % recipe.eval.every == 0 || epoch + 1 == recipe.train.epochs;
  }

  /// Returns true for an evaluation after any of the epochs [begin, end).
  bool evaluates_within(std::int64_t begin, std::int64_t end) const {
    return end / recipe.eval.every > begin / recipe.eval.every || end == recipe.train.epochs;
  }

  bool keeps_averages() const { return recipe.train.ema != 0; }

  const Recipe& recipe;
  const int rank, ranks;
  const int cores;  // for the threads that prepare batches (runtime/group/shared_cores.h)
  NetworkFace face;
  DataFeed train_data, test_data;
  std::unique_ptr<const DataFeed>
      bank_data;           // training images in the form that evaluation uses; none without eval.knn
  DataIdentity data;       // to train on
  DataIdentity evaluated;  // of test_data
  TrainPosition begins;    // where the run goes on
  StepSizes sizes;
  RunCourse course;
  RunPrograms programs;
  /// With train.zero=1 and several processes.
  struct Shares {
    std::map<std::string, int, std::less<>> owners;  // the rank that updates each trained weight
    ir::Module module;                               // what this process computes
    StatesOfOthers others;
    std::set<std::string, std::less<>> sent;  // states of all processes that one of them updates
  };
  std::optional<Shares> shares;
  /// Returns the module that this process computes.
  const ir::Module& computed() const { return shares ? shares->module : programs.module; }
  std::string best_metric;  // of evaluations: selects the best one
  /// For the run's diagnose lines ([diagnose]): test images and diagnostics; 0: there are no such lines.
  std::int64_t diagnosed_images = 0;
  std::vector<std::string> diagnostics;

 private:
  void take_bytes();
  Shares share_out(const NetworkSource& network, programs::TrainOptions options, const RunShape& shape) const;
};

}  // namespace rewire::runtime
