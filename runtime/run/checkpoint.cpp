#include "runtime/run/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "codegen/files/digest.h"
#include "codegen/files/replacing_file.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/weights.h"
#include "runtime/plugin/builds.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 6;
constexpr std::string_view kWeightsFile = "weights.safetensors";
constexpr std::string_view kAveragesFile = "weights_ema.safetensors";  // if averages are kept
constexpr std::string_view kStateFile = "state.safetensors";
constexpr std::string_view kProgressFile = "checkpoint.json";
constexpr const char* kChecksum = "blake3";  // of the rest of checkpoint.json
/// Philox has 32 bits for an epoch. A double counts steps and images exactly up to 2^53.
constexpr std::int64_t kMostEpochs = (std::int64_t{1} << 32) - 1, kMostSteps = std::int64_t{1} << 53,
                       kMostBatch = 1'000'000'000;

/// BLAKE3 of a file's bytes, by the file's name.
using Digests = std::map<std::string, std::string, std::less<>>;

Json to_json(const TrainSums& sums) {
  Json metrics = Json::object();
  // A report may not be a number; JSON has null for it.
  for (const auto& [name, sum] : sums.metrics) metrics[name] = {sum.numerator, sum.denominator};
  return {{"steps", sums.steps}, {"grad_norm", sums.grad_norm}, {"metrics", std::move(metrics)}};
}

double number_or_nan(const JsonView& json) {
  return json.raw().is_null() ? std::numeric_limits<double>::quiet_NaN() : json.number();
}

TrainSums sums_from(const JsonView& json) {
  TrainSums sums{json.at("steps").count(kMostSteps), json.at("grad_norm").number()};
  json.only({"steps", "grad_norm", "metrics"});
  for (const auto& [name, sum] : json.at("metrics").members()) {
    const std::vector<JsonView> parts = sum.items();
    if (parts.size() != 2) sum.refuse("is not a sum: [numerator, denominator]");
    sums.metrics.emplace(name, MetricSum{number_or_nan(parts[0]), parts[1].number()});
  }
  return sums;
}

/// `draws`: the number of micro-batches that have drawn random numbers.
Json to_json(const StepSizes& sizes, std::int64_t step) {
  Json json = {{"batch", sizes.batch},
               {"accumulate", sizes.accumulate},
               {"draws", step * sizes.accumulate + sizes.first_draw}};
  if (sizes.change) json["change"] = {{"step", sizes.change->step}, {"epochs", sizes.change->epochs}};
  return json;
}

StepSizes sizes_from(const JsonView& json, std::int64_t step) {
  json.only({"batch", "accumulate", "draws", "change"});
  StepSizes sizes{json.at("batch").count(kMostBatch), json.at("accumulate").count(kMostBatch)};
  if (sizes.batch == 0 || sizes.accumulate == 0) json.refuse("has no samples per step");
  if (step > kMostSteps / sizes.accumulate) json.at("accumulate").refuse("is too large for its steps");
  sizes.first_draw = json.at("draws").count(kMostSteps) - step * sizes.accumulate;
  if (const auto change = json.find("change")) {
    change->only({"step", "epochs"});
    sizes.change = {change->at("step").count(kMostSteps), change->at("epochs").number()};
  }
  return sizes;
}

Json to_json(const DataIdentity& data) {
  return {{"count", data.count}, {"classes", data.classes}, {"digest", data.digest}};
}

DataIdentity data_from(const JsonView& json) {
  json.only({"count", "classes", "digest"});
  DataIdentity data{json.at("count").count(kMostSteps), {}, json.at("digest").text()};
  for (const JsonView& name : json.at("classes").items()) data.classes.push_back(name.text());
  return data;
}

/// Returns the text as it is in the file, byte for byte.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string checksum(Json json) {
  json.erase(kChecksum);
  const std::string text = text_of(json);
  return codegen::digest_hex(std::as_bytes(std::span(text.data(), text.size())));
}

