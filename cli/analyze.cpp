// rewire analyze: measures on the user's own network what papers report. --init measures the conditioning of
// a network before training, for several sets of plugins side by side. cli/analyze_run.h measures a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "cli/analyze_run.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "cli/table.h"
#include "ir/error.h"
#include "runtime/exec/make_engine.h"
#include "runtime/measure/conditioning.h"
#include "runtime/measure/given.h"
#include "runtime/network/weights.h"
#include "runtime/verify/perturbed_state.h"

namespace rewire::cli {
namespace {

struct AnalyzeRequest {
  runtime::NetworkRequest network;
  std::vector<std::string> against;
  std::string input, checkpoint, engine = runtime::engine_names().front();
  std::int64_t batch = 8, largest_jacobian = 2048, images = 1024;
  bool init = false, averages = false, conditioning = false, json = false;
};

void declare(AnalyzeRequest& request, Options& options) {
  declare_network(request.network, options);
  options.flag("--init", request.init, "measure the conditioning of the freshly initialised network");
  options.list("--against", request.against,
               "another set of plugins to compare with --plugin, separated by spaces, or none; repeatable");
  options.text("--input", request.input, ".npy: a batch of images instead of normal noise")
      .takes(Values::file, {".npy"});
  options.integer("--batch", request.batch, 1, "number of noise images");
  options.integer("--images", request.images, 1, "for a run: number of test images, in whole batches");
  options.flag("--conditioning", request.conditioning,
               "for a run: also measure condition numbers on its first test images");
  options
      .text("--checkpoint", request.checkpoint,
            "for a run: best, last, a checkpoint's name, or all of them side by side; the last by default")
      .takes(Values::checkpoint, {"all"});
  options.flag("--ema", request.averages, "for a run: use the moving averages of its weights (train.ema)");
  options.integer("--largest-jacobian", request.largest_jacobian, 0,
                  "compute a block's Jacobian up to this many rows (tokens x width)");
  options.choice("--engine", request.engine, runtime::engine_names(),
                 "the engine that computes; evaluator uses double precision");
  options.flag("--json", request.json, "print an object");
  options.example("rewire analyze vit_tiny_28 --init", "measure the conditioning of the fresh network");
  options.example("rewire analyze runs/fashion_vit-none-s0 --checkpoint all",
                  "show the checkpoints of a run side by side");
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

/// One set of plugins and its measurements.
struct Variant {
  std::string label;
  runtime::Conditioning conditioning;
};

/// Returns the plugins of --plugin, with paths shortened
/// to names, or else the names of the recipe's plugins.
std::string label_of(const runtime::NetworkRequest& request, const runtime::Network& network) {
  std::vector<std::string> names;
  for (const std::string& flag : request.plugins) {
    const std::size_t colon = std::min(flag.find(':'), flag.size());
    names.push_back(std::filesystem::path(flag.substr(0, colon)).stem().string() + flag.substr(colon));
  }
  if (request.plugins.empty()) {
    for (const runtime::PluginHandle& plugin : network.plugins)
      names.push_back(runtime::plugin_info(*plugin).name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, " "));
}

Variant measure(const AnalyzeRequest& request, const runtime::NetworkRequest& asked) {
  const runtime::Network network = runtime::resolve_network(asked);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  std::int64_t batch = request.batch;
  std::optional<runtime::GivenTensor> given;
  if (!request.input.empty()) {
    given = runtime::read_given(request.input);
    batch = runtime::batch_extent(*given, runtime::image_rank(network), false);
  }
  const ir::Module module = runtime::rewritten_module(network, batch);
  const ir::Function& forward = module.function("forward");
  const ir::Argument& image = forward.arguments.at(0);
  if (given) runtime::check_batch(module, forward, image.name, *given);
  const runtime::HostTensor images =
      given ? std::move(given->tensor)
            : runtime::to_host(runtime::random_argument(module, forward, image, seed));
  return {label_of(asked, network),
          runtime::measure_conditioning(module, runtime::fresh_weights(module, network.plugins, seed), images,
                                        {request.engine, seed, request.largest_jacobian})};
}

std::vector<Variant> measure_all(const AnalyzeRequest& request) {
  std::vector<runtime::NetworkRequest> asked = {request.network};
  for (const std::string& set : request.against) {
    runtime::NetworkRequest other = request.network;
    other.plugins = words_of(set);
    if (other.plugins.empty()) user_error("--against '{}' names no plugin: write none for no plugin", set);
    asked.push_back(std::move(other));
  }
  // Errors in any of the networks appear before anything is measured.
  for (const runtime::NetworkRequest& one : asked)
    runtime::rewritten_module(runtime::resolve_network(one), 1);
  std::vector<Variant> variants;
  for (const runtime::NetworkRequest& one : asked) variants.push_back(measure(request, one));
  return variants;
}

/// The mean and the largest of some condition numbers.
struct Spread {
  double mean = 0, max = 0;
};
std::optional<Spread> spread_of(const std::vector<double>& numbers) {
  if (numbers.empty()) return std::nullopt;
  Spread spread;
  for (const double number : numbers) {
    spread.mean += number / static_cast<double>(numbers.size());
    spread.max = std::max(spread.max, number);
  }
  return spread;
}

/// The numbers of a table row by column, from one block or from all blocks.
using Cells = std::vector<std::pair<std::string, std::vector<double>>>;

void add(Cells& cells, const std::string& name, const std::optional<double>& number) {
  auto cell = std::ranges::find(cells, name, &Cells::value_type::first);
  if (cell == cells.end()) cell = cells.insert(cells.end(), {name, {}});
  if (number) cell->second.push_back(*number);
}

/// Returns the columns attention, value_output, one per site, and block.
Cells cells_of(std::span<const runtime::BlockConditioning> blocks) {
  Cells cells = {{"attention", {}}, {"value_output", {}}};
  for (const runtime::BlockConditioning& block : blocks) {
    for (const double condition : block.attention) add(cells, "attention", condition);
    add(cells, "value_output", block.value_output);
    for (const runtime::JoinConditioning& join : block.joins) add(cells, join.site, join.jacobian);
  }
  for (const runtime::BlockConditioning& block : blocks) add(cells, "block", block.jacobian);
  return cells;
}

/// JSON has no infinity.
nlohmann::ordered_json json_number(double number) {
  if (std::isinf(number)) return "infinite";
  return number;
}

nlohmann::ordered_json to_json(const Cells& cells) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, numbers] : cells) {
    const std::optional<Spread> spread = spread_of(numbers);
    object[name] = nullptr;
    if (spread) object[name] = {{"mean", json_number(spread->mean)}, {"max", json_number(spread->max)}};
  }
  return object;
}

