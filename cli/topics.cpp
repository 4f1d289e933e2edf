#include "cli/topics.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cli/exit_codes.h"
#include "cli/files.h"
#include "cli/help.h"
#include "cli/topics_text.h"
#include "ir/error.h"
#include "models/model.h"
#include "runtime/device/environment.h"
#include "runtime/exec/make_engine.h"
#include "runtime/plugin/filters.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/trust_list.h"
#include "runtime/recipe/key_info.h"

namespace rewire::cli {
namespace {

constexpr std::size_t kColumn = 24;

/// Returns the keys of a section, one per line, below the section's name as in a recipe.
std::string section_text(const std::vector<runtime::KeyInfo>& keys, std::string_view section) {
  std::string text = section.empty() ? "" : fmt::format("\n  [{}]\n", section);
  for (const runtime::KeyInfo& key : keys) {
    if (key.section() != section) continue;
    const std::string name = key.path.substr(section.empty() ? 0 : section.size() + 1);
    const std::string value = key.default_value.empty() ? "\"\"" : key.default_value;
    std::string line = fmt::format("  {:<26} {:<6} {}", name, key.kind, value);
    const std::string with = fmt::format("{:<44}  {}", line, key.condition);
    if (!key.condition.empty() && line.size() < 44 && with.size() <= kPageWidth) line = with;
    if (line.size() > kPageWidth) line = line.substr(0, kPageWidth - 4) + " ...";
    text += line + '\n';
  }
  return text;
}

std::vector<std::string> sections_of(const std::vector<runtime::KeyInfo>& keys) {
  std::vector<std::string> sections;
  for (const runtime::KeyInfo& key : keys) {
    if (std::ranges::find(sections, key.section()) == sections.end()) sections.emplace_back(key.section());
  }
  return sections;
}

std::string all_keys() {
  const std::vector<runtime::KeyInfo> keys = runtime::key_infos({});
  std::string text = "\n";
  for (const std::string& section : sections_of(keys)) text += section_text(keys, section);
  return text;
}

std::string families() {
  std::string text;
  for (const models::Model* model : models::models()) {
    if (model->values.empty()) text += help_row(std::string(model->name), std::string(model->doc), kColumn);
  }
  return text;
}

std::string filters() {
  std::string text;
  for (const ir::ParameterInfo& filter : runtime::Filters::infos())
    text += help_row(filter.name, fmt::format("{} [{}]", filter.doc, filter.default_value), kColumn);
  return text;
}

/// Returns the plugin folders, or the error if the environment gives none.
std::string plugin_path() {
  try {
    std::string text;
    for (const std::string& folder : runtime::plugin_search_path({})) text += "  " + folder + '\n';
    return text;
  } catch (const UserError& error) {
    return "  " + wrapped(error.what(), kPageWidth, 2) + '\n';
  }
}

std::string places() {
  const auto shown = [](const std::string& path) { return path.empty() ? "nowhere: HOME is not set" : path; };
  return "  compiled kernels and choices\n      " + shown(runtime::kernel_cache_directory()) +
         "\n  the hashes of code that you have agreed to run\n      " + shown(runtime::trust_list_path()) +
         "\n  folders that are searched for plugins\n" + "    " + [&] {
           std::string text = plugin_path();
           for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos; at += 5)
             text.insert(at + 1, "    ");
           return text;
         }();
}

std::string codes() {
  std::string text;
  for (const ExitCode& row : exit_codes())
    text += help_row(std::string(row.code), std::string(row.meaning), 10);
  return text;
}

std::string recorded_variables() {
  return "  " + wrapped(fmt::format("{}", fmt::join(runtime::recorded_variables(), " ")), kPageWidth, 2);
}

std::string run_folder() {
  std::string text;
  for (const FileDoc& file : run_files())
    text += help_row(std::string(file.name), std::string(file.doc), kColumn + 3);
  return text;
}

struct Fact {
  std::string_view name;
  std::string (*text)();
};
constexpr Fact kFacts[] = {{"keys", all_keys},        {"families", families},
                           {"filters", filters},      {"plugin-path", plugin_path},
                           {"places", places},        {"exit-codes", codes},
                           {"run-files", run_folder}, {"recorded-variables", recorded_variables}};

std::string fact(std::string_view name) {
  const auto* found = std::ranges::find(kFacts, name, &Fact::name);
  if (found == std::end(kFacts)) internal_error("a topic asks for {{{{{}}}}}, which is unknown", name);
  std::string text = found->text();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// Replaces each {{name}} by its fact.
std::string filled(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t begin = text.find("{{"), end = text.find("}}");
    if (begin == std::string_view::npos || end == std::string_view::npos) break;
    result += text.substr(0, begin);
    result += fact(text.substr(begin + 2, end - begin - 2));
    text.remove_prefix(end + 2);
  }
  return result.append(text);
}

std::string page_of(const runtime::KeyInfo& key) {
  const std::string docs = by_owner(key, &runtime::OwnedParameter::doc),
                    defaults = by_owner(key, &runtime::OwnedParameter::default_value);
  std::string text =
      wrapped(fmt::format("{}: {}", key.path, docs.empty() ? key.doc : docs), kPageWidth) + "\n\n";
  text += help_row("takes", key.kind + (key.range.empty() ? "" : ", " + key.range), 12);
  for (const ir::NamedDoc& value : key.values) {
    if (!value.doc.empty()) text += help_row("  " + value.name, value.doc, 20);
  }
  text += help_row("default",
                   !defaults.empty()           ? defaults
                   : key.default_value.empty() ? "none"
                                               : key.default_value,
                   12);
  if (!key.condition.empty()) text += help_row("with", key.condition, 12);
  return text;
}

}  // namespace

std::vector<Topic> topics() {
  std::vector<Topic> list;
  for (const TopicText& topic : topic_texts())
    list.push_back({std::string(topic.name), std::string(topic.text.substr(0, topic.text.find('\n')))});
  return list;
}

std::string topic_page(std::string_view name) {
  const std::vector<TopicText> texts = topic_texts();
  const auto found = std::ranges::find(texts, name, &TopicText::name);
  if (found == texts.end()) internal_error("there is no topic {}", name);
  return fmt::format("{}: {}", name, filled(found->text));
}

std::optional<std::string> key_page(std::string_view key) {
  if (key.ends_with('.')) key.remove_suffix(1);
  const std::vector<runtime::KeyInfo> keys = runtime::key_infos({});
  if (const auto found = std::ranges::find(keys, key, &runtime::KeyInfo::path); found != keys.end())
    return page_of(*found);
  std::string text;
  for (const runtime::KeyInfo& one : keys) {
    if (!key.empty() && one.section() == key) text += help_row(one.path, one.doc, kColumn + 4);
  }
  if (!text.empty()) return text;
  const std::vector<runtime::KeyInfo> named = runtime::keys_named(key);
  if (named.size() == 1) return page_of(named.front());
  for (const runtime::KeyInfo& one : named) text += help_row(one.path, one.doc, kColumn + 4);
  return text.empty() ? std::optional<std::string>() : text;
}

std::string list_of_topics() {
  std::size_t width = 0;
  for (const Topic& topic : topics()) width = std::max(width, topic.name.size());
  std::string text = "Topics (rewire help TOPIC):\n";
  for (const Topic& topic : topics()) text += help_row(topic.name, topic.doc, width + 4);
  return text;
}

}  // namespace rewire::cli