std::string progress_text(const RunProgress& progress, const Digests& files,
                          const std::vector<PluginHandle>& plugins) {
  Json json;
  json["format"] = kFormat;
  json["rewire"] = REWIRE_VERSION;
  json["epoch"] = progress.position.epoch;
  json["step_in_epoch"] = progress.position.step_in_epoch;
  json["step"] = progress.position.step;
  json["batches_in_epoch"] = progress.position.batches;
  json["samples_in_epoch"] = progress.position.samples;
  json["sizes"] = to_json(progress.sizes, progress.position.step);
  json["epochs_done"] = progress.epochs_done;
  json["data"] = to_json(progress.data);
  json["test_data"] = to_json(progress.test_data);
  json["eval_classes"] = progress.competing;
  json["sums"] = {{"line", to_json(progress.line)}, {"epoch", to_json(progress.epoch)}};
  json["metrics_bytes"] = progress.metrics_bytes;
  json["events"] = {{"from_step", progress.events.from_step}, {"bytes", progress.events.bytes}};
  json["images"] = progress.samples;  // the name in files of this format
  json["lr"] = progress.lr;
  json["last_epoch_loss"] = progress.last_epoch_loss;
  json["train_seconds"] = progress.train_seconds;
  json["choices"] = to_json(progress.choices);
  if (progress.best) {
    json["best"] = {{"metric", progress.best->metric},
                    {"value", progress.best->value},
                    {"checkpoint", progress.best->checkpoint},
                    {"waited", progress.best->waited}};
  }
  json["plugins"] = to_json(builds_of(plugins));
  json["files"] = files;
  json[kChecksum] = checksum(json);
  return text_of(json);
}

/// checkpoint.json, parsed and found to be intact.
struct ProgressFile {
  RunProgress progress;
  Digests files;
  std::vector<PluginBuild> plugins;
};

bool is_metric_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

RunProgress progress_from(const JsonView& json) {
  RunProgress progress;
  progress.position = {json.at("epoch").count(kMostEpochs), json.at("step_in_epoch").count(kMostSteps),
                       json.at("step").count(kMostSteps), json.at("batches_in_epoch").count(kMostSteps),
                       json.at("samples_in_epoch").count(kMostSteps)};
  progress.sizes = sizes_from(json.at("sizes"), progress.position.step);
  progress.epochs_done = json.at("epochs_done").number();
  progress.data = data_from(json.at("data"));
  progress.test_data = data_from(json.at("test_data"));
  progress.competing = json.at("eval_classes").text();
  const JsonView sums = json.at("sums");
  sums.only({"line", "epoch"});
  progress.line = sums_from(sums.at("line"));
  progress.epoch = sums_from(sums.at("epoch"));
  progress.metrics_bytes = json.at("metrics_bytes").count();
  const JsonView events = json.at("events");
  events.only({"from_step", "bytes"});
  progress.events = {events.at("from_step").count(kMostSteps), events.at("bytes").count()};
  progress.samples = json.at("images").count(kMostSteps);
  progress.lr = number_or_nan(json.at("lr"));
  progress.last_epoch_loss = json.at("last_epoch_loss").number();
  progress.train_seconds = json.at("train_seconds").number();
  if (const auto best = json.find("best")) {
    best->only({"metric", "value", "checkpoint", "waited"});
    progress.best = {best->at("metric").text(), best->at("value").number(), best->at("checkpoint").text(),
                     best->at("waited").count(kMostSteps)};
    if (!is_metric_name(progress.best->metric)) best->at("metric").refuse("is not the name of a metric");
    if (!RunFolder::is_checkpoint_name(progress.best->checkpoint))
      best->at("checkpoint").refuse("is not the name of a checkpoint");
  }
  progress.choices = record_from_json(json.at("choices"));
  return progress;
}

class OtherFormat : public UserError {
 public:
  using UserError::UserError;
};

