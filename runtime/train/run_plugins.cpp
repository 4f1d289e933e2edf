#include "runtime/train/run_plugins.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/io/files.h"

namespace rewire::runtime {

void record_plugins(const RunFolder& folder, const std::vector<PluginHandle>& plugins) {
  const std::string file = folder.file(kPluginRecord);
  if (plugins.empty()) {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    return;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PluginHandle& plugin : plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    list.push_back(
        {{"name", info.name}, {"version", info.version}, {"path", info.path}, {"sha256", info.sha256}});
  }
  const nlohmann::ordered_json record = {{"plugins", std::move(list)}};
  write_file_atomically(file,
                        record.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace rewire::runtime
