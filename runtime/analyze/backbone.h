// A network of a run, or of a model with weights, as a feature extractor without head or decoder. Images
// come from the recipe's data or from a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/analyze/features.h"
#include "runtime/exec/engine.h"
#include "runtime/network/data_feed.h"
#include "runtime/run/trained_network.h"

namespace rewire::runtime {

struct BackboneRequest {
  TrainedRequest trained;  // fresh weights if it names none
  std::string engine;      // one of engine_names(), or cuda
};

/// The features and labels of some images.
struct FeatureSet {
  std::vector<float> rows;  // [images, patches, width], or [images, width]
  std::vector<std::int64_t> labels;
  // If images are kept: [images, channels, height, width]; and their names, if the pass is in order.
  std::vector<float> images;
  std::vector<std::string> names;
  std::int64_t left_out = 0;  // unreadable images before the last one taken
  std::int64_t count() const { return std::ssize(labels); }
};
/// Throws UserError if images were left out: what `option` lists by image would then belong to others.
void require_all_read(const FeatureSet& set, std::string_view option);

/// The images to take of `split`: as `epoch` of training augments them, or, for -1, in evaluation's order.
struct ImagePass {
  Split split = Split::train;
  std::int64_t epoch = -1;
  std::int64_t images = 0;  // the first ones; 0: all,
  std::int64_t most = 0;    // but at most this many, unless this is 0
  bool keeps_images = false;
};

class Backbone {
 public:
  /// Throws UserError if the network does not exist, takes more than an image, lacks the features, or if its
  /// weights do not fit.
  Backbone(const BackboneRequest& request, const FeatureChoice& choice);

  const Recipe& recipe() const { return network_.recipe; }
  const FeatureFacts& facts() const { return facts_; }
  /// Returns how many numbers an image's features have.
  std::int64_t numbers() const { return facts_.width * std::max<std::int64_t>(facts_.patches, 1); }
  /// The image shape: [channels, height, width].
  const ir::Shape& image() const { return image_; }
  /// The origin of the weights, for people.
  const std::string& weights() const { return weights_name_; }

  /// Computes features f32 [images, …] of images f32 [images, channels, height, width].
  HostTensor features(const HostTensor& images);
  /// Computes the features of a pass. Throws UserError if there are fewer images than asked for.
  FeatureSet collect(const ImagePass& pass);
  /// Returns the number of classes: one more than the largest label of both splits.
  std::int64_t count_classes() const;

 private:
  ir::Module make_module(std::int64_t batch, FeatureFacts& facts) const;
  void start(std::int64_t batch);
  DataFeed feed(Split split, bool trains) const;

  FeatureChoice choice_;
  std::string engine_name_;
  Network network_;
  std::int64_t epoch_ = 0;  // the run's epoch, for which the network is built
  FeatureFacts facts_;
  ir::Shape image_;
  std::int64_t fixed_batch_ = 1;  // batch of a module from a file; 1: any
  std::string weights_name_;
  TensorMap weights_;
  std::int64_t batch_ = 0;  // the engine's batch
  std::unique_ptr<Engine> engine_;
};

}  // namespace rewire::runtime
