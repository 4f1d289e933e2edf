#include "runtime/train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "runtime/log.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/weights.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::string_view kWeightsFile = "weights.safetensors";
constexpr std::string_view kStateFile = "state.safetensors";
constexpr std::string_view kProgressFile = "checkpoint.json";

Json to_json(const TrainSums& sums) {
  return {
      {"steps", sums.steps}, {"loss", sums.loss}, {"correct", sums.correct}, {"grad_norm", sums.grad_norm}};
}

TrainSums sums_from(const Json& json) {
  return {json.at("steps").get<std::int64_t>(), json.at("loss").get<double>(),
          json.at("correct").get<double>(), json.at("grad_norm").get<double>()};
}

std::string progress_text(const RunProgress& progress, const std::vector<PluginHandle>& plugins) {
  Json json;
  json["format"] = kFormat;
  json["rewire"] = REWIRE_VERSION;
  json["epoch"] = progress.position.epoch;
  json["step_in_epoch"] = progress.position.step_in_epoch;
  json["step"] = progress.position.step;
  json["sums"] = {{"line", to_json(progress.line)}, {"epoch", to_json(progress.epoch)}};
  json["metrics_bytes"] = progress.metrics_bytes;
  json["images"] = progress.images;
  json["last_epoch_loss"] = progress.last_epoch_loss;
  json["train_seconds"] = progress.train_seconds;
  json["choices"] = to_json(progress.choices);
  json["plugins"] = Json::array();
  for (const PluginHandle& plugin : plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    json["plugins"].push_back({{"name", info.name}, {"version", info.version}, {"sha256", info.sha256}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json read_json(const std::string& file) {
  const std::vector<std::byte> bytes = read_file(file);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return Json::parse(text, text + bytes.size());
}

/// Calls `read` with the content of checkpoint.json.
template <class Read>
void with_progress_file(const std::string& folder, Read read) {
  const std::string file = fmt::format("{}/{}", folder, kProgressFile);
  try {
    const Json json = read_json(file);
    if (json.at("format").get<int>() > kFormat) user_error("{} is of a newer Rewire than this one", file);
    read(json, file);
  } catch (const Json::exception& error) {
    user_error("{} is corrupt ({}): remove its folder to go on from the checkpoint before", file,
               printable(error.what()));
  }
}

void check_plugins(const std::string& folder, const std::vector<PluginHandle>& plugins) {
  std::vector<std::string> now, now_builds;
  for (const PluginHandle& plugin : plugins) {
    now.push_back(plugin_info(*plugin).name);
    now_builds.push_back(plugin_info(*plugin).sha256);
  }
  with_progress_file(folder, [&](const Json& json, const std::string& file) {
    std::vector<std::string> then, then_builds;
    for (const Json& plugin : json.at("plugins")) {
      then.push_back(plugin.at("name").get<std::string>());
      then_builds.push_back(plugin.at("sha256").get<std::string>());
    }
    const auto list = [](const std::vector<std::string>& names) {
      return names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "));
    };
    if (then != now) {
      write_log(LogLevel::warning,
                fmt::format("{}: the plugins were {}, now {}: the run goes on as another one", file,
                            list(then), list(now)));
    } else if (then_builds != now_builds) {
      write_log(LogLevel::warning,
                fmt::format("{}: written with another build of the plugins ({}): the run may not be the same",
                            file, list(now)));
    }
  });
}

bool is_late_counter(std::string_view name) {
  return name.starts_with("optimizer.step.");
}

/// Counters of weights that a later phase brings (run_programs.cpp) are named after the epochs that switch
/// them: those of a checkpoint are others where these epochs have been moved since, and none where the Rewire
/// that wrote it counted the run's updates for all. What is asked for goes on from the largest that is there.
void settle_late_counters(const std::string& file, TensorMap& rest, const std::vector<std::string>& missing,
                          TensorMap& state) {
  const HostTensor& of_run = state.at("optimizer.step");
  const auto updates = [](const HostTensor& counter) { return counter.as<std::int64_t>().front(); };
  const HostTensor* largest = nullptr;
  for (const auto& [name, tensor] : rest) {
    if (!is_late_counter(name) || tensor.type() != of_run.type()) continue;
    if (largest == nullptr || updates(tensor) > updates(*largest)) largest = &tensor;
  }
  if (!missing.empty()) {
    const HostTensor& taken = largest == nullptr ? of_run : *largest;
    write_log(LogLevel::warning,
              fmt::format("{} lacks '{}': weights that a later epoch switches on go on from {} updates", file,
                          missing.front(), updates(taken)));
    for (const std::string& name : missing) state.emplace(name, taken.clone());
  }
  const ir::TensorType type = of_run.type();
  std::erase_if(
      rest, [&](const auto& entry) { return is_late_counter(entry.first) && entry.second.type() == type; });
}

/// All weights, or all other parameters, strictly.
void read_tensors(const std::string& file, const ir::Module& module, bool weights, TensorMap& state) {
  SafetensorsFile content = read_safetensors(file);
  const std::string_view cause = weights ? "the network is not the one that was trained"
                                         : "the optimizer or train.accumulate is not that of the run";
  std::vector<std::string> counters;
  for (const ir::Parameter& parameter : module.parameters) {
    if (is_weight(parameter) != weights) continue;
    const auto found = content.tensors.find(parameter.name);
    if (found == content.tensors.end() && is_late_counter(parameter.name)) {
      counters.push_back(parameter.name);
      continue;
    }
    if (found == content.tensors.end()) {
      user_error("{} lacks '{}' {}: {}", file, parameter.name, to_string(parameter.type), cause);
    }
    if (found->second.type() != parameter.type) {
      user_error("{}: '{}' is {}; the network's is {}", file, parameter.name, to_string(found->second.type()),
                 to_string(parameter.type));
    }
    state.insert(content.tensors.extract(found));
  }
  if (!weights) settle_late_counters(file, content.tensors, counters, state);
  if (!content.tensors.empty()) {
    const auto& [name, tensor] = *content.tensors.begin();
    user_error("{}: the run as it is asked for has no '{}' {}: {}", file, name, to_string(tensor.type()),
               cause);
  }
}

void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// A folder under a name that no reader takes for a checkpoint, until it is published under its own.
class FolderInProgress {
 public:
  explicit FolderInProgress(const fs::path& target)
      : target_(target),
        path_(target.parent_path() / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid())) {
    std::error_code error;
    fs::remove_all(path_, error);
    fs::create_directories(path_, error);
    if (error) user_error("cannot make the folder {}: {}", path_.string(), error.message());
  }
  ~FolderInProgress() {
    std::error_code ignored;
    if (!published_) fs::remove_all(path_, ignored);
  }
  FolderInProgress(const FolderInProgress&) = delete;
  FolderInProgress& operator=(const FolderInProgress&) = delete;

  std::string file(std::string_view name) const { return (path_ / name).string(); }
  void publish() {
    std::error_code error;
    fs::rename(path_, target_, error);
    if (error) user_error("cannot rename {} to {}: {}", path_.string(), target_.string(), error.message());
    published_ = true;
    sync_folder(target_.parent_path().string());
  }

 private:
  const fs::path target_, path_;
  bool published_ = false;
};

/// One tensor map at a time, so that no more than the larger of the two is copied out of the engine at once.
TensorMap part_of_state(const Engine& engine, const ir::Module& module, bool weights) {
  TensorMap part;
  for (const ir::Parameter& parameter : module.parameters) {
    if (is_weight(parameter) == weights) part.emplace(parameter.name, engine.read_state(parameter.name));
  }
  return part;
}

}  // namespace

std::string write_checkpoint(const std::string& run, const RunProgress& progress, const Engine& engine,
                             const ir::Module& module, const std::vector<PluginHandle>& plugins) {
  const std::string target = fmt::format(
      "{}/checkpoints/{}", run, RunFolder::checkpoint_name(progress.position.epoch, progress.position.step));
  std::error_code error;
  if (fs::exists(target, error)) return target;
  FolderInProgress folder(target);
  write_safetensors(folder.file(kWeightsFile), part_of_state(engine, module, true), {{"format", "pt"}});
  write_safetensors(folder.file(kStateFile), part_of_state(engine, module, false));
  write_file_atomically(folder.file(kProgressFile), progress_text(progress, plugins));
  folder.publish();
  return target;
}

Checkpoint read_checkpoint(const std::string& folder, const ir::Module& module,
                           const std::vector<PluginHandle>& plugins) {
  Checkpoint checkpoint;
  checkpoint.progress = read_progress(folder);
  check_plugins(folder, plugins);
  read_tensors(fmt::format("{}/{}", folder, kWeightsFile), module, true, checkpoint.state);
  read_tensors(fmt::format("{}/{}", folder, kStateFile), module, false, checkpoint.state);
  return checkpoint;
}

RunProgress read_progress(const std::string& folder) {
  RunProgress progress;
  with_progress_file(folder, [&](const Json& json, const std::string& file) {
    TrainPosition& at = progress.position;
    at = {json.at("epoch").get<std::int64_t>(), json.at("step_in_epoch").get<std::int64_t>(),
          json.at("step").get<std::int64_t>()};
    progress.line = sums_from(json.at("sums").at("line"));
    progress.epoch = sums_from(json.at("sums").at("epoch"));
    progress.metrics_bytes = json.at("metrics_bytes").get<std::int64_t>();
    progress.images = json.at("images").get<std::int64_t>();
    progress.last_epoch_loss = json.at("last_epoch_loss").get<double>();
    progress.train_seconds = json.at("train_seconds").get<double>();
    if (json.contains("choices")) progress.choices = record_from_json(json.at("choices"), file);
    if (std::min({at.epoch, at.step_in_epoch, at.step, progress.metrics_bytes, progress.images}) < 0) {
      user_error("{}: a count in it is negative", file);
    }
  });
  return progress;
}

}  // namespace rewire::runtime
