#include "runtime/diff/network_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "runtime/io/json_view.h"

namespace rewire::runtime {
namespace {

/// Limit of one launch or buffer. A file has too few of them for their sum to exceed 64 bits.
constexpr std::int64_t kMostOfOne = std::int64_t{1} << 44;

std::string text_at(const JsonView& object, std::string_view key) {
  return object.at(key).text();
}

/// Returns a value of any kind as text: text as it is, other values as JSON.
std::string shown_value(const JsonView& value) {
  return value.raw().is_string() ? value.text() : value.raw().dump();
}

std::string plugin_line(const JsonView& plugin) {
  std::string text = text_at(plugin, "name") + " " + text_at(plugin, "version");
  std::vector<std::string> values;
  for (const auto& [key, value] : plugin.at("values").members())
    values.push_back(key + "=" + shown_value(value));
  return values.empty() ? text : fmt::format("{} ({})", text, fmt::join(values, ", "));
}

void read_about(const JsonView& data, NetworkFacts& facts) {
  for (const char* key : {"model", "program", "batch", "cpu", "gpu", "version"})
    facts.about.emplace_back(key, shown_value(data.at(key)));
  std::vector<std::string> plugins;
  for (const JsonView& plugin : data.at("plugins").items()) plugins.push_back(plugin_line(plugin));
  facts.about.emplace_back("plugins", plugins.empty() ? "none" : fmt::format("{}", fmt::join(plugins, "; ")));
}

void read_joins(const JsonView& data, NetworkFacts& facts) {
  for (const JsonView& join : data.at("joins").items()) {
    std::vector<std::string> formulas;
    for (const JsonView& formula : join.at("formulas").items()) formulas.push_back(text_at(formula, "text"));
    facts.join_places.push_back(text_at(join, "at"));
    facts.joins[facts.join_places.back()] = fmt::format("{}", fmt::join(formulas, "; "));
  }
}

std::string declared(const JsonView& list) {
  std::vector<std::string> parts;
  for (const JsonView& one : list.items())
    parts.push_back(fmt::format("{}: {}", text_at(one, "name"), text_at(one, "type")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

ModuleFacts read_module_facts(const JsonView& module) {
  ModuleFacts facts;
  std::string trained;  // an earlier Rewire listed what trains in an attribute, joined by '+'
  for (const auto& [name, value] : module.at("attributes").members()) {
    if (name == "training" && value.raw().is_string()) {
      trained = fmt::format("+{}+", value.text());
    } else {
      facts.declarations["attribute " + name] = shown_value(value);
    }
  }
  for (const JsonView& parameter : module.at("parameters").items()) {
    std::string text = text_at(parameter, "type");
    for (const auto& [key, value] : parameter.members()) {
      if (key != "name" && key != "type") text += fmt::format(" {}={}", key, value.raw().dump());
    }
    facts.declarations["param " + text_at(parameter, "name")] = text;
  }
  for (const JsonView& function : module.at("functions").items()) {
    FunctionFacts& one = facts.functions.emplace_back();
    one.name = text_at(function, "name");
    const auto training = function.find("training");
    if (training && !training->raw().is_boolean()) training->refuse("is neither true nor false");
    const bool trains = training ? training->raw().get<bool>()
                                 : trained.find(fmt::format("+{}+", one.name)) != std::string::npos;
    one.lines.push_back({fmt::format("func {}({}) -> ({}){}", one.name, declared(function.at("arguments")),
                                     declared(function.at("results")), trains ? " training" : ""),
                         ""});
    for (const JsonView& op : function.at("ops").items())
      one.lines.push_back({text_at(op, "text"), text_at(op, "at")});
    facts.ops += one.lines.size() - 1;
    if (const auto returned = function.find("return"))
      one.lines.push_back({"return " + returned->text(), ""});
  }
  return facts;
}

std::optional<double> optional_number(const JsonView& object, std::string_view key) {
  const auto value = object.find(key);
  if (!value || value->raw().is_null()) return std::nullopt;
  return value->number();
}

void read_launches(const JsonView& data, NetworkFacts& facts) {
  for (const JsonView& code : data.at("codes").items()) {
    CodeFacts& one =
        facts.codes.emplace_back(CodeFacts{text_at(code, "name"), text_at(code, "tile"), "", ""});
    if (const auto structure = code.find("structure")) one.structure = structure->text();
    if (const auto assembly = code.find("asm")) one.assembly = assembly->text();
  }
  for (const JsonView& launch : data.at("launches").items()) {
    LaunchFacts& one = facts.launches.emplace_back();
    one.kind = text_at(launch, "kind");
    one.name = text_at(launch, "name");
    one.at = text_at(launch, "at");
    one.bytes = launch.at("bytes").count(kMostOfOne);
    one.flops = launch.at("flops").count(kMostOfOne);
    one.ms = optional_number(launch, "ms");
    if (one.kind != "kernel") continue;
    if (facts.codes.empty()) launch.at("code").refuse("is the number of a code, but there are no codes");
    one.code =
        static_cast<std::size_t>(launch.at("code").count(static_cast<std::int64_t>(facts.codes.size()) - 1));
  }
}

void read_memory(const JsonView& data, NetworkFacts& facts) {
  const JsonView memory = data.at("memory");
  facts.memory = {{"arena", memory.at("arena_bytes").count()},
                  {"live peak", memory.at("live_peak_bytes").count()}};
  std::map<std::string, std::int64_t> kinds = {{"state", 0}, {"argument", 0}, {"result", 0}, {"constant", 0}};
  for (const JsonView& buffer : data.at("buffers").items()) {
    const auto kind = kinds.find(text_at(buffer, "kind"));
    if (kind != kinds.end()) kind->second += buffer.at("bytes").count(kMostOfOne);
  }
  for (const char* kind : {"state", "argument", "result", "constant"})
    facts.memory.emplace_back(kind == std::string_view("state") ? "state" : std::string(kind) + "s",
                              kinds.at(kind));
}

}  // namespace

ModuleFacts module_facts(const nlohmann::ordered_json& stage) {
  return read_module_facts(JsonView(stage, "the stage"));
}

NetworkFacts read_network_facts(const nlohmann::ordered_json& document, const std::string& where) {
  const JsonView data(document, where);
  if (!data.is_object() || !data.find("format") || !data.find("launches"))
    user_error("{}: this is not a file from `rewire explore --json`", where);
  const std::int64_t format = data.at("format").count();
  if (format != kExplorerFormat) {
    user_error("{}: its format {} is from another version of Rewire; this version reads format {}", where,
               format, kExplorerFormat);
  }
  NetworkFacts facts;
  read_about(data, facts);
  read_joins(data, facts);
  facts.original = read_module_facts(data.at("ir"));
  facts.rewritten = read_module_facts(data.at("rewritten"));
  facts.step = read_module_facts(data.at("step"));
  read_launches(data, facts);
  read_memory(data, facts);
  if (const auto choices = data.find("choices")) {
    facts.choices.emplace();
    for (const auto& [key, taken] : choices->members()) (*facts.choices)[key] = taken.text();
  }
  return facts;
}

}  // namespace rewire::runtime