void print_object(const AnalyzeRequest& request, const std::vector<Variant>& variants) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [label, conditioning] : variants) {
    nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
    for (const runtime::BlockConditioning& block : conditioning.blocks) {
      nlohmann::ordered_json object = {{"name", block.block}};
      object.update(to_json(cells_of({&block, 1})));
      blocks.push_back(std::move(object));
    }
    nlohmann::ordered_json object = {
        {"plugins", label}, {"all", to_json(cells_of(conditioning.blocks))}, {"blocks", std::move(blocks)}};
    if (!conditioning.no_jacobian.empty()) object["no_jacobian"] = conditioning.no_jacobian;
    list.push_back(std::move(object));
  }
  print_json({{"model", request.network.model}, {"engine", request.engine}, {"variants", std::move(list)}});
}

std::string cell(double number) {
  return std::isinf(number) ? "singular" : fmt::format("{:.4g}", number);
}

enum class Share : std::uint8_t { one_block, mean, max };

/// Adds a line to the table. A block has several attention
/// maps: one column shows their mean, one their largest.
void add_line(Table& table, std::string name, const std::string& label, const Cells& cells, Share row) {
  std::vector<std::string> line = {std::move(name), label};
  for (const auto& [column, numbers] : cells) {
    const std::optional<Spread> spread = spread_of(numbers);
    const std::string mean = spread ? cell(spread->mean) : "-", max = spread ? cell(spread->max) : "-";
    if (column == "attention") {
      line.push_back(row == Share::max ? "" : mean);
      line.push_back(row == Share::mean ? "" : max);
    } else {
      line.push_back(row == Share::max ? max : mean);
    }
  }
  table.add(std::move(line));
}

void print_table(const AnalyzeRequest& request, const std::vector<Variant>& variants) {
  Table table(2);
  std::vector<std::string> head = {"block", "plugins"};
  for (const auto& [column, numbers] : cells_of(variants.front().conditioning.blocks)) {
    if (column == "attention") {
      head.insert(head.end(), {"maps, mean", "maps, max"});
    } else {
      head.push_back(column == "value_output" ? "W_V W_O" : column);
    }
  }
  table.add(head);
  for (std::size_t b = 0; b < variants.front().conditioning.blocks.size(); ++b) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const runtime::BlockConditioning& block = variants[v].conditioning.blocks.at(b);
      add_line(table, v == 0 ? block.block : "", variants[v].label, cells_of({&block, 1}), Share::one_block);
    }
  }
  for (const Share row : {Share::mean, Share::max}) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const std::string name = row == Share::mean ? "all, mean" : "all, max";
      add_line(table, v == 0 ? name : "", variants[v].label, cells_of(variants[v].conditioning.blocks), row);
    }
  }
  print("condition numbers at initialisation of {}, on {}\n", request.network.model,
        request.input.empty() ? "noise" : request.input);
  table.print();
  const auto without = std::ranges::find_if(
      variants, [](const Variant& variant) { return !variant.conditioning.no_jacobian.empty(); });
  if (without != variants.end()) {
    print("Jacobians are left out: {}; at most {} rows (--largest-jacobian)\n",
          without->conditioning.no_jacobian, request.largest_jacobian);
  }
}

void run(const AnalyzeRequest& request) {
  if (!request.init && std::filesystem::is_directory(request.network.model)) {
    if (!request.against.empty() || !request.input.empty()) {
      user_error("analyze: {} works only with --init, and {} is a run folder",
                 request.against.empty() ? "--input" : "--against", request.network.model);
    }
    return analyze_run({request.network, request.checkpoint, request.engine, request.images,
                        request.largest_jacobian, request.averages, request.conditioning, request.json});
  }
  if (!request.init)
    user_error(
        "analyze: say what to measure: a run folder for its streams, or --init for the conditioning of the "
        "freshly initialised network");
  if (!request.checkpoint.empty() || request.averages || request.conditioning)
    user_error("analyze: {} works only with a run folder: drop it or --init", request.averages ? "--ema"
                                                                              : request.conditioning
                                                                                  ? "--conditioning"
                                                                                  : "--checkpoint");
  const std::vector<Variant> variants = measure_all(request);
  request.json ? print_object(request, variants) : print_table(request, variants);
}

}  // namespace

Command analyze_command() {
  return make_command<AnalyzeRequest>("analyze", "measure streams, ranks and conditioning, as in papers",
                                      declare, run, "a smaller --batch");
}

}  // namespace rewire::cli
