#include "cli/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/files.h"
#include "cli/help.h"
#include "cli/topics.h"
#include "ir/ops/op_info.h"
#include "models/model.h"
#include "programs/objective.h"
#include "programs/optimizer.h"
#include "programs/schedule.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/presets.h"
#include "runtime/data/vision/transform.h"
#include "runtime/plugin/plugin.h"
#include "runtime/recipe/key_info.h"

namespace rewire::cli {
namespace {

/// Escapes `text` for a cell or paragraph. The only Markdown that remains is `code`.
std::string escaped(std::string_view text) {
  std::string result;
  bool in_code = false;
  for (const char c : text) {
    if (c == '`') in_code = !in_code;
    if (c == '|' || (!in_code && std::string_view("*_<>[]\\").find(c) != std::string_view::npos))
      result += '\\';
    result += c;
  }
  return result;
}

std::string code(std::string_view text) {
  if (text.empty()) return "";
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return "`" + cell + "`";
}

std::string row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string table(const std::vector<std::string>& names) {
  std::string rule = "|";
  for (std::size_t i = 0; i < names.size(); ++i) rule += "---|";
  return row(names) + rule + '\n';
}

std::string page(std::string_view title, std::string_view opening) {
  return fmt::format("# {}\n\n<!-- Written by `rewire docs --output docs/reference`. -->\n\n{}\n", title,
                     opening);
}

std::string shown_default(const std::string& value) {
  return value.empty() ? "" : code(value);
}

/// Returns a table of parameters, or a line that says that there are none.
std::string parameter_table(const std::vector<ir::ParameterInfo>& parameters) {
  if (parameters.empty()) return "\nIt has no keys.\n";
  std::string text = "\n" + table({"key", "type", "default", "takes", "meaning"});
  for (const ir::ParameterInfo& p : parameters)
    text += row({code(p.name), p.type, shown_default(p.default_value), code(p.range), escaped(p.doc)});
  return text;
}

std::vector<ir::ParameterInfo> infos_of(const ir::Schema& schema) {
  std::vector<ir::ParameterInfo> infos;
  for (const ir::ParameterSpec& spec : schema) infos.push_back(spec.info());
  return infos;
}

std::string keys_page() {
  std::string text = page(
      "Keys of a recipe",
      "A recipe is a TOML file with the sections below. `--set section.key=value` overrides one key of the "
      "file. The\ncolumn \"with\" names the choice that a key needs; without it the key is refused. The "
      "defaults belong to a recipe\nthat makes no choice: other models, optimizers and presets have their "
      "own ([models.md](models.md),\n[choices.md](choices.md)). `rewire help KEY` prints the same text.\n"
      "[../guide/train.md](../guide/train.md) explains recipes.");
  std::string section = "none";
  for (const runtime::KeyInfo& key : runtime::key_infos({})) {
    if (key.section() != section) {
      section = key.section();
      text += fmt::format("\n## {}\n\n", section.empty() ? "Top level" : "[" + section + "]");
      if (section == "model")
        text += "The other keys depend on the model: [models.md](models.md) lists them.\n\n";
      text += table({"key", "type", "default", "takes", "with", "meaning"});
    }
    if (section == "model" && key.path != "model.name") continue;
    const std::string docs = by_owner(key, &runtime::OwnedParameter::doc),
                      defaults = by_owner(key, &runtime::OwnedParameter::default_value);
    text += row({code(key.path), key.kind,
                 defaults.empty() ? shown_default(key.default_value) : escaped(defaults), code(key.range),
                 code(key.condition), escaped(docs.empty() ? key.doc : docs)});
  }
  return text;
}

std::string models_page() {
  std::string text =
      page("Models",
           "`model.name` takes a family or one of its variants, which is the family with other "
           "defaults. `rewire models` prints\nthe weights and multiply-adds of each. "
           "[../guide/models.md](../guide/models.md) names their sources.");
  for (const models::Model* model : models::models()) {
    if (!model->values.empty()) continue;
    text += fmt::format("\n## {}\n\n{}\n", model->name, escaped(model->doc));
    text += parameter_table(infos_of(model->schema));
    std::string variants;
    for (const models::Model* variant : models::models()) {
      if (variant->family != model->family || variant->values.empty()) continue;
      std::vector<std::string> values;
      for (const ir::ParameterSpec& spec : variant->schema) {
        if (variant->values.has(spec.name))
          values.push_back(fmt::format("{}={}", spec.name, spec.default_text));
      }
      variants += row({code(variant->name), code(fmt::format("{}", fmt::join(values, " ")))});
    }
    if (!variants.empty()) text += "\n" + table({"variant", "its values"}) + variants;
  }
  return text;
}

template <class Row>
std::string residents(std::string_view title, std::string_view opening, std::span<const Row* const> rows) {
  std::string text = fmt::format("\n## {}\n\n{}\n", title, opening);
  for (const Row* one : rows) {
    text += fmt::format("\n### {}\n\n{}\n", one->name, escaped(one->doc));
    text += parameter_table(infos_of(one->schema));
  }
  return text;
}

std::string choices_page() {
  std::string text = page("Choices",
                          "A recipe chooses each of these by name. A choice has its own keys. "
                          "[../extending.md](../extending.md) explains\nhow to add one.");
  text += residents("Data formats", "`data.format` in a recipe ([../guide/data.md](../guide/data.md)).",
                    runtime::sources());
  text += residents("Transforms",
                    "All of them apply, in this order, with the keys of `[transforms]` "
                    "([../guide/transforms.md](../guide/transforms.md)).",
                    runtime::transforms());
  text += "\n## Presets of transforms\n\n`transforms.preset` in a recipe.\n\n" +
          table({"preset", "meaning", "values"});
  for (const runtime::TransformPreset* preset : runtime::transform_presets()) {
    std::vector<std::string> values;
    for (const auto& [name, value] : preset->values)
      values.push_back(fmt::format("{}={}", name, ir::value_text(value)));
    text += row({code(preset->name), escaped(preset->doc), code(fmt::format("{}", fmt::join(values, " ")))});
  }
  text += residents("Objectives", "`objective.name` in a recipe.", programs::objectives());
  text += residents("Optimizers",
                    "`optimizer.name` in a recipe ([../guide/optimizers.md](../guide/optimizers.md)).",
                    programs::optimizers());
  text += residents("Schedules", "`schedule.name` in a recipe.", programs::schedules());
  return text;
}

std::string plugins_page(const std::vector<std::string>& plugin_path) {
  std::string text =
      page("Plugins",
           "The residual strategies that come with Rewire. `--plugin NAME:key=value,...` applies one. "
           "Equations and sources:\n[../guide/strategies.md](../guide/strategies.md).");
  // Leaves out plugins that a user installed elsewhere.
  std::vector<std::string> folders = plugin_path;
  folders.push_back(runtime::plugin_search_path({}).back());
  for (const runtime::PluginInfo& plugin : runtime::list_plugins(plugin_path)) {
    const std::string folder = std::filesystem::path(plugin.path).parent_path().string();
    if (std::ranges::find(folders, folder) == folders.end()) continue;
    text += fmt::format("\n## {}\n\nVersion {}: {}\n", plugin.name, plugin.version, escaped(plugin.doc));
    text += parameter_table(plugin.parameters);
  }
  return text;
}

std::string operands_of(const ir::OpInfo& op) {
  if (op.max_operands == op.min_operands) return fmt::to_string(op.min_operands);
  return op.max_operands < 0 ? fmt::format("{}+", op.min_operands)
                             : fmt::format("{}-{}", op.min_operands, op.max_operands);
}

std::string attributes_of(const ir::OpInfo& op) {
  constexpr std::string_view kKinds[] = {"bool", "int", "float", "str", "ints", "floats"};
  std::vector<std::string> shown;
  for (const ir::AttributeSpec& attribute : op.attributes) {
    std::string text =
        fmt::format("{}: {}", attribute.name, kKinds[static_cast<std::size_t>(attribute.kind)]);
    if (attribute.default_value) text += " = " + ir::value_text(*attribute.default_value);
    shown.push_back(code(text));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string ops_page() {
  std::string text = page(
      "Ops",
      "The ops of the IR. `rewire dump` prints them, and `.rir` files consist of them. Pointwise operands "
      "have one shape.\nReductions keep their axes with extent 1. A negative axis counts from the end. "
      "\"error\" is the relative error that an\nf32 kernel may have against the evaluator in double "
      "precision. Plugins can emit the ops marked \"yes\"\n([../guide/sdk.md](../guide/sdk.md)).");
  std::string current;
  for (const ir::OpInfo& op : ir::op_table()) {
    if (const std::string_view name = ir::op_class_name(op.op_class); name != current) {
      current = name;
      text += fmt::format("\n## {}\n\n", current);
      text += table({"op", "operands", "results", "attributes", "error", "plugins", "meaning"});
    }
    text += row({code(op.name), operands_of(op), fmt::to_string(op.results), attributes_of(op),
                 op.tolerance == 0 ? "0" : fmt::format("{:g}", op.tolerance), op.open_to_plugins ? "yes" : "",
                 escaped(op.doc)});
  }
  return text;
}

std::string option_table(const Declaration& declaration, bool arguments) {
  std::string rows;
  for (const OptionInfo& option : declaration.options) {
    if (option.is_argument() != arguments) continue;
    std::string name = option.name;
    if (option.takes_value() && !arguments) name += ' ' + value_name(option);
    rows += row({code(name), escaped(full_doc(option))});
  }
  return rows.empty() ? "" : "\n" + table({arguments ? "argument" : "option", "meaning"}) + rows;
}

std::string commands_page() {
  std::string text = page("Commands",
                          "`rewire COMMAND --help` prints the same. Exit codes are at the end. "
                          "[../start/tour.md](../start/tour.md) is a walk\nthrough the commands.");
  for (const Command& command : commands()) {
    const Declaration declaration = declaration_of(command);
    text += fmt::format("\n## rewire {}\n\n{}\n\n    {}\n", command.name, escaped(command.doc),
                        usage_of(command, declaration));
    text += option_table(declaration, true) + option_table(declaration, false);
    text += "\n" + table({"example", "meaning"});
    for (const Example& example : declaration.examples)
      text += row({code(example.line), escaped(example.doc)});
  }
  text += "\n## Exit codes\n\n" + table({"code", "meaning"});
  for (const ExitCode& one : exit_codes()) text += row({code(one.code), escaped(one.meaning)});
  return text;
}

std::string files_page() {
  std::string text =
      page("Files", "The files in a run folder, and the formats that Rewire reads and writes.");
  const auto rows = [](const std::vector<FileDoc>& files) {
    std::string lines;
    for (const FileDoc& file : files) lines += row({code(file.name), escaped(file.doc)});
    return lines;
  };
  text += "\n## A run folder\n\n" + table({"file", "content"}) + rows(run_files());
  text += "\n## Formats\n\n" + table({"ending", "content"}) + rows(file_formats());
  return text;
}

}  // namespace

std::vector<ReferencePage> reference_pages(const std::vector<std::string>& plugin_path) {
  return {{"keys.md", keys_page()},       {"models.md", models_page()},
          {"choices.md", choices_page()}, {"plugins.md", plugins_page(plugin_path)},
          {"ops.md", ops_page()},         {"commands.md", commands_page()},
          {"files.md", files_page()}};
}

}  // namespace rewire::cli
