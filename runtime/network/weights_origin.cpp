#include "runtime/network/weights_origin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "ir/printable.h"
#include "ir/text.h"
#include "runtime/device/log.h"
#include "runtime/io/json_view.h"
#include "runtime/recipe/flat_values.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::map<std::string, std::string>;

std::string digest_of_forward(const NetworkSource& source, std::int64_t epoch) {
  ir::Module module = rewritten_forward(source, 1, epoch);
  module.attributes = {};
  std::erase_if(module.functions, [](const ir::Function& function) { return function.name != "forward"; });
  ir::PassContext context;
  ir::run_pipeline(module, context);
  ir::Function& forward = module.functions.front();
  for (ir::Op& op : forward.body) op.location.clear();
  const std::string text = ir::print(module, forward);
  return codegen::digest_hex(std::as_bytes(std::span(text.data(), text.size())));
}

Texts texts_from(const JsonView& json) {
  Texts texts;
  for (const auto& [name, value] : json.members()) texts.emplace(name, value.text());
  return texts;
}

/// Throws UserError if the text is not an origin.
WeightsOrigin origin_from(const std::string& text, const std::string& file) {
  const Json document = parse_json(text, fmt::format("{}: its metadata '{}'", file, kOriginKey));
  const JsonView json(document, fmt::format("{}: its metadata '{}'", file, kOriginKey));
  WeightsOrigin origin;
  origin.rewire = json.at("rewire").text();
  origin.model = json.at("model").text();
  origin.options = texts_from(json.at("options"));
  for (const JsonView& plugin : json.at("plugins").items()) {
    origin.plugins.push_back(
        {plugin.at("name").text(), plugin.at("version").text(), texts_from(plugin.at("values"))});
  }
  for (const JsonView& name : json.at("classes").items()) origin.classes.push_back(name.text());
  origin.normalisation = texts_from(json.at("normalisation"));
  origin.forward = json.at("forward").text();
  return origin;
}

std::string names_of(const std::vector<WeightsOrigin::Strategy>& plugins) {
  std::vector<std::string> names;
  for (const WeightsOrigin::Strategy& plugin : plugins) names.push_back(visible(plugin.name));
  return names.empty() ? "plain joins" : fmt::format("{}", fmt::join(names, ", "));
}

/// Lists up to three values that differ: "dim 192 there, 384 here".
std::string differences(const Texts& there, const Texts& here) {
  constexpr std::size_t kShown = 3;
  std::set<std::string> names;
  for (const Texts* texts : {&there, &here})
    for (const auto& [name, value] : *texts) names.insert(name);
  std::vector<std::string> list;
  for (const std::string& name : names) {
    const auto a = there.find(name), b = here.find(name);
    const std::string was = a == there.end() ? "not set" : visible(a->second),
                      is = b == here.end() ? "not set" : visible(b->second);
    if (was != is) list.push_back(fmt::format("{} {} there, {} here", visible(name), was, is));
  }
  const std::size_t more = list.size() > kShown ? list.size() - kShown : 0;
  list.resize(list.size() - more);
  return fmt::format("{}{}", fmt::join(list, "; "), more == 0 ? "" : fmt::format("; and {} more", more));
}

/// Returns how the strategies differ; "" if they do not.
std::string other_strategy_of(const WeightsOrigin& there, const WeightsOrigin& here) {
  const std::string was = names_of(there.plugins), is = names_of(here.plugins);
  if (was != is) return fmt::format("it is from a network with {}, but this one has {}", was, is);
  for (std::size_t i = 0; i < here.plugins.size(); ++i) {
    const std::string values = differences(there.plugins[i].values, here.plugins[i].values);
    if (!values.empty())
      return fmt::format("it is from a network with another {}: {}", visible(here.plugins[i].name), values);
  }
  return "";
}