ProgressFile parse_progress(const std::string& folder, const std::string& file) {
  const std::vector<std::byte> bytes = read_file(RunFolder::place_in(folder, kProgressFile), kMostJsonBytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Json document = parse_json(text, file);
  const JsonView json(document, file);
  const std::int64_t format = json.at("format").count();
  if (format > kFormat) throw OtherFormat(fmt::format("{} is from a newer Rewire than this one", file));
  if (format < kFormat) {
    throw OtherFormat(
        fmt::format("{} is from an earlier Rewire (format {}, not {}): its run cannot be resumed; use its "
                    "weights {}/{} with --weights or train.weights",
                    file, format, kFormat, folder, kWeightsFile));
  }
  ProgressFile content;
  if (json.at(kChecksum).text() != checksum(document) || text != text_of(document))
    json.refuse("has changed since it was written");
  for (const auto& [name, digest] : json.at("files").members()) content.files.emplace(name, digest.text());
  json.only({"format",
             "rewire",
             "epoch",
             "step_in_epoch",
             "step",
             "batches_in_epoch",
             "samples_in_epoch",
             "sizes",
             "epochs_done",
             "data",
             "test_data",
             "eval_classes",
             "sums",
             "metrics_bytes",
             "events",
             "images",
             "lr",
             "last_epoch_loss",
             "train_seconds",
             "choices",
             "best",
             "plugins",
             "files",
             kChecksum});
  content.progress = progress_from(json);
  content.plugins = builds_from_json(json.at("plugins"));
  const TrainPosition& at = content.progress.position;
  const std::string name = RunFolder::checkpoint_name(at.epoch, at.step);
  if (fs::path(folder).filename() != name) json.refuse(fmt::format("belongs to the checkpoint {}", name));
  return content;
}

/// Reports any fault in one of our files as damage.
template <class Read>
auto reading(Read read) {
  try {
    return read();
  } catch (const OtherFormat&) {
    throw;
  } catch (const UserError& error) {
    throw DamagedCheckpoint(error.what());
  }
}

ProgressFile read_progress_file(const std::string& folder) {
  return reading([&] { return parse_progress(folder, fmt::format("{}/{}", folder, kProgressFile)); });
}

std::vector<std::byte> read_sound(const std::string& folder, std::string_view name, const Digests& digests) {
  const std::string file = fmt::format("{}/{}", folder, name);
  return reading([&] {
    std::vector<std::byte> bytes = read_file(RunFolder::place_in(folder, name));
    const auto known = digests.find(name);
    if (known == digests.end() || known->second != codegen::digest_hex(bytes))
      user_error("{} does not match its digest in {}", file, kProgressFile);
    return bytes;
  });
}

void check_plugins(const std::string& folder, const std::vector<PluginBuild>& then,
                   const std::vector<PluginBuild>& now) {
  const auto names = [](const std::vector<PluginBuild>& builds) {
    std::vector<std::string> list;
    for (const PluginBuild& build : builds) list.push_back(build.name);
    return list.empty() ? std::string("none") : fmt::format("{}", fmt::join(list, ", "));
  };
  const auto sums = [](const std::vector<PluginBuild>& builds) {
    std::vector<std::string> list;
    for (const PluginBuild& build : builds) list.push_back(build.sha256);
    return list;
  };
  const std::string file = fmt::format("{}/{}", folder, kProgressFile);
  if (names(then) != names(now)) {
    write_log(LogLevel::warning,
              fmt::format("{}: the plugins were {} and are now {}: the run continues as a different one",
                          file, names(then), names(now)));
  } else if (sums(then) != sums(now)) {
    write_log(LogLevel::warning,
              fmt::format("{}: written with another build of the plugins ({}): results may differ", file,
                          names(now)));
  }
}

bool is_late_counter(std::string_view name) {
  return name.starts_with("optimizer.step.");
}

/// Counters of weights that a later phase adds (run_programs.cpp) are named after the epochs that
/// switch them. If these epochs have moved since, a checkpoint has counters of other names. If the
/// Rewire that wrote it counted the run's updates for all weights, it has none. A missing counter
/// continues from the largest that exists.
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
              fmt::format("{} lacks '{}': weights that a later epoch switches on continue from {} updates",
                          file, missing.front(), updates(taken)));
    for (const std::string& name : missing) state.emplace(name, taken.clone());
  }
  const ir::TensorType type = of_run.type();
  std::erase_if(
      rest, [&](const auto& entry) { return is_late_counter(entry.first) && entry.second.type() == type; });
}

/// The averages are stored under the names of their weights, beside weights of which no average is kept.
void take_averages(SafetensorsFile content, const std::string& file, const ir::Module& module,
                   TensorMap& state) {
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.average_of.empty()) continue;
    const auto found = content.tensors.find(parameter.average_of);
    if (found == content.tensors.end())
      continue;  // a plugin's, which the run did not have: starts as its weight
    if (found->second.type() != parameter.type) {
      user_error("{}: '{}' is {}, but the network's is {}", file, parameter.average_of,
                 to_string(found->second.type()), to_string(parameter.type));
    }
    state.emplace(parameter.name, std::move(found->second));
  }
}

