// A recipe's data as batches: opens the data set, checks it against the network and applies the transforms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "programs/byte_inputs.h"
#include "programs/input.h"
#include "runtime/data/loader.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/io/npy.h"
#include "runtime/network/run_programs.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// The inputs of a network, as its objective defines them.
struct NetworkFace {
  programs::Inputs inputs;
  std::int64_t batch = 1;  // batch size of the given network; 1 if it takes any
};
/// Returns the inputs of `module`, the network for a batch of 1; a network from a file keeps its own batch
/// size. Throws UserError if the network does not fit the objective, or takes an input that data sets do not
/// have.
NetworkFace network_face(const ir::Module& module, const ir::Selection& objective);
/// Returns those inputs and the ones that only training takes.
NetworkFace training_face(const NetworkSource& source, const ir::Selection& objective);
/// Adds all of the recipe's views as inputs.
NetworkFace with_views(NetworkFace face, const Recipe& recipe);

/// Moves the tensors that the function takes out of the batch; put_back() moves them back.
TensorMap take_inputs(const ir::Function& function, Batch& batch);
void put_back(TensorMap inputs, Batch& batch);

/// Where the batches of a feed go. device: with a memory of its own, to which bytes are copied faster than floats, and
/// whose steps leave the host's cores to the data.
enum class Target : std::uint8_t { host, device };
/// Returns the target of an engine, by its name.
Target target_of(std::string_view engine);

class DataFeed {
 public:
  /// Throws UserError with the data's name if the data are missing, corrupt or do not match the network.
  DataFeed(const Recipe& recipe, Split split, const NetworkFace& face)
      : DataFeed(recipe, split, face, split == Split::train) {}
  /// `trains`: shuffled, augmented and in whole batches of a shard of train.batch; else in order, with the transforms
  /// of evaluation. `classes`: the network's class names by label (map_classes); empty: the data's own. For a device,
  /// images are u8 where that loses nothing: programs need take_bytes(), and batches are prepared on `cores` threads, 0:
  /// usable_cores(), if the recipe does not say how many.
  DataFeed(const Recipe& recipe, Split split, const NetworkFace& face, bool trains,
           const std::vector<std::string>& classes = {}, Target target = Target::host, int cores = 0);
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  /// Returns a loader: the training split shuffled and augmented, from `start` on; the test split in order.
  /// The feed must outlive it.
  std::unique_ptr<Loader> load(DataPosition start = {}, LoaderShare share = {}) const;
  const Source& source() const { return *source_; }
  const Pipeline& pipeline() const { return *pipeline_; }
  /// Returns the source as labelled images. Throws UserError if it has none; `what` names who asks for them.
  const ImageSource& images(std::string_view what) const;
  std::int64_t count() const { return source_->count(); }
  /// Makes a function of the module take the images as this feed has them. A function of another name is none.
  void take_bytes(ir::Module& module, std::string_view function) const;
  /// Returns the threads that prepare batches.
  int threads() const { return options_.threads; }
  /// Logs as warnings what the source leaves out, and which classes compete if not all do.
  void log_left_out() const;
  /// Returns the number of classes that compete if only those with images do (eval.classes=present); 0: all
  /// do. Throws UserError if only some are to compete and the objective has no classes.
  std::int64_t competing() const;
  /// The samples left out so far because they cannot be read (data.unreadable=skip).
  std::vector<std::int64_t> unreadable_samples() const { return unreadable_.samples(); }
  /// The samples of a batch: of a shard of train.batch, or eval.batch; all test samples if they are fewer and the network
  /// takes any number.
  std::int64_t batch() const { return options_.batch; }
  /// The batches of one pass: training drops an incomplete last batch, evaluation pads it.
  std::int64_t batches() const;

 private:
  void open_file(const programs::Input& input);

  const std::unique_ptr<const Source> source_;
  LoaderOptions options_;
  const std::unique_ptr<const Pipeline> pipeline_;
  std::vector<std::unique_ptr<const NpyRows>> files_;  // for the fields after the pipeline's
  const bool skips_unreadable_;
  const bool only_present_;
  mutable UnreadableSamples unreadable_;
};

}  // namespace rewire::runtime
