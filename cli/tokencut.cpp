// rewire tokencut: finds objects without labels, by a cut through the graph of a network's patches.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/backbone.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/analyze/pca_map.h"
#include "runtime/analyze/token_cut.h"
#include "runtime/data/vision/contact_sheet.h"
#include "runtime/data/vision/preview.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"

namespace rewire::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TokencutRequest {
  FeatureRequest features{.kind = "keys"};
  std::string output, boxes, split = "test";
  runtime::TokenCutOptions cut;
  std::int64_t images = 16;
};

void declare(TokencutRequest& request, Options& options) {
  declare_features(request.features, options, "--kind");
  options.integer("--images", request.images, 1, "number of images, from the first");
  options.choice("--split", request.split, {"train", "test"}, "the split to take images from");
  options.number("--tau", request.cut.tau, -1, "patches with a cosine above it belong together");
  options
      .text("--boxes", request.boxes,
            ".json: for each image the boxes of its objects, [[[x0, y0, x1, y1], ...], ...] in pixels; the "
            "last line then has the share of images whose object is found (CorLoc)")
      .takes(Values::file, {".json"});
  options.text("--output", request.output, "a folder for a picture of each image beside its mask")
      .takes(Values::folder);
  options.example("rewire tokencut runs/fashion_vit-none-s0 --images 8 --output masks",
                  "draw the masks of eight test images");
}

std::vector<std::vector<runtime::PixelBox>> read_boxes(const std::string& file, std::int64_t images) {
  const Json text = runtime::read_json(runtime::FilePlace::of_user(file));
  std::vector<std::vector<runtime::PixelBox>> all;
  for (const runtime::JsonView& image : runtime::JsonView(text, file).items()) {
    std::vector<runtime::PixelBox>& boxes = all.emplace_back();
    for (const runtime::JsonView& box : image.items()) {
      const std::vector<runtime::JsonView> sides = box.items();
      if (sides.size() != 4) box.refuse("is not a box: it must have four numbers, x0, y0, x1, y1");
      if (sides[2].count() < sides[0].count() || sides[3].count() < sides[1].count())
        box.refuse("is not a box: x1 must be at least x0, and y1 at least y0");
      boxes.push_back({sides[0].count(), sides[1].count(), sides[2].count(), sides[3].count()});
    }
  }
  if (std::ssize(all) < images)
    user_error("{}: it has the boxes of {} images, but {} images are taken", file, all.size(), images);
  all.resize(static_cast<std::size_t>(images));
  return all;
}

/// Converts a box from patches to pixels.
runtime::PixelBox scaled(const runtime::PixelBox& box, const runtime::FeatureFacts& facts,
                         const ir::Shape& image) {
  const auto x = [&](std::int64_t column) { return column * image.at(2) / facts.columns; };
  const auto y = [&](std::int64_t row) { return row * image.at(1) / facts.rows; };
  return {x(box.x0), y(box.y0), x(box.x1), y(box.y1)};
}

/// Draws the image, and beside it the image with everything outside the mask darkened.
runtime::DrawnImage picture(std::span<const std::uint8_t> pixels, const runtime::TokenCut& cut,
                            const runtime::FeatureFacts& facts, const ir::Shape& image) {
  constexpr std::int64_t kLeastSide = 96;
  const std::int64_t height = image.at(1), width = image.at(2);
  const std::int64_t factor = std::max<std::int64_t>(1, kLeastSide / std::max(height, width));
  runtime::ContactSheet sheet(
      {.rows = 1, .columns = 2, .cell_height = factor * height, .cell_width = factor * width});
  sheet.put(0, 0, pixels, image.at(0), height, width);
  std::vector<std::uint8_t> masked(pixels.begin(), pixels.end());
  for (std::size_t i = 0; i < masked.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i) % (height * width);
    const std::int64_t patch =
        place / width * facts.rows / height * facts.columns + place % width * facts.columns / width;
    if (cut.mask[static_cast<std::size_t>(patch)] == 0) masked[i] = static_cast<std::uint8_t>(masked[i] / 4);
  }
  sheet.put(0, 1, masked, image.at(0), height, width);
  return sheet.image();
}

void run(const TokencutRequest& request) {
  if (!(request.cut.tau < 1))
    user_error("tokencut: --tau {}: a cosine is at most 1: give less than 1", request.cut.tau);
  runtime::Backbone backbone = open_backbone(request.features);
  const runtime::FeatureFacts& facts = backbone.facts();
  runtime::require_grid(facts, "tokencut");
  std::vector<std::vector<runtime::PixelBox>> truth;
  if (!request.boxes.empty()) truth = read_boxes(request.boxes, request.images);
  if (!request.output.empty()) runtime::make_folder(request.output);
  const runtime::FeatureSet set =
      backbone.collect({.split = request.split == "train" ? runtime::Split::train : runtime::Split::test,
                        .images = request.images,
                        .keeps_images = true});
  if (!truth.empty()) runtime::require_all_read(set, "--boxes");
  const ir::Attributes transforms = runtime::transform_values(backbone.recipe());
  const auto numbers = static_cast<std::size_t>(backbone.numbers());
  const auto pixels = static_cast<std::size_t>(ir::element_count(backbone.image()));
  std::vector<runtime::PixelBox> found;
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    const runtime::TokenCut cut = runtime::token_cut(std::span(set.rows).subspan(i * numbers, numbers),
                                                     facts.rows, facts.columns, request.cut);
    const runtime::PixelBox box = scaled(cut.box, facts, backbone.image());
    found.push_back(box);
    const auto foreground = std::ranges::count(cut.mask, 1);
    print_json_line({{"image", set.names[i]},
                     {"label", set.labels[i]},
                     {"box", {box.x0, box.y0, box.x1, box.y1}},
                     {"foreground", static_cast<double>(foreground) / static_cast<double>(cut.mask.size())}});
    if (request.output.empty()) continue;
    const std::vector<std::uint8_t> shown = runtime::unnormalised(
        std::span(set.images).subspan(i * pixels, pixels), backbone.image().at(0), transforms);
    runtime::write_file_atomically(fmt::format("{}/{:05}.png", request.output, i),
                                   runtime::encode_png(picture(shown, cut, facts, backbone.image())));
  }
  if (!truth.empty())
    print_json_line({{"images", found.size()}, {"corloc", runtime::correct_localisation(found, truth)}});
}

}  // namespace

Command tokencut_command() {
  return make_command<TokencutRequest>("tokencut", "find objects without labels, by a cut through patches",
                                       declare, run, "fewer --images");
}

}  // namespace rewire::cli