/// Takes all weights, or all other parameters except averages. Each must exist and fit.
void take_tensors(SafetensorsFile content, const std::string& file, const ir::Module& module, bool weights,
                  TensorMap& state) {
  const std::string_view cause =
      weights ? "the network is not the one that was trained" : "the optimizer is not the run's";
  std::vector<std::string> counters;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.is_weight() != weights || !parameter.average_of.empty()) continue;
    if (parameter.kind == ir::StateKind::partial) {
      state.emplace(parameter.name, HostTensor(parameter.type));
      continue;
    }
    const auto found = content.tensors.find(parameter.name);
    if (found == content.tensors.end() && is_late_counter(parameter.name)) {
      counters.push_back(parameter.name);
      continue;
    }
    if (found == content.tensors.end()) {
      user_error("{} lacks '{}' {}: {}", file, parameter.name, to_string(parameter.type), cause);
    }
    if (found->second.type() != parameter.type) {
      user_error("{}: '{}' is {}, but the network's is {}", file, parameter.name,
                 to_string(found->second.type()), to_string(parameter.type));
    }
    state.insert(content.tensors.extract(found));
  }
  if (!weights) settle_late_counters(file, content.tensors, counters, state);
  if (!content.tensors.empty()) {
    const auto& [name, tensor] = *content.tensors.begin();
    user_error("{}: the requested run has no '{}' {}: {}", file, name, to_string(tensor.type()), cause);
  }
}

/// A folder under a temporary name, which no reader takes for a checkpoint, until it is published.
class FolderInProgress {
 public:
  explicit FolderInProgress(const fs::path& target)
      : target_(target),
        path_(target.parent_path() /
              ("." + target.filename().string() + codegen::ReplacingFile::temporary_name())) {
    // Does not create the folders above it: the run's folder may have been removed.
    make_folder(RunFolder::place_in(path_.string()));
  }
  ~FolderInProgress() {
    if (!published_) remove_tree(RunFolder::place_in(path_.string()));
  }
  FolderInProgress(const FolderInProgress&) = delete;
  FolderInProgress& operator=(const FolderInProgress&) = delete;

  FilePlace file(std::string_view name) const { return RunFolder::place_in(path_.string(), name); }
  void publish() {
    rename_at(RunFolder::place_in(path_.string()), RunFolder::place_in(target_.string()));
    published_ = true;
    sync_folder(target_.parent_path().string());
  }

 private:
  const fs::path target_, path_;
  bool published_ = false;
};

/// One tensor map at a time, so that at most the larger of the two is copied out of the engine at once.
TensorMap part_of_state(const Engine& engine, const ir::Module& module, bool weights,
                        TensorMap elsewhere = {}) {
  TensorMap part = std::move(elsewhere);
  for (const ir::Parameter& parameter : module.parameters) {
    const bool is_kept = parameter.average_of.empty() && parameter.kind != ir::StateKind::partial;
    if (parameter.is_weight() == weights && is_kept && !part.contains(parameter.name))
      part.emplace(parameter.name, engine.read_state(parameter.name));
  }
  return part;
}

}  // namespace

std::string write_checkpoint(const std::string& run, const RunProgress& progress, const Engine& engine,
                             const ir::Module& module, const std::vector<PluginHandle>& plugins,
                             const std::map<std::string, std::string>& metadata, TensorMap elsewhere) {
  const std::string target = fmt::format(
      "{}/checkpoints/{}", run, RunFolder::checkpoint_name(progress.position.epoch, progress.position.step));
  if (status_of(RunFolder::place_in(target))) return target;
  FolderInProgress folder(target);
  Digests files;
  files.emplace(kWeightsFile,
                write_safetensors(folder.file(kWeightsFile), part_of_state(engine, module, true), metadata));
  if (const TensorMap averages = averages_of(engine, module); !averages.empty())
    files.emplace(kAveragesFile, write_safetensors(folder.file(kAveragesFile), averages, metadata));
  files.emplace(kStateFile, write_safetensors(folder.file(kStateFile),
                                              part_of_state(engine, module, false, std::move(elsewhere))));
  write_file_atomically(folder.file(kProgressFile), progress_text(progress, files, plugins));
  folder.publish();
  return target;
}

RunProgress read_progress(const std::string& folder) {
  return read_progress_file(folder).progress;
}

namespace {

SafetensorsFile read_sound_tensors(const std::string& folder, std::string_view name, const Digests& digests) {
  const std::vector<std::byte> bytes = read_sound(folder, name, digests);
  return reading([&] { return parse_safetensors(bytes, fmt::format("{}/{}", folder, name)); });
}

}  // namespace

CheckpointFiles read_checkpoint_files(const std::string& folder) {
  const ProgressFile content = read_progress_file(folder);
  return {read_sound_tensors(folder, kWeightsFile, content.files),
          read_sound_tensors(folder, kStateFile, content.files)};
}

