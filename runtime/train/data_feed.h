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
};
/// UserError if forward does not take 'image' [batch, channels, height, width] and give 'logits' [batch,
/// classes].
NetworkFace network_face(const ir::Module& module);

class DataFeed {
 public:
  /// UserError naming the data where it is missing, corrupt, or no match for the network.
  DataFeed(const Recipe& recipe, Split split, const NetworkFace& face);
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  /// The training split in batches of train.batch, shuffled and augmented, from `start` on; the test split in
  /// batches of eval.batch, in order. The feed must outlive it.
  std::unique_ptr<Loader> load(DataPosition start = {}) const;
  std::int64_t images() const { return dataset_.count; }
  /// Of a pass: train.batch drops what is left over, eval.batch pads it.
  std::int64_t batches() const;

 private:
  const LoaderOptions options_;
  const Dataset dataset_;
  const Transform transform_;
};

}  // namespace rewire::runtime
