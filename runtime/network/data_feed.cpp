#include "runtime/network/data_feed.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "runtime/data/class_map.h"
#include "runtime/data/decoded_cache.h"
#include "runtime/data/subset.h"
#include "runtime/device/log.h"

namespace rewire::runtime {
namespace {

constexpr const char* kPresent = "present";  // the program's argument

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

/// What the recipe takes of the training images.
std::unique_ptr<ImageSource> reduce(std::unique_ptr<ImageSource> source, const RecipeData& data) {
  if (!data.train_list.empty()) {
    std::vector<std::uint32_t> images = listed_images(*source, data.train_list);
    source = take_images(std::move(source), std::move(images));
  }
  if (data.train_fraction < 1) {
    std::vector<std::uint32_t> images = images_of_each_class(*source, data.train_fraction);
    source = take_images(std::move(source), std::move(images));
  }
  return source;
}

std::unique_ptr<ImageSource> open_source(const Recipe& recipe, Split split, const NetworkFace& face,
                                         bool trains, const std::vector<std::string>& names) {
  const RecipeData& data = recipe.data;
  std::unique_ptr<ImageSource> source = make_source(
      recipe.source, {split, image_shape(face), classes(face), static_cast<std::uint64_t>(recipe.seed)});
  if (classes(face) != 0) source = map_classes(std::move(source), names);
  if (split == Split::train) source = reduce(std::move(source), data);
  if (!data.cache.empty()) {
    source = cache_decoded(std::move(source), {data.cache, static_cast<int>(data.threads)});
  }
  if (trains && source->count() < recipe.train.batch) {
    user_error("train.batch is {}, but {} has {} training images only", recipe.train.batch, source->name(),
               source->count());
  }
  return source;
}

/// [channels, height, width] of a view's images.
ir::Shape view_shape(const ViewSpec& view, const ir::Shape& image) {
  if (view.size == 0) return image;
  return {image[0], view.size, view.size};
}

ir::TensorType view_type(const ViewSpec& view, const ir::Shape& image, std::int64_t batch) {
  ir::TensorType type{ir::DType::f32, {view.count, batch}};
  const ir::Shape shape = view_shape(view, image);
  type.shape.insert(type.shape.end(), shape.begin(), shape.end());
  return type;
}

bool is_view(const programs::Input& input) {
  return input.batch_axis == 1;
}

/// The views that the network takes.
std::vector<ViewSpec> views_of(const Recipe& recipe, const NetworkFace& face) {
  std::vector<ViewSpec> taken;
  for (const programs::Input& input : face.inputs) {
    if (!is_view(input)) continue;
    const auto view = std::ranges::find(views(recipe), input.name, &ViewSpec::name);
    if (view == views(recipe).end())
      user_error(
          "the objective takes views '{}': give the recipe a [[view]] of that name, or transforms.preset",
          input.name);
    const ir::TensorType type = view_type(*view, image_shape(face), input.type.shape[1]);
    if (type != input.type)
      user_error("the view '{}' is {}, the objective takes {}: set its count and size", view->name,
                 to_string(type), to_string(input.type));
    taken.push_back(*view);
  }
  return taken;
}

/// 1 for each class that has an image, else 0.
std::vector<float> present_classes(const ImageSource& source, std::int64_t classes) {
  std::vector<float> present(static_cast<std::size_t>(classes), 0.0F);
  for (std::int64_t i = 0; i < source.count(); ++i) present.at(static_cast<std::size_t>(source.label(i))) = 1;
  return present;
}

LoaderOptions loader_options(const Recipe& recipe, Split split, bool trains, const ImageSource& source,
                             const NetworkFace& face) {
  LoaderOptions options;
  options.training = trains;
  options.batch = options.training ? recipe.train.batch : recipe.eval.batch;
  if (!options.training && face.batch == 1) options.batch = std::min(options.batch, source.count());
  options.seed = static_cast<std::uint64_t>(recipe.seed);
  options.threads = static_cast<int>(recipe.data.threads);
  options.prefetch = recipe.data.prefetch;
  options.classes = target_classes(face);
  if (!trains && split == Split::test && recipe.eval.only_present() && classes(face) > 0)
    options.constants[kPresent] = present_classes(source, classes(face));
  for (const programs::Input& input : face.inputs) {
    if (input.filler == programs::Filler::data) continue;
    options.noise.push_back({input.name,
                             {input.type.shape.begin() + 1, input.type.shape.end()},
                             input.filler == programs::Filler::normal});
  }
  return options;
}

}  // namespace

namespace {

NetworkFace face_of(programs::Inputs inputs, const ir::Selection& objective) {
  NetworkFace face;
  face.inputs = std::move(inputs);
  for (const auto& [name, type, categories, filler, batch_axis] : face.inputs) {
    if (filler != programs::Filler::data && type.dtype == ir::DType::f32 && type.rank() > 0) continue;
    const bool is_image = name == "image" && type.dtype == ir::DType::f32 && type.rank() == 4;
    const bool is_label = name == "label" && type.dtype == ir::DType::i64 && type.rank() == 1;
    const bool is_target = name == "target" && type.dtype == ir::DType::f32 && type.rank() == 2;
    const bool is_views = type.dtype == ir::DType::f32 && type.rank() == 5 && batch_axis == 1;
    if (is_image || is_label || is_target || is_views) continue;
    user_error(
        "a data set has 'image' f32[batch,channels,height,width], 'label' i64[batch], 'target' "
        "f32[batch,classes] and views f32[count,batch,channels,height,width]; the network takes '{}' {}",
        name, to_string(type));
  }
  const programs::Input* image = find_input(face, "image");
  if (image == nullptr)
    user_error("the objective {} takes no 'image': a data set gives images", objective.name);
  face.batch = image->type.shape[0];
  return face;
}

}  // namespace

NetworkFace network_face(const ir::Module& module, const ir::Selection& objective) {
  return face_of(programs::make_objective(objective)->inputs(module), objective);
}

NetworkFace training_face(const NetworkSource& source, const ir::Selection& selection) {
  const std::unique_ptr<programs::Objective> objective = programs::make_objective(selection);
  programs::Inputs inputs = objective->inputs(source.forward(1));
  // A batch's images are there whether or not the step takes them: they say what the data are.
  for (programs::Input& input : training_inputs(source, *objective)) {
    if (std::ranges::find(inputs, input.name, &programs::Input::name) == inputs.end())
      inputs.push_back(std::move(input));
  }
  return face_of(std::move(inputs), selection);
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

NetworkFace with_views(NetworkFace face, const Recipe& recipe) {
  for (const ViewSpec& view : views(recipe)) {
    if (find_input(face, view.name) == nullptr)
      face.inputs.push_back(
          {.name = view.name, .type = view_type(view, image_shape(face), face.batch), .batch_axis = 1});
  }
  return face;
}

DataFeed::DataFeed(const Recipe& recipe, Split split, const NetworkFace& face, bool trains,
                   const std::vector<std::string>& classes)
    : source_(open_source(recipe, split, face, trains, classes)),
      options_(loader_options(recipe, split, trains, *source_, face)),
      transforms_(transform_values(recipe), {source_->shape(), image_shape(face), options_.training},
                  options_.seed),
      repeats_(options_.training ? recipe.data.aug_repeats : 1),
      skips_unreadable_(recipe.data.unreadable == "skip"),
      only_present_(recipe.eval.only_present()) {
  if (transforms_.shape() != image_shape(face)) {
    user_error(
        "{}: its images are {} (channels, height, width), the network takes {}: set transforms.resize, or "
        "model.image and model.channels to the data's",
        source_->name(), ir::to_string(transforms_.shape()), ir::to_string(image_shape(face)));
  }
  if (transforms_.changes_batches() && options_.classes == 0) {
    user_error("transforms.mixup and transforms.cutmix blend labels: set objective.targets=probabilities");
  }
  if (!options_.training) return;
  for (const ViewSpec& view : views_of(recipe, face)) {
    try {
      add_view(view, recipe, view_shape(view, image_shape(face)));
    } catch (const UserError& error) {
      user_error("the view '{}': {}", view.name, error.what());
    }
  }
}

void DataFeed::add_view(const ViewSpec& view, const Recipe& recipe, const ir::Shape& shape) {
  const ir::Attributes values = overlay(transform_values(recipe), view.values);
  for (std::int64_t copy = 0; copy < view.count; ++copy) {
    view_transforms_.push_back(
        std::make_unique<const TransformChain>(values, TransformContext{source_->shape(), shape, true},
                                               options_.seed, fmt::format("{}/{}", view.name, copy)));
  }
  const ir::Shape& made = view_transforms_.back()->shape();
  if (made != shape) {
    user_error("its images are {} (channels, height, width), where {} are asked for: set its resize",
               ir::to_string(made), ir::to_string(shape));
  }
  views_.push_back({view.name, view.count, shape});
}

std::unique_ptr<Loader> DataFeed::load(DataPosition start) const {
  LoaderOptions options = options_;
  options.views = views_;
  options.repeats = repeats_;
  options.order = [this](std::int64_t epoch) { return source_->order(options_.seed, epoch); };
  if (transforms_.changes_batches()) {
    options.change = [this](std::span<float> images, std::span<float> targets, std::int64_t epoch,
                            std::int64_t index) {
      transforms_.apply_to_batch(images, targets, options_.batch, epoch, index);
    };
  }
  SampleOptions samples;
  for (const auto& chain : view_transforms_) samples.views.push_back(chain.get());
  if (skips_unreadable_) samples.unreadable = &unreadable_;
  samples.replaces = options_.training;
  return std::make_unique<Loader>(sample_function(*source_, transforms_, samples), source_->count(),
                                  transforms_.shape(), options, start);
}

void DataFeed::log_left_out() const {
  for (const std::string& line : source_->notes().left_out)
    write_log(LogLevel::warning, fmt::format("{}: {}", source_->name(), line));
  if (options_.constants.contains(kPresent)) {
    write_log(LogLevel::info,
              fmt::format("{}: {} of {} classes have images and compete (eval.classes=present)",
                          source_->name(), competing(), options_.constants.at(kPresent).size()));
  }
}

std::int64_t DataFeed::competing() const {
  if (!only_present_) return 0;
  const auto present = options_.constants.find(kPresent);
  if (present == options_.constants.end())
    user_error("eval.classes=present: the objective tells no classes apart: set eval.classes=all");
  return std::ranges::count(present->second, 1.0F);
}

std::int64_t DataFeed::batches() const {
  return (source_->count() + (options_.training ? 0 : options_.batch - 1)) / options_.batch;
}

}  // namespace rewire::runtime
