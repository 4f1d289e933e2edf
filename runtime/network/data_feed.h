// A recipe's data as batches: the set it names, checked against the network, under its transforms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "programs/input.h"
#include "runtime/data/loader.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/io/npy.h"
#include "runtime/network/run_programs.h"
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
/// The same with what training takes beside it.
NetworkFace training_face(const NetworkSource& source, const ir::Selection& objective);
/// The same with all the recipe's views as inputs.
NetworkFace with_views(NetworkFace face, const Recipe& recipe);

/// The tensors of the batch that the function takes, moved out of it; put_back() moves them back.
TensorMap take_inputs(const ir::Function& function, Batch& batch);
void put_back(TensorMap inputs, Batch& batch);

class DataFeed {
 public:
  /// UserError naming the data where it is missing, corrupt, or no match for the network.
  DataFeed(const Recipe& recipe, Split split, const NetworkFace& face)
      : DataFeed(recipe, split, face, split == Split::train) {}
  /// `trains`: shuffled, augmented and in whole batches of train.batch; else in order, as evaluation sees images.
  /// `classes`: by label, the names that the network tells apart (map_classes); none: the data's own.
  DataFeed(const Recipe& recipe, Split split, const NetworkFace& face, bool trains,
           const std::vector<std::string>& classes = {});
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  /// The training split shuffled and augmented, from `start` on; the test split in order. The feed must
  /// outlive it.
  std::unique_ptr<Loader> load(DataPosition start = {}) const;
  const Source& source() const { return *source_; }
  const Pipeline& pipeline() const { return *pipeline_; }
  /// UserError where the data are no labelled images: `what` says who asks for them.
  const ImageSource& images(std::string_view what) const;
  std::int64_t count() const { return source_->count(); }
  /// What the source leaves out, as warnings; and which classes compete, where not all do.
  void log_left_out() const;
  /// How many classes compete, where only those of the images do (eval.classes=present); 0: all do. UserError where the
  /// objective tells no classes apart, and only some are to compete.
  std::int64_t competing() const;
  /// Samples left out so far because they cannot be read (data.unreadable=skip).
  std::int64_t unreadable() const { return unreadable_.count(); }
  /// Samples of a batch: train.batch; eval.batch, or all test samples where they are fewer and the network
  /// takes any number.
  std::int64_t batch() const { return options_.batch; }
  /// Of a pass: training drops what is left over, evaluation pads it.
  std::int64_t batches() const;

 private:
  void open_file(const programs::Input& input);

  const std::unique_ptr<const Source> source_;
  LoaderOptions options_;
  const std::unique_ptr<const Pipeline> pipeline_;
  std::vector<std::unique_ptr<const NpyRows>> files_;  // of the fields behind the pipeline's
  const bool skips_unreadable_;
  const bool only_present_;
  mutable UnreadableSamples unreadable_;
};

}  // namespace rewire::runtime
