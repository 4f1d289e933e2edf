#include "runtime/train/run_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/log.h"
#include "runtime/plugin/sha256.h"
#include "runtime/plugin/trust_list.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRecord = "plugins.json";
constexpr std::string_view kCopies = "plugins/";
constexpr std::size_t kDigits = 12;  // of a hash, for people

bool is_copy_name(std::string_view name) {
  if (!name.starts_with(kCopies)) return false;
  name.remove_prefix(kCopies.size());
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

bool is_there(const std::string& file) {
  std::error_code error;
  return fs::is_regular_file(file, error);
}

std::string hash_of(const std::string& file) {
  return sha256_hex(read_file(file, kMostLibraryBytes, FileKind::regular));
}

/// Private before anything stands in it: who could write there could exchange what is run later.
void make_private_folder(const std::string& path) {
  make_folder(path);
  std::error_code error;
  fs::permissions(path, fs::perms::owner_all, error);
  if (error) user_error("cannot make {} private: {}", path, error.message());
}

/// Of the library that was loaded, and no other that took its place meanwhile.
std::string keep_copy(const RunFolder& folder, const PluginInfo& info) {
  const std::string copy = fmt::format("{}{}-{}.so", kCopies, info.name, info.sha256.substr(0, kDigits));
  const std::string file = folder.file(copy);
  const std::vector<std::byte> bytes = read_file(info.path, kMostLibraryBytes, FileKind::regular);
  if (sha256_hex(bytes) != info.sha256)
    user_error("{} changed after it was loaded: give the same command again", info.path);
  make_private_folder(folder.file("plugins"));
  write_file_atomically(file, bytes);
  std::error_code error;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write, error);
  if (error) user_error("cannot make {} private: {}", file, error.message());
  remember_trusted(info.sha256, fs::absolute(file).lexically_normal().string());
  return copy;
}

Json to_json(const std::vector<RecordedPlugin>& plugins) {
  Json list = Json::array();
  for (const RecordedPlugin& plugin : plugins) {
    list.push_back({{"name", plugin.build.name},
                    {"version", plugin.build.version},
                    {"path", plugin.path},
                    {"sha256", plugin.build.sha256},
                    {"copy", plugin.copy}});
  }
  return {{"plugins", std::move(list)}};
}

}  // namespace

std::vector<RecordedPlugin> recorded_plugins(const RunFolder& folder) {
  std::vector<RecordedPlugin> plugins;
  const std::string file = folder.file(kRecord);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return plugins;
  const Json json = read_json(file);
  const JsonView view(json, file);
  view.only({"plugins"});
  for (const JsonView& entry : view.at("plugins").items()) {
    entry.only({"name", "version", "path", "sha256", "copy"});
    RecordedPlugin& plugin = plugins.emplace_back();
    plugin.build = {entry.at("name").text(), entry.at("version").text(), entry.at("sha256").text()};
    plugin.path = entry.at("path").text();
    plugin.copy = entry.at("copy").text();
    if (!is_copy_name(plugin.copy)) entry.at("copy").refuse("is no file of the folder plugins");
  }
  return plugins;
}

void keep_plugins(const RunFolder& folder, const std::vector<PluginHandle>& plugins) {
  const std::string file = folder.file(kRecord);
  const std::vector<RecordedPlugin> earlier = recorded_plugins(folder);
  std::vector<RecordedPlugin> kept;
  for (const PluginHandle& plugin : plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    const PluginBuild build{info.name, info.version, info.sha256};
    const auto known = std::ranges::find(earlier, build, &RecordedPlugin::build);
    // The copy itself may be what was loaded: then the record knows where the library was.
    const bool is_kept = known != earlier.end() && is_there(folder.file(known->copy)) &&
                         hash_of(folder.file(known->copy)) == info.sha256;
    if (is_kept) {
      kept.push_back(*known);
    } else {
      kept.push_back({build, info.path, keep_copy(folder, info)});
    }
  }
  std::error_code ignored;
  if (kept.empty()) {
    fs::remove(file, ignored);
  } else {
    write_file_atomically(file, to_json(kept).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
}

std::string difference_of_builds(const PluginBuild& then, std::string_view now) {
  return fmt::format("SHA-256 {} then, {} now", then.sha256.substr(0, kDigits), now.substr(0, kDigits));
}

std::string library_of_run(const RunFolder& folder, const RecordedPlugin& recorded, const std::string& name,
                           const std::vector<std::string>& plugin_path) {
  const std::optional<std::string> now = find_library_hash(name, plugin_path);
  if (now == recorded.build.sha256) return name;
  const std::string copy = fs::absolute(folder.file(recorded.copy)).lexically_normal().string();
  if (!is_there(copy)) return name;
  if (hash_of(copy) != recorded.build.sha256) {
    user_error("{} is not the library that the run was made with: {} has another SHA-256 of it", copy,
               folder.file(kRecord));
  }
  const std::string what =
      now ? fmt::format("was rebuilt since the run ({})", difference_of_builds(recorded.build, *now))
          : fmt::format("is not found as '{}' any more", name);
  write_log(LogLevel::warning,
            fmt::format("plugin '{}' {}: the run's copy is taken, {}; --plugin names another",
                        recorded.build.name, what, copy));
  return copy;
}

}  // namespace rewire::runtime
