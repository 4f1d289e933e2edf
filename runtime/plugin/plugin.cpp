// Finds, loads and lists plugins: the part of runtime/plugin/plugin.h that does not touch a module.
#include "runtime/plugin/plugin.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/io/sha256.h"
#include "runtime/plugin/loaded_plugin.h"

namespace rewire::runtime {
namespace {

/// The variable's value, "" if it is not set.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

void append_environment_path(std::vector<std::string>& folders) {
  const std::string path = environment("REWIRE_PLUGIN_PATH");
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (!folder.empty() && folder.front() != '/') {
      user_error(
          "REWIRE_PLUGIN_PATH has '{}': its folders must be absolute, the current folder is never searched",
          folder);
    }
    if (!folder.empty()) folders.emplace_back(folder);
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
}

/// Returns "" if the system does not report where the binary is.
std::string folder_beside_binary() {
  std::error_code error;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : (binary.parent_path().parent_path() / "lib/rewire/plugins").string();
}

/// A plain name is looked for in the user's own folders, so it needs no consent. Folders of `extra` may be
/// those of one command only. Its run must find the file again, so consent is remembered.
Consent consent_to(const std::string& name, const std::vector<std::string>& extra, NamedBy named_by) {
  if (name.find('/') == std::string::npos) return extra.empty() ? Consent::not_needed : Consent::given;
  return named_by == NamedBy::user ? Consent::given : Consent::remembered;
}

}  // namespace

Plugin::Plugin(std::shared_ptr<const Library> library, const PluginSpec& spec)
    : library_(std::move(library)) {
  for (const ir::ParameterSpec& parameter : library_->schema)
    set(parameter.name, parameter.default_text, spec.name);
  for (const auto& [parameter, text] : spec.values) set(parameter, text, spec.name);
  filters_.check();
}

void Plugin::set(const std::string& parameter, const std::string& text, const std::string& plugin) {
  if (Filters::is_filter(parameter)) return filters_.set(parameter, text);
  if (const ir::ParameterSpec* known = ir::find_parameter(library_->schema, parameter)) {
    const ir::Attribute value = known->parse(text);
    values_[parameter] = {value, canonical_text(value, text)};
    return;
  }
  std::vector<std::string> known;
  for (const ir::ParameterInfo& info : library_->info.parameters) known.push_back(info.name);
  user_error("it has no parameter '{}'{}; `rewire plugins info {}` lists them", parameter,
             did_you_mean(parameter, known), plugin);
}

bool Plugin::logs_first(const std::string& message) const {
  const std::lock_guard lock(logged_mutex_);
  return logged_.insert(message).second;
}

const ir::Attribute* Plugin::find_value(std::string_view parameter) const {
  const auto found = values_.find(parameter);
  return found == values_.end() ? nullptr : &found->second.first;
}

std::vector<std::pair<std::string, std::string>> Plugin::values() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const ir::ParameterSpec& parameter : library_->schema) {
    result.emplace_back(parameter.name, values_.at(parameter.name).second);
  }
  for (auto& filter : filters_.values()) result.push_back(std::move(filter));
  return result;
}

std::vector<std::string> plugin_search_path(const std::vector<std::string>& extra) {
  std::vector<std::string> folders = extra;
  for (const std::string& folder : folders) {
    if (folder.empty()) user_error("a plugin folder is empty text: name a folder");
  }
  append_environment_path(folders);
  const std::string data = environment("XDG_DATA_HOME"), home = environment("HOME");
  if (data.starts_with('/')) {
    folders.push_back(data + "/rewire/plugins");
  } else if (home.starts_with('/')) {
    folders.push_back(home + "/.local/share/rewire/plugins");
  }
  if (std::string folder = folder_beside_binary(); !folder.empty()) folders.push_back(std::move(folder));
  return folders;
}

std::vector<PluginInfo> list_plugins(const std::vector<std::string>& extra) {
  std::vector<PluginInfo> infos;
  for (const auto& [name, path] : libraries_in(plugin_search_path(extra))) {
    try {
      infos.push_back(inspect_library(path));
    } catch (const UserError& e) {
      write_log(LogLevel::warning, e.what());
    }
  }
  return infos;
}

PluginInfo inspect_plugin(const std::string& name, const std::vector<std::string>& extra) {
  return inspect_library(find_library(name, plugin_search_path(extra)));
}

std::vector<std::string> find_plugin_names(const std::vector<std::string>& extra) {
  std::vector<std::string> names;
  try {
    for (const auto& library : libraries_in(plugin_search_path(extra))) names.push_back(library.first);
  } catch (const UserError&) {  // a variable that is not a path
  }
  return names;
}

std::optional<PluginInfo> inspect_agreed(const std::string& name, const std::vector<std::string>& extra) {
  constexpr std::chrono::milliseconds kMoment{300};
  try {
    const std::string file = find_library(name, plugin_search_path(extra));
    const bool is_ours =
        std::filesystem::path(file).parent_path() == std::filesystem::path(folder_beside_binary());
    return inspect_agreed_library(file, is_ours ? Consent::not_needed : Consent::remembered, kMoment);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<std::string> find_library_hash(const std::string& name, const std::vector<std::string>& extra) {
  try {
    return sha256_hex(read_file(find_library(name, plugin_search_path(extra)), kMostLibraryBytes));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

PluginHandle load_plugin(const PluginSpec& spec, const std::vector<std::string>& extra, NamedBy named_by) {
  const std::string file = find_library(spec.name, plugin_search_path(extra));
  std::shared_ptr<const Library> library = open_library(file, consent_to(spec.name, extra, named_by));
  const std::string name = library->info.name;
  try {
    return std::make_shared<const Plugin>(std::move(library), spec);
  } catch (const UserError& e) {
    user_error("plugin '{}': {}", name, one_line(e.what()));
  }
}

const PluginInfo& plugin_info(const Plugin& plugin) {
  return plugin.info();
}

std::vector<std::pair<std::string, std::string>> plugin_values(const Plugin& plugin) {
  return plugin.values();
}

}  // namespace rewire::runtime
