#include "runtime/train/run_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/device/log.h"
#include "runtime/events/graph.h"
#include "runtime/plugin/plugin.h"
#include "runtime/recipe/flat_values.h"

namespace rewire::runtime {
namespace {

/// Cuts off the events after the checkpoint. Returns the bytes left in the newest file.
std::int64_t cut_events(const RunFolder& folder, const EventsPosition& kept) {
  for (const std::string& name : names_in(folder.place("."))) {
    if (RunFolder::event_file_step(name) > kept.from_step) remove_file(folder.place(name));
  }
  const FilePlace newest = folder.place(RunFolder::event_file_name(kept.from_step));
  const std::optional<struct stat> status = status_of(newest);
  if (!status) return 0;
  if (status->st_size > kept.bytes) AppendedFile(newest, kept.bytes, "the run's events go there");
  return std::min(kept.bytes, std::int64_t{status->st_size});
}

/// A diagnose line's "diagnose.blocks.0.attn.cosine" already has the group "diagnose", so it stays as it is.
std::string tag_of(const std::string& kind, std::string_view name) {
  const std::string twice = kind + ".";
  if (name.starts_with(twice)) name.remove_prefix(twice.size());
  return fmt::format("{}/{}", kind, name);
}

/// Adds a line of metrics.jsonl.
void add_scalars(EventFile& events, const nlohmann::ordered_json& line) {
  const auto& kind = line.at("kind").get_ref<const std::string&>();
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [name, value] : line.items()) {
    if (name == "kind" || name == "step") continue;
    values.emplace_back(tag_of(kind, name), value.is_number() ? value.get<double>() : NAN);
  }
  events.scalars(line.at("step").get<std::int64_t>(), values);
}

/// Returns the histograms of all trained weights, by tag.
std::vector<std::pair<std::string, Histogram>> weight_histograms(const ir::Module& module,
                                                                 const Engine& engine) {
  std::vector<std::pair<std::string, Histogram>> histograms;
  for (const ir::Parameter& parameter : module.parameters) {
    const bool is_trained = parameter.trainable && parameter.kind == ir::StateKind::weight;
    if (!is_trained || parameter.type.dtype != ir::DType::f32) continue;
    const HostTensor weight = engine.read_state(parameter.name);
    histograms.emplace_back("weights/" + parameter.name, histogram_of(weight.as<float>()));
  }
  return histograms;
}

/// Returns "gain:factor=0.5 other": the plugins with the values that are not
/// defaults; "none" without plugins.
std::string plugins_text(const std::vector<PluginHandle>& plugins) {
  std::string text;
  for (const PluginHandle& plugin : plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    text += (text.empty() ? "" : " ") + info.name;
    char before = ':';
    for (const auto& [name, value] : plugin_values(*plugin)) {
      const auto known = std::ranges::find(info.parameters, name, &ir::ParameterInfo::name);
      if (known != info.parameters.end() && known->default_value == value) continue;
      text += std::exchange(before, ',') + name + '=' + value;
    }
  }
  return text.empty() ? "none" : text;
}

/// Returns the values that distinguish runs: those that are not defaults, and those by
/// which runs are always compared.
FlatValues hparams_of(const Recipe& recipe, const std::vector<PluginHandle>& plugins) {
  FlatValues hparams = chosen_values(recipe);
  for (auto& [key, value] : flat_values(to_toml(recipe), "recipe.toml")) {
    constexpr std::string_view kAlways[] = {"model.name", "optimizer.lr", "seed", "train.batch",
                                            "train.epochs"};
    if (std::ranges::find(kAlways, key) != std::end(kAlways)) hparams.emplace(key, value);
  }
  hparams["plugin"] = plugins_text(plugins);
  return hparams;
}

}  // namespace

RunEvents::RunEvents(const TrainRequest& request, const RunPlan& plan, const RunFolder& folder,
                     const RunProgress& start)
    : request_(request), plan_(plan), folder_(folder), began_(start.position), position_(start.events) {
  if (began_.step == 0) tell([](EventFile&) {});
}

void RunEvents::attempt(const std::function<void()>& work) {
  if (failed_) return;
  try {
    work();
  } catch (const std::exception& error) {
    failed_ = true;
    file_.reset();
    write_log(LogLevel::warning, fmt::format("the run continues without event files: {}", error.what()));
  }
}

void RunEvents::tell(const std::function<void(EventFile&)>& event) {
  attempt([&] {
    if (!std::exchange(began_to_tell_, true)) begin();
    if (file_ != nullptr) event(*file_);
  });
}

void RunEvents::begin() {
  const std::int64_t step = began_.step, kept = cut_events(folder_, position_);
  if (!plan_.recipe.train.events) return;
  // The checkpoints before and after an evaluation have the same step, so the bytes are compared too.
  const bool is_newest = position_.from_step == step && kept == position_.bytes;
  file_ = std::make_unique<EventFile>(folder_.place(RunFolder::event_file_name(step)),
                                      step > 0 ? step + 1 : 0, is_newest ? kept : 0);
  if (kept > 0) return;  // TensorBoard takes one of each
  file_->session_start(hparams_of(plan_.recipe, request_.network.plugins));
  const std::int64_t epoch = plan_.programs.phase_of(began_.epoch).first_epoch;
  const ir::Module network = rewritten_forward(request_.network, plan_.recipe.train.shard_batch(), epoch);
  file_->graph(event_graph(network.function("forward")));
}

void RunEvents::line(const nlohmann::ordered_json& line) {
  tell([&](EventFile& events) { add_scalars(events, line); });
}

void RunEvents::picture(std::int64_t step, const RunPicture& picture) {
  const DrawnImage& image = picture.image;
  tell([&](EventFile& events) {
    events.image(step, "eval/pictures", image.height, image.width, image.channels, picture.png);
  });
}

void RunEvents::weights(std::int64_t step, const Engine& engine) {
  tell([&](EventFile& events) { events.histograms(step, weight_histograms(plan_.programs.module, engine)); });
}

void RunEvents::end() {
  if (plan_.recipe.train.events) tell([](EventFile& events) { events.session_end(); });
}

EventsPosition RunEvents::sync() {
  attempt([&] {
    if (file_ != nullptr) position_ = {began_.step, file_->sync()};
  });
  return position_;
}

}  // namespace rewire::runtime
