// A recipe's data as batches: the set it names, checked against the network, under its transforms.
#pragma once

#include <memory>

#include "ir/module.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// What a network takes and tells apart.
struct NetworkFace {
  ir::Shape image;           // [channels, height, width]
  std::int64_t classes = 0;  // of logits [batch, classes]
  std::int64_t batch = 1;    // of the network that was asked; 1 where it takes any
};
/// UserError if forward does not take 'image' [batch, channels, height, width] and give 'logits' [batch,
/// classes]. `module`: the network for a batch of 1, which a network from a file does not heed.
NetworkFace network_face(const ir::Module& module);

class DataFeed {
 public:
  /// UserError naming the data where it is missing, corrupt, or no match for the network.
  DataFeed(const Recipe& recipe, Split split, const NetworkFace& face);
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  /// The training split shuffled and augmented, from `start` on; the test split in order. The feed must
  /// outlive it.
  std::unique_ptr<Loader> load(DataPosition start = {}) const;
  std::int64_t images() const { return dataset_.count; }
  /// Images of a batch: train.batch; eval.batch, or all test images where they are fewer and the network
  /// takes any number.
  std::int64_t batch() const { return options_.batch; }
  /// Of a pass: training drops what is left over, evaluation pads it.
  std::int64_t batches() const;

 private:
  const Dataset dataset_;
  const LoaderOptions options_;
  const Transform transform_;
};

}  // namespace rewire::runtime
