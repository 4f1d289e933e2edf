// rewire data preview: draws a batch of a recipe as the network will see it, or prints its windows of text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/data_settings.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/text/token_preview.h"
#include "runtime/data/vision/preview.h"
#include "runtime/network/data_feed.h"

namespace rewire::cli {
namespace {

constexpr std::int64_t kImages = 32, kWindows = 4;

struct DataPreviewRequest {
  runtime::NetworkRequest network;
  std::string output, split = "train";
  std::int64_t batch = 0, images = 0;  // images: 0: kImages, or kWindows of text
  bool json = false;
};

void declare(DataPreviewRequest& request, Options& options) {
  options
      .text("RECIPE", request.network.model, "a recipe (.toml), a module (.rir) or a zoo model",
            Options::Need::required)
      .takes(Values::model);
  options.text("--output", request.output, "the PNG file to write; windows of text are printed")
      .takes(Values::file, {".png"});
  options.integer("--batch", request.batch, 0,
                  "the batch's number; training batches are numbered across epochs");
  options.choice("--split", request.split, {"train", "test"},
                 "train: as training sees it; test: as evaluation does");
  options.integer(
      "--images", request.images, 0,
      "number of images to draw, or of windows to print, from the first of the batch; 0: 32 images, "
      "or 4 windows");
  options
      .list("--set", request.network.settings,
            "section.key=value: set or override a key of the recipe; repeatable")
      .takes(Values::setting);
  options.flag("--json", request.json, "print an object");
  options.example("rewire data preview examples/recipes/fashion_vit.toml --output page.png",
                  "draw the first batch as the network will see it");
  options.example("rewire data preview gpt2_nano --set data.format=text --images 2",
                  "print the first two windows of text");
}

/// Resolves the network without plugins. They do not change its inputs, so none of them is run.
runtime::Network network_without_plugins(const DataPreviewRequest& request) {
  runtime::NetworkRequest asked = request.network;
  asked.plugins = {"none"};
  runtime::Network network = runtime::resolve_network(asked);
  network.recipe.data.threads = network.recipe.data.prefetch = 1;  // for one batch
  // Decoding all images would take longer than those of one batch.
  if (!ir::find_row(runtime::sources(), "data.format", network.recipe.source.name).caches)
    network.recipe.data.cache.clear();
  return network;
}

void check_batch(const DataPreviewRequest& request, std::int64_t batches, std::int64_t size,
                 std::string_view what) {
  if (request.split == "test" && request.batch >= batches) {
    user_error("data preview: --batch {}: the test split has {} batches of {} {}, counted from 0",
               request.batch, batches, size, what);
  }
}

runtime::Batch load_batch(const runtime::DataFeed& data, const DataPreviewRequest& request) {
  const std::int64_t batches = data.batches();
  check_batch(request, batches, data.batch(), "images");
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

/// Prints windows, or an object of them.
void show_windows(const runtime::TokenSource& source, const runtime::Recipe& recipe,
                  const DataPreviewRequest& request) {
  if (!request.output.empty()) user_error("data preview: windows of text are printed: leave out --output");
  const bool trains = request.split == "train";
  const auto seed = static_cast<std::uint64_t>(recipe.seed);
  const std::int64_t size = trains ? recipe.train.batch : std::min(recipe.eval.batch, source.count()),
                     batches = trains ? source.count() / size : (source.count() + size - 1) / size,
                     epoch = request.batch / batches, batch = request.batch % batches,
                     wanted = request.images == 0 ? kWindows : request.images,
                     count = std::min({wanted, size, source.count() - batch * size});
  check_batch(request, batches, size, "windows");
  const std::vector<std::uint32_t> order = source.order(seed, epoch);
  nlohmann::ordered_json windows = nlohmann::ordered_json::array();
  runtime::Sample sample;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t window = batch * size + i;
    if (trains) {
      window = order[static_cast<std::size_t>(window)];
      source.read_drawn(seed, epoch, window, 0, sample);
    } else {
      source.read(window, sample);
    }
    const std::string text = window_text(source, sample);
    if (request.json) {
      windows.push_back(text);
    } else {
      print("=== {} {} of batch {}, epoch {} ===\n", request.split, i, batch, epoch);
      write_stdout(text);  // window_text() has made it printable
    }
  }
  if (request.json)
    print_json({{"split", request.split}, {"epoch", epoch}, {"batch", batch}, {"windows", windows}});
}

void run(const DataPreviewRequest& request) {
  if (!request.output.empty()) check_output(request.output, files_of(request.network));
  const runtime::Network network = network_without_plugins(request);
  const runtime::Split split = request.split == "train" ? runtime::Split::train : runtime::Split::test;
  const runtime::DataFeed data(network.recipe, split,
                               runtime::with_views(runtime::network_face(runtime::original_module(network, 1),
                                                                         network.recipe.objective),
                                                   network.recipe));
  if (const runtime::TokenSource* const tokens = runtime::tokens_of(data.source())) {
    show_windows(*tokens, network.recipe, request);
    return;
  }
  data.images("data preview");
  if (request.output.empty()) user_error("data preview: give the PNG file to write: --output FILE");
  const runtime::Batch batch = load_batch(data, request);
  const runtime::BatchPreview preview = runtime::preview_batch(
      batch, runtime::transform_values(network.recipe), request.images == 0 ? kImages : request.images);
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
  return make_command<DataPreviewRequest>("data preview", "show a batch as the network will see it", declare,
                                          run);
}

}  // namespace rewire::cli