Checkpoint read_checkpoint(const std::string& folder, const ir::Module& module,
                           const std::vector<PluginHandle>& plugins) {
  ProgressFile content = read_progress_file(folder);
  Checkpoint checkpoint;
  for (const std::string_view name : {kWeightsFile, kStateFile}) {
    take_tensors(read_sound_tensors(folder, name, content.files), fmt::format("{}/{}", folder, name), module,
                 name == kWeightsFile, checkpoint.state);
  }
  const bool takes_averages = std::ranges::any_of(
      module.parameters, [](const ir::Parameter& parameter) { return !parameter.average_of.empty(); });
  if (takes_averages && content.files.contains(kAveragesFile)) {
    take_averages(read_sound_tensors(folder, kAveragesFile, content.files),
                  fmt::format("{}/{}", folder, kAveragesFile), module, checkpoint.state);
  } else if (takes_averages) {
    write_log(
        LogLevel::warning,
        fmt::format("{}: the run has kept no averages so far: those of train.ema begin with its weights",
                    folder));
  }
  begin_averages(module, checkpoint.state);
  check_plugins(folder, content.plugins, builds_of(plugins));
  checkpoint.progress = std::move(content.progress);
  const TrainPosition& at = checkpoint.progress.position;
  const auto counter = [&](const char* name) { return checkpoint.state.at(name).as<std::int64_t>().front(); };
  if (counter("train.step") != at.step || counter("optimizer.step") < 0 ||
      counter("optimizer.step") > at.step) {
    throw DamagedCheckpoint(fmt::format("{}/{} counts {} steps and {} updates, but {} {} steps", folder,
                                        kStateFile, counter("train.step"), counter("optimizer.step"),
                                        kProgressFile, at.step));
  }
  return checkpoint;
}

namespace {

CheckpointWeights read_weights_of(const std::string& checkpoint, WeightsOf which) {
  CheckpointWeights weights;
  const ProgressFile content = read_progress_file(checkpoint);
  const std::string_view name = which == WeightsOf::averages ? kAveragesFile : kWeightsFile;
  weights.file = fmt::format("{}/{}", checkpoint, name);
  weights.position = content.progress.position;
  weights.plugins = content.plugins;
  if (which == WeightsOf::averages && !content.files.contains(kAveragesFile))
    user_error("{} has no {}: the run keeps no averages of its weights (train.ema)", checkpoint, name);
  const std::vector<std::byte> bytes = read_sound(checkpoint, name, content.files);
  weights.content = reading([&] { return parse_safetensors(bytes, weights.file); });
  return weights;
}

}  // namespace

CheckpointWeights read_named_weights(const RunFolder& run, const std::string& name, WeightsOf which) {
  const std::string checkpoint = RunFolder::is_checkpoint_name(name) ? name : run.named_checkpoint(name);
  const std::string folder = run.file("checkpoints/" + checkpoint);
  std::error_code error;
  if (name.find('/') != std::string::npos || checkpoint.empty() || !fs::is_directory(folder, error)) {
    std::vector<std::string> names;
    for (const std::string& path : run.checkpoints()) names.push_back(fs::path(path).filename().string());
    user_error("{} has no checkpoint '{}'; there {} {}", run.path(), name, names.size() == 1 ? "is" : "are",
               names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return read_weights_of(folder, which);
}

std::optional<CheckpointWeights> read_last_weights(const RunFolder& run, WeightsOf which) {
  while (true) {
    const std::vector<std::string> checkpoints = run.checkpoints();
    if (checkpoints.empty()) return std::nullopt;
    const std::string& last = checkpoints.back();
    try {
      return read_weights_of(last, which);
    } catch (const DamagedCheckpoint&) {
      // The checkpoint was removed while it was read: there is a newer one.
      const std::vector<std::string> now = run.checkpoints();
      if (!now.empty() && now.back() == last) throw;
    }
  }
}

std::string way_around_damage(const std::vector<std::string>& checkpoints) {
  for (std::size_t i = checkpoints.size() - 1; i-- > 0;) {
    try {
      const Digests files = read_progress_file(checkpoints[i]).files;
      for (const std::string_view name : {kWeightsFile, kStateFile}) read_sound(checkpoints[i], name, files);
      if (files.contains(kAveragesFile)) read_sound(checkpoints[i], kAveragesFile, files);
      return fmt::format("{} before it is intact: move {} away to resume from there", checkpoints[i],
                         checkpoints.back());
    } catch (const DamagedCheckpoint&) {
      // This one is damaged too.
    }
  }
  return "no checkpoint before it is intact: train again";
}

}  // namespace rewire::runtime
