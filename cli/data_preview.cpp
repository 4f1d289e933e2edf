// rewire data preview: draws a batch of a recipe as the network will see it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/commands.h"
#include "cli/data_settings.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/data/vision/preview.h"
#include "runtime/network/data_feed.h"

namespace rewire::cli {
namespace {

struct DataPreviewRequest {
  runtime::NetworkRequest network;
  std::string output, split = "train";
  std::int64_t batch = 0, images = 32;
  bool json = false;
};

void declare(DataPreviewRequest& request, Options& options) {
  options
      .text("RECIPE", request.network.model, "a recipe (.toml), a module (.rir) or a zoo model",
            Options::Need::required)
      .takes(Values::model);
  options.text("--output", request.output, "the PNG file to write", Options::Need::required)
      .takes(Values::file, {".png"});
  options.integer("--batch", request.batch, 0,
                  "the batch's number; training batches are numbered across epochs");
  options.choice("--split", request.split, {"train", "test"},
                 "train: as training sees it; test: as evaluation does");
  options.integer("--images", request.images, 1, "number of images to draw, from the first of the batch");
  options
      .list("--set", request.network.settings,
            "section.key=value: set or override a key of the recipe; repeatable")
      .takes(Values::setting);
  options.flag("--json", request.json, "print an object");
  options.example("rewire data preview examples/recipes/fashion_vit.toml --output page.png",
                  "draw the first batch as the network will see it");
}

/// Resolves the network without plugins. They do not change its inputs, so none of them is run.
runtime::Network network_without_plugins(const DataPreviewRequest& request) {
  runtime::NetworkRequest asked = request.network;
  asked.plugins = {"none"};
  runtime::Network network = runtime::resolve_network(asked);
  network.recipe.data.threads = network.recipe.data.prefetch = 1;  // for one batch
  network.recipe.data.cache.clear();
  return network;
}

runtime::Batch load_batch(const runtime::DataFeed& data, const DataPreviewRequest& request) {
  const std::int64_t batches = data.batches();
  if (request.split == "test" && request.batch >= batches) {
    user_error("data preview: --batch {}: the test split has {} batches of {} images, counted from 0",
               request.batch, batches, data.batch());
  }
  runtime::Batch batch;
  const std::int64_t index = request.batch % batches;
  data.load({request.batch / batches, index, index * data.batch()})->next(batch);
  return batch;
}

std::string share_text(const runtime::ClassShare& share, const std::vector<std::string>& names,
                       bool has_targets) {
  std::string text = std::to_string(share.label);
  if (share.label < std::ssize(names))
    text += fmt::format(" ({})", visible(names[static_cast<std::size_t>(share.label)]));
  return has_targets ? fmt::format("{} {:.3f}", text, share.probability) : text;
}

void print_table(const DataPreviewRequest& request, const runtime::Batch& batch,
                 const runtime::BatchPreview& preview, const std::vector<std::string>& names) {
  const bool has_targets = batch.tensors.contains("target");
  print("{}: batch {} of epoch {}, {} {} images of {}, {} per row\n", request.output, batch.index,
        batch.epoch, preview.told.size(), request.split, batch.tensors.at("label").type().shape[0],
        preview.columns);
  if (preview.views > 0) print("below each row of images: {} with further views\n", preview.views);
  print("row  column  {}\n", has_targets ? "classes, with their shares" : "class");
  for (std::size_t i = 0; i < preview.told.size(); ++i) {
    std::vector<std::string> shares;
    for (const runtime::ClassShare& share : preview.told[i])
      shares.push_back(share_text(share, names, has_targets));
    const auto columns = static_cast<std::size_t>(preview.columns);
    print("{:>3}  {:>6}  {}\n", i / columns, i % columns, fmt::to_string(fmt::join(shares, ", ")));
  }
}

nlohmann::ordered_json to_json(const DataPreviewRequest& request, const runtime::Batch& batch,
                               const runtime::BatchPreview& preview, const std::vector<std::string>& names) {
  nlohmann::ordered_json images = nlohmann::ordered_json::array();
  for (const std::vector<runtime::ClassShare>& told : preview.told) {
    nlohmann::ordered_json& shares = images.emplace_back(nlohmann::ordered_json::array());
    for (const runtime::ClassShare& share : told) {
      nlohmann::ordered_json& entry = shares.emplace_back();
      entry["label"] = share.label;
      if (share.label < std::ssize(names)) entry["name"] = names[static_cast<std::size_t>(share.label)];
      entry["probability"] = share.probability;
    }
  }
  return {{"file", request.output}, {"split", request.split}, {"epoch", batch.epoch},
          {"batch", batch.index},   {"rows", preview.rows},   {"columns", preview.columns},
          {"views", preview.views}, {"images", images}};
}

void run(const DataPreviewRequest& request) {
  check_output(request.output, files_of(request.network));
  const runtime::Network network = network_without_plugins(request);
  const runtime::Split split = request.split == "train" ? runtime::Split::train : runtime::Split::test;
  const runtime::DataFeed data(network.recipe, split,
                               runtime::with_views(runtime::network_face(runtime::original_module(network, 1),
                                                                         network.recipe.objective),
                                                   network.recipe));
  data.images("data preview");
  const runtime::Batch batch = load_batch(data, request);
  const runtime::BatchPreview preview =
      runtime::preview_batch(batch, runtime::transform_values(network.recipe), request.images);
  write_picture(request.output, preview.sheet);
  const std::vector<std::string> names = data.source().class_names();
  if (request.json) {
    print_json(to_json(request, batch, preview, names));
  } else {
    print_table(request, batch, preview, names);
  }
}

}  // namespace

Command data_preview_command() {
  return make_command<DataPreviewRequest>("data preview", "draw a batch as the network will see it", declare,
                                          run);
}

}  // namespace rewire::cli
