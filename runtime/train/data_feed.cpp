#include "runtime/train/data_feed.h"

#include <algorithm>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

Dataset read_dataset(const Recipe& recipe, Split split, const NetworkFace& face) {
  if (recipe.data.format == "idx" && recipe.data.path.empty())
    user_error("data.path is empty: set it to the folder that holds the IDX files, or data.format=synthetic");
  if (recipe.data.format == "idx") return load_idx_dataset(recipe.data.path, split);
  SyntheticOptions options;
  options.count = recipe.data.count;
  options.classes = face.classes;
  options.channels = face.image[0];
  options.height = face.image[1];
  options.width = face.image[2];
  options.seed = static_cast<std::uint64_t>(recipe.seed);
  return make_synthetic_dataset(options, split);
}

Dataset open_dataset(const Recipe& recipe, Split split, const NetworkFace& face) {
  Dataset dataset = read_dataset(recipe, split, face);
  const ir::Shape shape = {dataset.channels, dataset.height, dataset.width};
  if (shape != face.image) {
    user_error(
        "{}: its images are {} (channels, height, width), the network takes {}: set model.image and "
        "model.channels to the data's",
        recipe.data.format == "idx" ? recipe.data.path : dataset.name, ir::to_string(shape),
        ir::to_string(face.image));
  }
  check_labels(dataset, face.classes);
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

NetworkFace network_face(const ir::Module& module) {
  const ir::Function& forward = module.function("forward");
  const ir::Value image = forward.argument("image"), logits = forward.result("logits");
  if (!image || !logits)
    user_error("training needs a network with the argument 'image' and the result 'logits'");
  const ir::TensorType& in = forward.type(image);
  const ir::TensorType& out = forward.type(logits);
  if (in.dtype != ir::DType::f32 || in.rank() != 4 || out.rank() != 2) {
    user_error(
        "training feeds 'image' f32[batch,channels,height,width] and reads 'logits' [batch,classes]; the "
        "network has {} and {}",
        to_string(in), to_string(out));
  }
  return {{in.shape[1], in.shape[2], in.shape[3]}, out.shape[1], in.shape[0]};
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
