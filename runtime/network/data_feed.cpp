#include "runtime/network/data_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/error.h"
#include "ir/printable.h"
#include "programs/objective.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/class_map.h"
#include "runtime/data/vision/decoded_cache.h"
#include "runtime/data/vision/subset.h"
#include "runtime/data/vision/transform.h"
#include "runtime/device/log.h"
#include "runtime/device/process.h"
#include "runtime/exec/make_engine.h"

namespace rewire::runtime {
namespace {

constexpr const char* kPresent = "present";     // the program's argument
constexpr const char* kWeightInput = "weight";  // the loader's own

const programs::Input* find_input(const NetworkFace& face, std::string_view name) {
  const auto found = std::ranges::find(face.inputs, name, &programs::Input::name);
  return found == face.inputs.end() ? nullptr : &*found;
}

bool is_view(const programs::Input& input) {
  return input.batch_axis == 1;
}

FieldKind kind_of(const programs::Input& input) {
  if (input.kind != FieldKind::number) return input.kind;
  if (input.name == kImageField) return FieldKind::image;
  return input.name == kLabelField && input.type.rank() == 1 ? FieldKind::category : FieldKind::number;
}

/// Returns the fields to request for a sample. Views are made from it, so they are not among the fields.
std::vector<Field> asked_fields(const NetworkFace& face) {
  std::vector<Field> asked;
  for (const programs::Input& input : face.inputs) {
    if (input.filler != programs::Filler::data || is_view(input)) continue;
    Field field{input.name,
                input.type.dtype,
                {input.type.shape.begin() + 1, input.type.shape.end()},
                kind_of(input),
                input.categories};
    if (input.name == kTargetField) field.categories = input.type.shape[1];
    asked.push_back(std::move(field));
  }
  return asked;
}

/// [channels, height, width]
ir::Shape image_shape(const NetworkFace& face) {
  const auto image = std::ranges::find(face.inputs, FieldKind::image, kind_of);
  if (image == face.inputs.end()) user_error("the network takes views, but no image to make them from");
  return {image->type.shape.begin() + 1, image->type.shape.end()};
}

/// Returns the number of classes in the target; 0 if the objective takes no target.
std::int64_t target_classes(const NetworkFace& face) {
  const programs::Input* target = find_input(face, "target");
  return target == nullptr ? 0 : target->type.shape[1];
}

/// Returns the number of classes; 0 if no labels are taken or any label is valid.
std::int64_t classes(const NetworkFace& face) {
  const programs::Input* label = find_input(face, "label");
  return label == nullptr ? target_classes(face) : label->categories;
}

/// Restricts the source to the training images that the recipe selects.
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

/// Throws UserError if the recipe sets a key that only labelled images support.
void refuse_of_images(const Source& source, const Recipe& recipe) {
  const RecipeData& data = recipe.data;
  const SourceRow& row = ir::find_row(sources(), "data.format", recipe.source.name);
  std::string key = !data.train_list.empty()             ? "data.train_list"
                    : data.train_fraction < 1            ? "data.train_fraction"
                    : !data.cache.empty() && !row.caches ? "data.cache"
                    : recipe.eval.only_present()         ? "eval.classes=present"
                    : recipe.eval.knn > 0                ? "eval.knn"
                                                         : "";
  const ir::Attributes values = transform_values(recipe);
  for (const TransformRow* transform : transforms()) {
    const ir::Attributes settled = ir::settle(transform->schema, values, "transforms"),
                         off = ir::settle(transform->schema, {}, "transforms");
    for (const ir::ParameterSpec& parameter : transform->schema) {
      const bool is_set = *settled.find(parameter.name) != *off.find(parameter.name);
      if (key.empty() && is_set) key = fmt::format("transforms.{}", parameter.name);
    }
  }
  if (!key.empty()) user_error("{} needs labelled images, but {} has none: remove it", key, source.name());
}

/// Returns the threads that prepare batches. On a host the step itself uses all cores.
int data_threads(const Recipe& recipe, Target target, int cores) {
  if (recipe.data.threads > 0) return static_cast<int>(recipe.data.threads);
  if (target == Target::host) return 1;
  return cores > 0 ? cores : usable_cores();
}

std::unique_ptr<Source> open_source(const Recipe& recipe, Split split, const NetworkFace& face, bool trains,
                                    const std::vector<std::string>& names, int cores) {
  const RecipeData& data = recipe.data;
  std::unique_ptr<Source> source = make_source(
      recipe.source, {split, asked_fields(face), static_cast<std::uint64_t>(recipe.seed), data.cache});
  if (std::unique_ptr<ImageSource> images = images_of(source)) {
    if (classes(face) != 0) images = map_classes(std::move(images), names);
    if (split == Split::train) images = reduce(std::move(images), data);
    if (!data.cache.empty())
      images = cache_decoded(std::move(images), {data.cache, data_threads(recipe, Target::device, cores)});
    source = std::move(images);
  } else {
    refuse_of_images(*source, recipe);
  }
  if (trains && source->count() < recipe.train.batch) {
    user_error("train.batch is {}, but {} has only {} training samples", recipe.train.batch, source->name(),
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

/// Returns the views that the network takes.
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
      user_error("the view '{}' is {}, but the objective takes {}: set its count and size", view->name,
                 to_string(type), to_string(input.type));
    taken.push_back(*view);
  }
  return taken;
}

/// Returns 1 for each class that has an image, else 0.
std::vector<float> present_classes(const ImageSource& source, std::int64_t classes) {
  std::vector<float> present(static_cast<std::size_t>(classes), 0.0F);
  for (std::int64_t i = 0; i < source.count(); ++i) present.at(static_cast<std::size_t>(source.label(i))) = 1;
  return present;
}

LoaderOptions loader_options(const Recipe& recipe, Split split, bool trains, const Source& source,
                             const NetworkFace& face, Target target, int cores) {
  LoaderOptions options;
  options.training = trains;
  options.batch = options.training ? recipe.train.shard_batch() : recipe.eval.batch;
  if (!options.training && face.batch == 1) options.batch = std::min(options.batch, source.count());
  options.seed = static_cast<std::uint64_t>(recipe.seed);
  options.threads = data_threads(recipe, target, cores);
  options.prefetch = recipe.data.prefetch;
  options.repeats = trains ? recipe.data.aug_repeats : 1;
  const auto* const images = dynamic_cast<const ImageSource*>(&source);
  if (!trains && split == Split::test && recipe.eval.only_present() && classes(face) > 0 && images != nullptr)
    options.constants[kPresent] = present_classes(*images, classes(face));
  for (const programs::Input& input : face.inputs) {
    if (input.filler == programs::Filler::data || input.filler == programs::Filler::file) continue;
    options.noise.push_back({input.name,
                             {input.type.shape.begin() + 1, input.type.shape.end()},
                             input.filler == programs::Filler::normal});
  }
  return options;
}

/// Checks an input that its kind does not identify: image data sets provide only some names and types.
void check_beside_image(const programs::Input& input) {
  const auto& [name, type] = std::tie(input.name, input.type);
  if (input.filler != programs::Filler::data) return;
  if (input.kind != FieldKind::number || !masked_name(name).empty()) return;
  const bool is_label = name == kLabelField && type.dtype == ir::DType::i64 && type.rank() == 1;
  const bool is_target = name == kTargetField && type.dtype == ir::DType::f32 && type.rank() == 2;
  const bool is_views = is_view(input) && type.dtype == ir::DType::f32 && type.rank() == 5;
  const bool is_image = name == kImageField && type.dtype == ir::DType::f32 && type.rank() == 4;
  if (is_image || is_label || is_target || is_views) return;
  user_error(
      "a data set has 'image' f32[batch,channels,height,width], 'label' i64[batch], 'target' "
      "f32[batch,classes] and views f32[count,batch,channels,height,width]; the network takes '{}' {}",
      name, to_string(type));
}

NetworkFace face_of(programs::Inputs inputs, const ir::Selection& objective) {
  NetworkFace face;
  face.inputs = std::move(inputs);
  const bool has_images = std::ranges::find(face.inputs, FieldKind::image, kind_of) != face.inputs.end();
  const programs::Input* first = nullptr;
  for (const programs::Input& input : face.inputs) {
    const bool is_drawn =
        input.filler == programs::Filler::uniform || input.filler == programs::Filler::normal;
    if (input.type.rank() == 0 || (is_drawn && input.type.dtype != ir::DType::f32) ||
        input.name == kWeightInput || input.name == kPresent) {
      user_error(
          "the objective {} takes '{}' {}: an input of a batch needs the batch as an axis, a drawn input "
          "must be f32, and the names '{}' and '{}' are reserved",
          objective.name, input.name, to_string(input.type), kWeightInput, kPresent);
    }
    if (has_images) check_beside_image(input);
    const bool is_first =
        has_images ? kind_of(input) == FieldKind::image : input.filler == programs::Filler::data;
    if (first == nullptr && is_first) first = &input;
  }
  if (first == nullptr) user_error("the objective {} takes no input from the data", objective.name);
  face.batch = first->type.shape[0];
  return face;
}

}  // namespace

NetworkFace network_face(const ir::Module& module, const ir::Selection& objective) {
  return face_of(programs::make_objective(objective)->inputs(module), objective);
}

NetworkFace training_face(const NetworkSource& source, const ir::Selection& selection) {
  const std::unique_ptr<programs::Objective> objective = programs::make_objective(selection);
  programs::Inputs inputs = objective->inputs(source.forward(1));
  // The batch has the images even if the step does not take them: they describe the data.
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
      user_error("{} takes '{}', but a data set has no such tensor", function.name, argument.name);
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

Target target_of(std::string_view engine) {
  return computes_on_host(engine) ? Target::host : Target::device;
}

DataFeed::DataFeed(const Recipe& recipe, Split split, const NetworkFace& face, bool trains,
                   const std::vector<std::string>& classes, Target target, int cores)
    : source_(open_source(recipe, split, face, trains, classes, cores)),
      options_(loader_options(recipe, split, trains, *source_, face, target, cores)),
      pipeline_(source_->pipeline({.asked = asked_fields(face),
                                   .transforms = transform_values(recipe),
                                   .views = trains ? views_of(recipe, face) : std::vector<ViewSpec>(),
                                   .training = trains,
                                   .seed = options_.seed,
                                   .bytes = target == Target::device})),
      skips_unreadable_(recipe.data.unreadable == "skip"),
      only_present_(recipe.eval.only_present()) {
  options_.fields = pipeline_->fields();
  options_.made = pipeline_->made();
  if (!trains) return;
  for (const programs::Input& input : face.inputs) {
    if (input.filler == programs::Filler::file) open_file(input);
  }
}

void DataFeed::open_file(const programs::Input& input) {
  const ir::TensorType row{input.type.dtype, {input.type.shape.begin() + 1, input.type.shape.end()}};
  auto rows = std::make_unique<const NpyRows>(input.file);
  // The file has a row for each sample of the source, of which a run may use a part.
  if (rows->type() != row || rows->count() != source_->origins()) {
    user_error("{}: it has {} rows {}, but '{}' needs a row {} for each of the {} samples of {}",
               visible(input.file), rows->count(), to_string(rows->type()), input.name, to_string(row),
               source_->origins(), source_->name());
  }
  options_.fields.push_back({input.name, row});
  files_.push_back(std::move(rows));
}

const ImageSource& DataFeed::images(std::string_view what) const {
  const auto* const images = dynamic_cast<const ImageSource*>(source_.get());
  if (images == nullptr) user_error("{} needs labelled images, but {} has none", what, source_->name());
  return *images;
}

std::unique_ptr<Loader> DataFeed::load(DataPosition start, LoaderShare share) const {
  LoaderOptions options = options_;
  options.share = share;
  options.order = [this](std::int64_t epoch) { return source_->order(options_.seed, epoch); };
  options.finish = [this](Batch& batch) { pipeline_->finish(batch); };
  SampleOptions samples;
  if (skips_unreadable_) samples.unreadable = &unreadable_;
  samples.replaces = options_.training;
  const ReadFunction read = [this](const Visit& visit, SampleRow row) {
    pipeline_->read(visit, row);
    try {
      for (std::size_t i = 0; i < files_.size(); ++i)
        files_[i]->read(source_->origin(visit.sample), row[row.size() - files_.size() + i]);
    } catch (const UserError& error) {
      throw DataError(error.what());  // not the sample's fault: do not leave it out
    }
  };
  return std::make_unique<Loader>(sample_function(*source_, read, samples), source_->count(), options, start);
}

void DataFeed::take_bytes(ir::Module& module, std::string_view name) const {
  ir::Function* const function = module.find_function(name);
  if (function == nullptr) return;
  for (const RowField& field : options_.fields) {
    if (!field.byte_values.empty()) programs::take_bytes(module, *function, {field.name, field.byte_values});
  }
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
    user_error("eval.classes=present: the objective has no classes: set eval.classes=all");
  return std::ranges::count(present->second, 1.0F);
}

std::int64_t DataFeed::batches() const {
  return (source_->count() + (options_.training ? 0 : options_.batch - 1)) / options_.batch;
}

}  // namespace rewire::runtime
