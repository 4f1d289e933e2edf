// rewire features: writes a network's features of images to files, and draws the principal components of
// patches.
#include <fmt/format.h>

#include "cli/backbone.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/analyze/pca_map.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"

namespace rewire::cli {
namespace {

constexpr std::int64_t kDrawnImages = 16;

struct FeaturesRequest {
  FeatureRequest features{.kind = "class"};
  std::string output, labels, input, split = "test", pca;
  std::int64_t images = 0;
  bool json = false;
};

void declare(FeaturesRequest& request, Options& options) {
  declare_features(request.features, options, "--kind");
  options.text("--output", request.output, "the .npy file to write the features to")
      .takes(Values::file, {".npy"});
  options.text("--labels", request.labels, "the .npy file to write the images' labels to")
      .takes(Values::file, {".npy"});
  options.choice("--split", request.split, {"train", "test"}, "the split to take images from, in order");
  options.integer("--images", request.images, 0,
                  "number of images, from the first; 0: all, or 16 for a picture alone");
  options
      .text("--input", request.input,
            ".npy: images, f32 [images, channels, height, width], to use instead of the data's")
      .takes(Values::file, {".npy"});
  options
      .text("--pca", request.pca,
            "a .png file to draw: images beside their patches, coloured by the three largest principal "
            "components (with --kind tokens or keys)")
      .takes(Values::file, {".png"});
  options.flag("--json", request.json, "print an object");
  options.example("rewire features runs/fashion_vit-none-s0 --output f.npy --labels y.npy",
                  "write the class token of every test image, and its label");
  options.example("rewire features runs/fashion_vit-none-s0 --kind keys --pca page.png",
                  "draw patches coloured by their keys");
}

runtime::HostTensor tensor_of(std::vector<float> numbers, ir::Shape shape) {
  runtime::HostTensor tensor({ir::DType::f32, std::move(shape)});
  std::ranges::copy(numbers, tensor.as<float>().begin());
  return tensor;
}

struct Taken {
  std::int64_t images = 0;
  std::vector<float> rows, pixels;
  std::vector<std::int64_t> labels;
};

Taken of_file(const FeaturesRequest& request, runtime::Backbone& backbone) {
  if (!request.labels.empty() || request.images != 0)
    user_error("features: {} works only for the data's images: drop it or --input {}",
               request.labels.empty() ? "--images" : "--labels", request.input);
  const runtime::GivenTensor given = runtime::read_given(request.input);
  const ir::TensorType& type = given.tensor.type();
  ir::Shape image = type.shape;
  if (!image.empty()) image.erase(image.begin());
  if (type.dtype != ir::DType::f32 || image != backbone.image())
    user_error("{}: it is {}; the network takes any number of images f32 {}", request.input, to_string(type),
               ir::to_string(backbone.image()));
  const runtime::HostTensor features = backbone.features(given.tensor);
  const auto rows = features.as<float>(), pixels = given.tensor.as<float>();
  return {type.shape.front(), {rows.begin(), rows.end()}, {pixels.begin(), pixels.end()}, {}};
}

Taken of_data(const FeaturesRequest& request, runtime::Backbone& backbone) {
  const bool draws_alone = request.output.empty() && request.labels.empty();
  runtime::FeatureSet set =
      backbone.collect({.split = request.split == "train" ? runtime::Split::train : runtime::Split::test,
                        .images = request.images,
                        .most = draws_alone ? kDrawnImages : 0,
                        .keeps_images = !request.pca.empty()});
  return {set.count(), std::move(set.rows), std::move(set.images), std::move(set.labels)};
}

void run(const FeaturesRequest& request) {
  if (request.output.empty() && request.pca.empty())
    user_error("features: give a file to write: --output FILE.npy or --pca FILE.png");
  const std::vector<std::string> read = {request.features.backbone.trained.network.model,
                                         request.features.backbone.trained.weights, request.input};
  const std::vector<std::pair<std::string, std::string>> outputs = {
      {"--output", request.output}, {"--labels", request.labels}, {"--pca", request.pca}};
  for (const auto& [option, file] : outputs) {
    if (!file.empty()) check_output(file, read, option);
  }
  check_different(outputs);
  runtime::Backbone backbone = open_backbone(request.features);
  const runtime::FeatureFacts& facts = backbone.facts();
  if (!request.pca.empty()) runtime::require_grid(facts, "--pca");
  const Taken taken = request.input.empty() ? of_data(request, backbone) : of_file(request, backbone);
  ir::Shape shape = {taken.images};
  if (facts.patches > 0) shape.push_back(facts.patches);
  shape.push_back(facts.width);
  if (!request.pca.empty()) {
    const runtime::DrawnImage sheet = runtime::draw_pca_maps(
        {taken.rows, facts, taken.pixels, backbone.image(), runtime::transform_values(backbone.recipe())});
    runtime::write_file_atomically(request.pca, runtime::encode_png(sheet));
  }
  if (!request.output.empty()) runtime::write_npy(request.output, tensor_of(taken.rows, shape));
  if (!request.labels.empty()) {
    runtime::HostTensor labels({ir::DType::i64, {taken.images}});
    std::ranges::copy(taken.labels, labels.as<std::int64_t>().begin());
    runtime::write_npy(request.labels, labels);
  }
  if (request.json) {
    print_json({{"weights", backbone.weights()},
                {"kind", request.features.kind},
                {"layers", facts.layers},
                {"shape", shape}});
  } else {
    print("{} features of {}: {}\n", request.features.kind,
          fmt::format("{}", fmt::join(facts.layers, " and ")), ir::to_string(shape));
  }
}

}  // namespace

Command features_command() {
  return make_command<FeaturesRequest>("features",
                                       "write a network's features of images, as .npy or a picture", declare,
                                       run, "fewer --images");
}

}  // namespace rewire::cli
