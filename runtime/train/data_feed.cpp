#include "runtime/train/data_feed.h"

#include <algorithm>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kAnyClasses = 10;  // of synthetic images that nobody asks the label of

const programs::Input* find_input(const NetworkFace& face, std::string_view name) {
  const auto found = std::ranges::find(face.inputs, name, &programs::Input::name);
  return found == face.inputs.end() ? nullptr : &*found;
}

/// [channels, height, width]
ir::Shape image_shape(const NetworkFace& face) {
  const ir::Shape& batch = find_input(face, "image")->type.shape;
  return {batch.begin() + 1, batch.end()};
}

Dataset read_dataset(const Recipe& recipe, Split split, const NetworkFace& face) {
  if (recipe.data.format == "idx" && recipe.data.path.empty())
    user_error("data.path is empty: set it to the folder that holds the IDX files, or data.format=synthetic");
  if (recipe.data.format == "idx") return load_idx_dataset(recipe.data.path, split);
  const ir::Shape image = image_shape(face);
  const programs::Input* label = find_input(face, "label");
  SyntheticOptions options;
  options.count = recipe.data.count;
  options.classes = label == nullptr || label->categories == 0 ? kAnyClasses : label->categories;
  options.channels = image[0];
  options.height = image[1];
  options.width = image[2];
  options.seed = static_cast<std::uint64_t>(recipe.seed);
  return make_synthetic_dataset(options, split);
}

Dataset open_dataset(const Recipe& recipe, Split split, const NetworkFace& face) {
  Dataset dataset = read_dataset(recipe, split, face);
  const ir::Shape shape = {dataset.channels, dataset.height, dataset.width};
  if (shape != image_shape(face)) {
    user_error(
        "{}: its images are {} (channels, height, width), the network takes {}: set model.image and "
        "model.channels to the data's",
        recipe.data.format == "idx" ? recipe.data.path : dataset.name, ir::to_string(shape),
        ir::to_string(image_shape(face)));
  }
  const programs::Input* label = find_input(face, "label");
  if (label != nullptr && label->categories > 0) check_labels(dataset, label->categories);
  if (split == Split::train && dataset.count < recipe.train.batch) {
    user_error("train.batch is {}, but {} has {} training images only", recipe.train.batch, dataset.name,
               dataset.count);
  }
  return dataset;
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
  return options;
}

}  // namespace

NetworkFace network_face(const ir::Module& module, const ir::Selection& objective) {
  NetworkFace face;
  face.inputs = programs::make_objective(objective)->inputs(module);
  for (const auto& [name, type, categories] : face.inputs) {
    const bool is_image = name == "image" && type.dtype == ir::DType::f32 && type.rank() == 4;
    const bool is_label = name == "label" && type.dtype == ir::DType::i64 && type.rank() == 1;
    if (is_image || is_label) continue;
    user_error(
        "a data set has 'image' f32[batch,channels,height,width] and 'label' i64[batch]; the network takes "
        "'{}' {}",
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
    : dataset_(open_dataset(recipe, split, face)),
      options_(loader_options(recipe, split, dataset_.count, face)),
      transform_(transform_options(recipe), dataset_.channels, dataset_.height, dataset_.width) {}

std::unique_ptr<Loader> DataFeed::load(DataPosition start) const {
  return std::make_unique<Loader>(sample_function(dataset_, transform_, options_), dataset_.count,
                                  ir::Shape{dataset_.channels, dataset_.height, dataset_.width}, options_,
                                  start);
}

std::int64_t DataFeed::batches() const {
  return (dataset_.count + (options_.training ? 0 : options_.batch - 1)) / options_.batch;
}

}  // namespace rewire::runtime
