#include "runtime/plugin/kept_plugins.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/io/sha256.h"
#include "runtime/plugin/trust_list.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRecord = "plugins.json";
constexpr std::string_view kCopies = "plugins/";
constexpr std::size_t kDigits = 12;  // digits of a hash in file names and messages

bool is_copy_name(std::string_view name) {
  if (!name.starts_with(kCopies)) return false;
  name.remove_prefix(kCopies.size());
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

std::string hash_of(const FilePlace& file) {
  return sha256_hex(read_file(file, kMostLibraryBytes));
}

/// Makes the folder private before anything is in it: who could write there could
/// replace code that runs later.
void make_private_folder(const FilePlace& place) {
  make_folder(place);
  set_mode(place, S_IRWXU);
}

/// Copies the library that was loaded. Throws UserError if another one has taken its place meanwhile.
std::string keep_copy(const std::string& run, const PluginInfo& info) {
  const std::string copy = fmt::format("{}{}-{}.so", kCopies, info.name, info.sha256.substr(0, kDigits));
  const FilePlace file = FilePlace::below(run, copy);
  const std::vector<std::byte> bytes = read_file(info.path, kMostLibraryBytes);
  if (sha256_hex(bytes) != info.sha256)
    user_error("{} changed after it was loaded: run the command again", info.path);
  make_private_folder(FilePlace::below(run, "plugins"));
  write_file_atomically(file, bytes);
  set_mode(file, S_IRUSR | S_IWUSR);
  remember_trusted(info.sha256, fs::absolute(file.path()).lexically_normal().string());
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

std::vector<RecordedPlugin> recorded_plugins(const std::string& run) {
  std::vector<RecordedPlugin> plugins;
  const FilePlace file = FilePlace::below(run, kRecord);
  if (!status_of(file)) return plugins;
  const Json json = read_json(file);
  const JsonView view(json, file.path());
  view.only({"plugins"});
  for (const JsonView& entry : view.at("plugins").items()) {
    entry.only({"name", "version", "path", "sha256", "copy"});
    RecordedPlugin& plugin = plugins.emplace_back();
    plugin.build = {entry.at("name").text(), entry.at("version").text(), entry.at("sha256").text()};
    plugin.path = entry.at("path").text();
    plugin.copy = entry.at("copy").text();
    if (!is_copy_name(plugin.copy)) entry.at("copy").refuse("is not a file of the folder plugins");
  }
  return plugins;
}

void keep_plugins(const std::string& run, const std::vector<PluginHandle>& plugins) {
  const FilePlace file = FilePlace::below(run, kRecord);
  const std::vector<RecordedPlugin> earlier = recorded_plugins(run);
  std::vector<RecordedPlugin> kept;
  for (const PluginHandle& plugin : plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    const PluginBuild build{info.name, info.version, info.sha256};
    const auto known = std::ranges::find(earlier, build, &RecordedPlugin::build);
    // If the copy itself was loaded, the earlier record has the path of the original library.
    const bool is_kept = known != earlier.end() && is_file(FilePlace::below(run, known->copy)) &&
                         hash_of(FilePlace::below(run, known->copy)) == info.sha256;
    if (is_kept) {
      kept.push_back(*known);
    } else {
      kept.push_back({build, info.path, keep_copy(run, info)});
    }
  }
  if (kept.empty()) {
    remove_file(file);
  } else {
    write_file_atomically(file, to_json(kept).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
}

std::string difference_of_builds(const PluginBuild& then, std::string_view now) {
  return fmt::format("SHA-256 {} then, {} now", then.sha256.substr(0, kDigits), now.substr(0, kDigits));
}

std::string library_of_run(const std::string& run, const RecordedPlugin& recorded, const std::string& name,
                           const std::vector<std::string>& plugin_path) {
  const std::optional<std::string> now = find_library_hash(name, plugin_path);
  if (now == recorded.build.sha256) return name;
  const std::string copy = fs::absolute(run + "/" + recorded.copy).lexically_normal().string();
  if (!is_file(FilePlace::below(run, recorded.copy))) return name;
  if (hash_of(FilePlace::below(run, recorded.copy)) != recorded.build.sha256) {
    user_error("{} is not the library that the run used: {} has another SHA-256 for it", copy,
               run + "/" + kRecord);
  }
  const std::string what =
      now ? fmt::format("was rebuilt since the run ({})", difference_of_builds(recorded.build, *now))
          : fmt::format("is no longer found as '{}'", name);
  write_log(LogLevel::warning,
            fmt::format("plugin '{}' {}: the run's copy is used, {}; --plugin chooses another",
                        recorded.build.name, what, copy));
  return copy;
}

}  // namespace rewire::runtime
