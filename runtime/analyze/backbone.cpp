#include "runtime/analyze/backbone.h"
#include "runtime/data/vision/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ir/error.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "runtime/device/log.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/weights.h"

namespace rewire::runtime {
namespace {

const WeightsFit kBackboneFit{.further = true};

/// Replaces the network by its form without head or decoder, if it has one.
void take_backbone(Network& network) {
  if (network.from_file) return;
  ir::Selection& model = network.recipe.model;
  if (!models::find_model(model.name).family->backbone.empty()) model = models::backbone_of(model);
}

/// Switches off transforms of whole batches: they blend labels, which features do not have.
void drop_batch_transforms(Recipe& recipe) {
  for (const TransformRow* transform : transforms()) {
    if (transform->make_batch == nullptr) continue;
    for (const ir::ParameterSpec& spec : transform->schema)
      recipe.transforms.set(spec.name, spec.default_value);
  }
}

void require_image_alone(const ir::Function& forward) {
  std::string others;
  for (const ir::Argument& argument : forward.arguments) {
    if (argument.name != "image") others += fmt::format(" '{}'", argument.name);
  }
  const ir::Value image = forward.argument("image");
  if (!others.empty() || !image || forward.type(image).rank() != 4)
    user_error(
        "features need a network that takes only 'image' [batch,channels,height,width]; this one takes{}",
        others.empty() ? " another 'image' or none" : others + " too");
}

}  // namespace

Backbone::Backbone(const BackboneRequest& request, const FeatureChoice& choice)
    : choice_(choice), engine_name_(request.engine) {
  TrainedNetwork trained = find_trained(request.trained, Untrained::allowed);
  epoch_ = trained.epoch;
  network_ = std::move(trained.network);
  const WeightsOrigin origin = origin_of(network_, epoch_);
  take_backbone(network_);
  network_.plugins = plugins_of_parts(network_.plugins, original_module(network_, 1));
  drop_batch_transforms(network_.recipe);
  network_.recipe.data.aug_repeats = 1;
  const ir::Module module = make_module(1, facts_);
  const ir::Function& forward = module.function("forward");
  const ir::Shape& batch = forward.type(forward.argument("image")).shape;
  image_ = {batch.begin() + 1, batch.end()};
  fixed_batch_ = batch.front();
  weights_name_ = trained.weights.file;
  if (trained.weights.file.empty()) {
    weights_name_ = "fresh";
    weights_ = fresh_weights(module, network_.plugins, static_cast<std::uint64_t>(network_.recipe.seed));
    write_log(LogLevel::info,
              "the features come from a freshly initialised network: give --weights FILE, or a run's folder, "
              "to use trained weights");
  } else {
    WeightsFit fit = kBackboneFit;
    fit.origin = &origin;
    fit.other_strategy = network_.other_strategy;
    weights_ = read_run_weights(module, trained.weights, fit);
  }
}

ir::Module Backbone::make_module(std::int64_t batch, FeatureFacts& facts) const {
  const NetworkSource source = network_source(network_);
  ir::Module module = rewritten_forward(source, batch, epoch_);
  require_image_alone(module.function("forward"));
  set_precision(module, source);
  facts = add_features_program(module, choice_);
  ir::verify(module);
  return module;
}

void Backbone::start(std::int64_t batch) {
  if (engine_ != nullptr && batch_ == batch) return;
  FeatureFacts facts;
  ir::Module module = make_module(batch, facts);
  require_precision(engine_name_, module);
  engine_ = make_engine(engine_name_, module, {.threads = static_cast<int>(network_.recipe.train.threads)});
  start_state(*engine_, module, weights_, static_cast<std::uint64_t>(network_.recipe.seed));
  batch_ = batch;
}

HostTensor Backbone::features(const HostTensor& images) {
  start(images.type().shape.at(0));
  TensorMap arguments;
  arguments.emplace("image", images.clone());
  return std::move(engine_->run("features", arguments).at("features"));
}

DataFeed Backbone::feed(Split split, bool trains) const {
  NetworkFace face;
  ir::TensorType image{ir::DType::f32, {1}};
  image.shape.insert(image.shape.end(), image_.begin(), image_.end());
  Recipe recipe = network_.recipe;
  recipe.train.shards = 1;
  if (trains) recipe.train.batch = std::min(recipe.eval.batch, feed(split, false).count());
  face.batch = fixed_batch_;
  face.inputs = {{"image", image}, {"label", {ir::DType::i64, {1}}}};
  return {recipe, split, face, trains};
}

FeatureSet Backbone::collect(const ImagePass& pass) {
  const bool trains = pass.epoch >= 0;
  const DataFeed data = feed(pass.split, trains);
  const std::int64_t there = trains ? data.batches() * data.batch() : data.count();
  const std::int64_t all = pass.most == 0 ? there : std::min(there, pass.most);
  const std::int64_t wanted = pass.images == 0 ? all : pass.images;
  if (wanted > there)
    user_error("--images {}: {} has {} images to {}{}", wanted, data.source().name(), data.count(),
               pass.split == Split::train ? "train on" : "test with",
               trains ? fmt::format(", in batches of {}", data.batch()) : "");
  const std::unique_ptr<Loader> loader =
      data.load({.epoch = std::max<std::int64_t>(pass.epoch, 0), .batch = 0});
  FeatureSet set;
  const auto width = static_cast<std::size_t>(numbers());
  const auto pixels = static_cast<std::size_t>(ir::element_count(image_));
  set.rows.reserve(static_cast<std::size_t>(wanted) * width);
  Batch batch;
  for (std::int64_t i = 0; i < data.batches() && set.count() < wanted; ++i) {
    loader->next(batch);
    const HostTensor& images = batch.tensors.at("image");
    const HostTensor rows = features(images);
    const auto weight = batch.tensors.find("weight");
    for (std::int64_t k = 0; k < data.batch() && set.count() < wanted; ++k) {
      const auto row = static_cast<std::size_t>(k);
      if (weight != batch.tensors.end() && weight->second.as<float>()[row] == 0) {  // no image
        if (i * data.batch() + k < data.count()) ++set.left_out;
        continue;
      }
      const std::span<const float> numbers = rows.as<float>().subspan(row * width, width);
      set.rows.insert(set.rows.end(), numbers.begin(), numbers.end());
      set.labels.push_back(batch.tensors.at("label").as<std::int64_t>()[row]);
      if (!pass.keeps_images) continue;
      if (!trains) set.names.push_back(data.source().sample_name(i * data.batch() + k));
      const std::span<const float> image = images.as<float>().subspan(row * pixels, pixels);
      set.images.insert(set.images.end(), image.begin(), image.end());
    }
  }
  return set;
}

void require_all_read(const FeatureSet& set, std::string_view option) {
  if (set.left_out == 0) return;
  user_error("{} needs every image, but {} of the images cannot be read: remove them from the data", option,
             set.left_out);
}

std::int64_t Backbone::count_classes() const {
  std::int64_t largest = 0;
  for (const Split split : {Split::train, Split::test}) {
    const DataFeed data = feed(split, false);
    for (std::int64_t i = 0; i < data.count(); ++i)
      largest = std::max(largest, data.images("a probe").label(i));
  }
  return largest + 1;
}

}  // namespace rewire::runtime