/// Returns what else makes the network compute another function.
std::string other_network_of(const WeightsOrigin& there, const WeightsOrigin& here) {
  if (there.model != here.model)
    return fmt::format("it is from the model {}, but this one is {}", visible(there.model), here.model);
  const std::string options = differences(there.options, here.options);
  if (!options.empty()) return fmt::format("it is from a {} with other options: {}", here.model, options);
  for (std::size_t i = 0; i < here.plugins.size(); ++i) {
    const auto &was = there.plugins[i], &is = here.plugins[i];
    if (was.version != is.version)
      return fmt::format("it is from {} {}, but this one is {}", is.name, visible(was.version), is.version);
  }
  if (there.rewire != here.rewire)
    return fmt::format("it is from Rewire {}, whose network differs from that of {}", visible(there.rewire),
                       here.rewire);
  return "it is from the same network in other epochs of its plugins";
}

}  // namespace

WeightsOrigin origin_of(const Recipe& recipe, const NetworkSource& source, std::int64_t epoch,
                        const std::vector<std::string>& classes) {
  WeightsOrigin origin{
      REWIRE_VERSION, recipe.model.name, {}, {}, {}, classes, digest_of_forward(source, epoch)};
  // A module from a file has no options, and its path has no meaning elsewhere.
  if (recipe.model.name.ends_with(".rir")) origin.model = "module";
  constexpr std::string_view kModel = "model.", kTransforms = "transforms.";
  for (const auto& [key, value] : flat_values(to_toml(recipe), "the recipe")) {
    if (key.starts_with(kModel) && key != "model.name")
      origin.options.emplace(key.substr(kModel.size()), flat_text(value));
    if (key == "transforms.mean" || key == "transforms.std")
      origin.normalisation.emplace(key.substr(kTransforms.size()), flat_text(value));
  }
  for (const PluginHandle& plugin : source.plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    WeightsOrigin::Strategy& strategy =
        origin.plugins.emplace_back(WeightsOrigin::Strategy{info.name, info.version, {}});
    for (const auto& [name, value] : plugin_values(*plugin)) strategy.values.emplace(name, value);
  }
  return origin;
}

std::map<std::string, std::string> origin_metadata(const WeightsOrigin& origin) {
  Json plugins = Json::array();
  for (const WeightsOrigin::Strategy& plugin : origin.plugins)
    plugins.push_back({{"name", plugin.name}, {"version", plugin.version}, {"values", plugin.values}});
  const Json json = {{"rewire", origin.rewire},   {"model", origin.model},
                     {"options", origin.options}, {"plugins", plugins},
                     {"classes", origin.classes}, {"normalisation", origin.normalisation},
                     {"forward", origin.forward}};
  return {{"format", "pt"}, {kOriginKey, json.dump(-1, ' ', true, Json::error_handler_t::replace)}};
}

std::optional<WeightsOrigin> read_origin(const std::map<std::string, std::string>& metadata,
                                         const std::string& file) {
  const auto found = metadata.find(kOriginKey);
  if (found == metadata.end()) return std::nullopt;
  return origin_from(found->second, file);
}

void compare_normalisation(const WeightsOrigin& there, const WeightsOrigin& here, const std::string& file) {
  const std::string other = differences(there.normalisation, here.normalisation);
  if (!other.empty())
    write_log(LogLevel::warning,
              fmt::format("{}: it was trained on images with another normalisation: {}", file, other));
}

std::string check_origin(const std::map<std::string, std::string>& metadata, const std::string& file,
                         const WeightsOrigin& wanted, bool other_strategy) {
  const std::optional<WeightsOrigin> origin = read_origin(metadata, file);
  if (!origin) return "it does not say which network it is from: only names and shapes are compared";
  if (origin->forward == wanted.forward) return "";
  const std::string strategy = other_strategy_of(*origin, wanted);
  if (!strategy.empty() && !other_strategy) {
    user_error(
        "{}: {}: the same numbers would compute something else; use its strategy (--plugin), or confirm with "
        "--other-strategy, or train.other_strategy=true for train.weights",
        file, strategy);
  }
  return strategy.empty() ? other_network_of(*origin, wanted) : strategy;
}

}  // namespace rewire::runtime
