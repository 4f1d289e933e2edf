#include "runtime/train/data_feed.h"

#include <algorithm>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

const programs::Input* find_input(const NetworkFace& face, std::string_view name) {
  const auto found = std::ranges::find(face.inputs, name, &programs::Input::name);
  return found == face.inputs.end() ? nullptr : &*found;
}

/// [channels, height, width]
ir::Shape image_shape(const NetworkFace& face) {
  const ir::Shape& batch = find_input(face, "image")->type.shape;
  return {batch.begin() + 1, batch.end()};
}

/// Of targets; 0: the objective takes none.
std::int64_t target_classes(const NetworkFace& face) {
  const programs::Input* target = find_input(face, "target");
  return target == nullptr ? 0 : target->type.shape[1];
}

/// 0: nobody asks for labels, or any will do.
std::int64_t classes(const NetworkFace& face) {
  const programs::Input* label = find_input(face, "label");
  return label == nullptr ? target_classes(face) : label->categories;
}

std::unique_ptr<ImageSource> open_source(const Recipe& recipe, Split split, const NetworkFace& face) {
  std::unique_ptr<ImageSource> source = make_source(
      recipe.source, {split, image_shape(face), classes(face), static_cast<std::uint64_t>(recipe.seed)});
  if (split == Split::train && source->count() < recipe.train.batch) {
    user_error("train.batch is {}, but {} has {} training images only", recipe.train.batch, source->name(),
               source->count());
  }
  return source;
}

LoaderOptions loader_options(const Recipe& recipe, Split split, std::int64_t images,
                             const NetworkFace& face) {
  LoaderOptions options;
  options.training = split == Split::train;
  options.batch = options.training ? recipe.train.batch : recipe.eval.batch;
  if (!options.training && face.batch == 1) options.batch = std::min(options.batch, images);
  options.seed = static_cast<std::uint64_t>(recipe.seed);
  options.threads = static_cast<int>(recipe.data.threads);
  options.prefetch = recipe.data.prefetch;
  options.classes = target_classes(face);
  return options;
}

}  // namespace

NetworkFace network_face(const ir::Module& module, const ir::Selection& objective) {
  NetworkFace face;
  face.inputs = programs::make_objective(objective)->inputs(module);
  for (const auto& [name, type, categories] : face.inputs) {
    const bool is_image = name == "image" && type.dtype == ir::DType::f32 && type.rank() == 4;
    const bool is_label = name == "label" && type.dtype == ir::DType::i64 && type.rank() == 1;
    const bool is_target = name == "target" && type.dtype == ir::DType::f32 && type.rank() == 2;
    if (is_image || is_label || is_target) continue;
    user_error(
        "a data set has 'image' f32[batch,channels,height,width], 'label' i64[batch] and 'target' "
        "f32[batch,classes]; the network takes '{}' {}",
        name, to_string(type));
  }
  const programs::Input* image = find_input(face, "image");
  if (image == nullptr)
    user_error("the objective {} takes no 'image': a data set gives images", objective.name);
  face.batch = image->type.shape[0];
  return face;
}

TensorMap take_inputs(const ir::Function& function, Batch& batch) {
  TensorMap inputs;
  for (const ir::Argument& argument : function.arguments) {
    const auto tensor = batch.tensors.find(argument.name);
    if (tensor == batch.tensors.end())
      user_error("{} takes '{}', which a data set does not have", function.name, argument.name);
    inputs.insert(batch.tensors.extract(tensor));
  }
  return inputs;
}

void put_back(TensorMap inputs, Batch& batch) {
  batch.tensors.merge(inputs);
}

DataFeed::DataFeed(const Recipe& recipe, Split split, const NetworkFace& face)
    : source_(open_source(recipe, split, face)),
      options_(loader_options(recipe, split, source_->count(), face)),
      transforms_(recipe.transforms, {source_->shape(), image_shape(face), options_.training},
                  options_.seed) {
  if (transforms_.shape() != image_shape(face)) {
    user_error(
        "{}: its images are {} (channels, height, width), the network takes {}: set transforms.resize, or "
        "model.image and model.channels to the data's",
        source_->name(), ir::to_string(transforms_.shape()), ir::to_string(image_shape(face)));
  }
  if (transforms_.changes_batches() && options_.classes == 0) {
    user_error("transforms.mixup and transforms.cutmix blend labels: set objective.targets=probabilities");
  }
}

std::unique_ptr<Loader> DataFeed::load(DataPosition start) const {
  LoaderOptions options = options_;
  if (transforms_.changes_batches()) {
    options.change = [this](std::span<float> images, std::span<float> targets, std::int64_t epoch,
                            std::int64_t index) {
      transforms_.apply_to_batch(images, targets, options_.batch, epoch, index);
    };
  }
  return std::make_unique<Loader>(sample_function(*source_, transforms_), source_->count(),
                                  transforms_.shape(), options, start);
}

std::int64_t DataFeed::batches() const {
  return (source_->count() + (options_.training ? 0 : options_.batch - 1)) / options_.batch;
}

}  // namespace rewire::runtime
