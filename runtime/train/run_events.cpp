#include "runtime/train/run_events.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/events/graph.h"
#include "runtime/recipe/flat_values.h"

namespace rewire::runtime {
namespace {

/// What stands there behind the checkpoint is cut off. Whether anything is left.
bool cut_events(const RunFolder& folder, const EventsPosition& kept) {
  std::error_code error;
  std::vector<std::filesystem::path> later;
  for (std::filesystem::directory_iterator entry(folder.path(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (RunFolder::event_file_step(entry->path().filename().string()) > kept.from_step)
      later.push_back(entry->path());
  }
  for (const std::filesystem::path& path : later) std::filesystem::remove(path, error);
  const std::string newest = folder.file(RunFolder::event_file_name(kept.from_step));
  const auto size = std::filesystem::file_size(newest, error);
  if (error) return false;
  if (size > static_cast<std::uintmax_t>(kept.bytes))
    AppendedFile(newest, kept.bytes, "a run's events stand in one");
  return kept.bytes > 0;
}

/// "diagnose.blocks.0.attn.cosine" of a diagnose line is in the group "diagnose" as it is.
std::string tag_of(const std::string& kind, std::string_view name) {
  const std::string twice = kind + ".";
  if (name.starts_with(twice)) name.remove_prefix(twice.size());
  return fmt::format("{}/{}", kind, name);
}

}  // namespace

RunEvents::RunEvents(const TrainRequest& request, const RunPlan& plan, const RunFolder& folder,
                     const RunProgress& start)
    : plan_(plan), position_(start.events) {
  if (!plan.recipe.train.events) return;
  const std::int64_t step = start.position.step;
  const bool goes_on = cut_events(folder, position_);
  position_ = {step, 0};
  file_ = std::make_unique<EventFile>(folder.file(RunFolder::event_file_name(step)), step > 0 ? step + 1 : 0);
  if (goes_on) return;  // TensorBoard takes one of each
  file_->session_start(flat_values(to_toml(plan.recipe), "recipe.toml"));
  const Phase& phase = plan.programs.phase_of(start.position.epoch);
  file_->graph(event_graph(
      rewritten_forward(request.network, plan.recipe.train.batch, phase.first_epoch).function("forward")));
}

void RunEvents::line(const nlohmann::ordered_json& line) {
  if (file_ == nullptr) return;
  const auto& kind = line.at("kind").get_ref<const std::string&>();
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [name, value] : line.items()) {
    if (name == "kind" || name == "step") continue;
    values.emplace_back(tag_of(kind, name), value.is_number() ? value.get<double>() : NAN);
  }
  file_->scalars(line.at("step").get<std::int64_t>(), values);
}

void RunEvents::picture(std::int64_t step, const RunPicture& picture) {
  if (file_ == nullptr) return;
  const DrawnImage& image = picture.image;
  file_->image(step, "eval/pictures", image.height, image.width, image.channels, picture.png);
}

void RunEvents::weights(std::int64_t step, const Engine& engine) {
  if (file_ == nullptr) return;
  std::vector<std::pair<std::string, Histogram>> histograms;
  for (const ir::Parameter& parameter : plan_.programs.module.parameters) {
    const bool is_trained = parameter.trainable && parameter.kind == ir::StateKind::weight;
    if (!is_trained || parameter.type.dtype != ir::DType::f32) continue;
    const HostTensor weight = engine.read_state(parameter.name);
    histograms.emplace_back("weights/" + parameter.name, histogram_of(weight.as<float>()));
  }
  file_->histograms(step, histograms);
}

void RunEvents::end() {
  if (file_ != nullptr) file_->session_end();
}

EventsPosition RunEvents::sync() {
  if (file_ != nullptr) position_.bytes = file_->sync();
  return position_;
}

}  // namespace rewire::runtime
