// A recipe's data as batches: the set it names, checked against the network, under its transforms.
#pragma once

#include <memory>

#include "ir/module.h"
#include "programs/objective.h"
#include "runtime/data/loader.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// What a network is fed, as its objective has it.
struct NetworkFace {
  programs::Inputs inputs;
  std::int64_t batch = 1;  // of the network that was asked; 1 where it takes any
};
/// `module`: the network for a batch of 1, which a network from a file does not heed. UserError where the
/// objective cannot be had of it, or data sets do not have what it takes.
NetworkFace network_face(const ir::Module& module, const ir::Selection& objective);

/// The tensors of the batch that the function takes, moved out of it; put_back() moves them back.
TensorMap take_inputs(const ir::Function& function, Batch& batch);
void put_back(TensorMap inputs, Batch& batch);

class DataFeed {
 public:
  /// UserError naming the data where it is missing, corrupt, or no match for the network.
  DataFeed(const Recipe& recipe, Split split, const NetworkFace& face);
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  /// The training split shuffled and augmented, from `start` on; the test split in order. The feed must
  /// outlive it.
  std::unique_ptr<Loader> load(DataPosition start = {}) const;
  std::int64_t images() const { return source_->count(); }
  /// Images of a batch: train.batch; eval.batch, or all test images where they are fewer and the network
  /// takes any number.
  std::int64_t batch() const { return options_.batch; }
  /// Of a pass: training drops what is left over, evaluation pads it.
  std::int64_t batches() const;

 private:
  const std::unique_ptr<const ImageSource> source_;
  const LoaderOptions options_;
  const TransformChain transforms_;
};

}  // namespace rewire::runtime
