#include "codegen/library/cudnn_engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace rewire::codegen {

/// A handle, or the properties of a device.
struct Cudnn::Impl {
  cudnn::Handle handle = nullptr;
  std::optional<cudnn::Object> device;

  Impl() = default;
  ~Impl() {
    if (handle != nullptr) cudnn::Library::any().destroy(handle);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

namespace cudnn {
namespace {

constexpr std::int64_t kMostKnobs = 64, kMostNotes = 32;  // per engine; cuDNN knows some 45 knobs, 10 notes

/// Returns the engine of a configuration.
Object engine_of(const Object& config, const std::string& what) {
  std::vector<Object> engines;
  engines.emplace_back(kEngine, what);
  if (config.fill(kConfigEngine, engines) != 1)
    throw RuntimeFailure(fmt::format("cudnnBackendGetAttribute for {}: a configuration has no engine", what));
  return std::move(engines.front());
}

std::string text_of(const Object& config, const Object& engine, const std::string& what) {
  std::string text =
      fmt::format("cuDNN {} engine {}, knobs", Cudnn::version(), engine.get_int64(kEngineIndex));
  std::vector<Object> knobs;
  for (std::int64_t i = 0; i < kMostKnobs; ++i) knobs.emplace_back(kKnobChoice, what);
  const std::int64_t count = config.fill(kConfigKnobs, knobs);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    text +=
        fmt::format(" {}={}", knobs[i].get_enum(kKnobType, kKnobTypeType), knobs[i].get_int64(kKnobValue));
  return text;
}

bool has_note(const Object& engine, const std::vector<NumericalNote>& notes) {
  if (notes.empty()) return false;
  const std::vector<std::int32_t> own =
      engine.get_enums(kEngineNumericalNotes, kNumericalNoteType, kMostNotes);
  return std::ranges::any_of(
      own, [&](std::int32_t note) { return std::ranges::find(notes, note) != notes.end(); });
}

}  // namespace

Engines::Engines(const Cudnn& library, Graph graph, const EngineLimits& limits)
    : device_(library.impl_.get()), graph_(std::move(graph)) {
  std::string refusal;
  bool known = graph_.finalize(device_->handle, refusal);
  if (known) {
    known = false;
    for (const HeuristicMode mode : limits.modes) known = add_engines(mode, limits, refusal) || known;
  }
  if (!names_.empty()) return;
  if (known) {
    refusal =
        fmt::format("every engine of cuDNN {} needs more than {} bytes of workspace{}", Cudnn::version(),
                    limits.workspace_bytes,
                    limits.refused.empty() ? "" : ", is not deterministic or computes in less precision");
  } else if (refusal.empty()) {
    refusal = fmt::format("cuDNN {} has no engine for it", Cudnn::version());
  }
  throw UnsupportedGraph(fmt::format("{}: {}", graph_.what(), refusal));
}

bool Engines::add_engines(HeuristicMode mode, const EngineLimits& limits, std::string& refusal) {
  const std::string& what = graph_.what();
  Object heuristic(kHeuristic, what);
  heuristic.put(kHeuristicGraph, graph_.get());
  heuristic.put_enum(kHeuristicMode, kHeuristicModeType, mode);
  if (device_->device) heuristic.put(kHeuristicDevice, device_->device->get());
  if (!heuristic.finalize(refusal)) return false;
  std::vector<Object> found;
  for (std::int64_t left = heuristic.count(kHeuristicResults); left > 0; --left)
    found.emplace_back(kEngineConfig, what);
  const std::int64_t count = found.empty() ? 0 : heuristic.fill(kHeuristicResults, found);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (found[i].get_int64(kConfigWorkspace) > limits.workspace_bytes) continue;
    const Object engine = engine_of(found[i], what);
    if (has_note(engine, limits.refused)) continue;
    std::string text = text_of(found[i], engine, what);
    if (std::ranges::find(names_, text) != names_.end()) continue;
    names_.push_back(std::move(text));
    configs_.push_back(std::move(found[i]));
  }
  return count > 0;
}

bool Engines::choose(std::string_view engine) {
  const auto known = std::ranges::find(names_, engine);
  if (known == names_.end()) return false;
  const auto index = static_cast<std::size_t>(known - names_.begin());
  Object plan(kPlan, graph_.what());
  plan.put(kPlanConfig, configs_[index].get());
  if (device_->handle != nullptr) plan.put(kPlanHandle, kHandleType, 1, &device_->handle);
  if (device_->device) plan.put(kPlanDevice, device_->device->get());
  std::string refusal;
  if (!plan.finalize(refusal)) return false;
  workspace_bytes_ = plan.get_int64(kPlanWorkspace);
  plan_ = std::move(plan);
  chosen_ = index;
  return true;
}

void Engines::run(std::span<const void* const> memory, void* workspace, void* stream) const {
  const std::string& what = graph_.what();
  if (!plan_) internal_error("{} has no plan: no engine was chosen", what);
  Object pack(kVariantPack, what);
  pack.put(kPackIds, std::span<const std::int64_t>(graph_.ids()));
  pack.put(kPackPointers, kPointerType, static_cast<std::int64_t>(memory.size()), memory.data());
  pack.put(kPackWorkspace, kPointerType, 1, &workspace);
  pack.finalize();
  const Functions& functions = Library::usable();
  check(functions.set_stream(device_->handle, stream), "cudnnSetStream", what);
  check(functions.execute(device_->handle, plan_->get(), pack.get()), "cudnnBackendExecute", what);
}

}  // namespace cudnn

std::optional<std::string> cudnn_missing() {
  return cudnn::Library::any().file.missing();
}

Cudnn::Cudnn() : impl_(std::make_unique<Impl>()) {
  if (const auto problem = cudnn_missing()) throw UserError(*problem);
  cudnn::check(cudnn::Library::usable().create(&impl_->handle), "cudnnCreate", "a handle");
}

Cudnn::Cudnn(const std::string& device_properties) : impl_(std::make_unique<Impl>()) {
  if (const auto problem = cudnn_missing()) throw UserError(*problem);
  impl_->device.emplace(cudnn::kDeviceProperties, "the properties of a device");
  impl_->device->put(cudnn::kDeviceText, cudnn::kCharType,
                     static_cast<std::int64_t>(device_properties.size()), device_properties.data());
  impl_->device->finalize();
}

Cudnn::~Cudnn() = default;

std::string Cudnn::version() {
  return cudnn::version_text(cudnn::Library::usable().version());
}

bool is_engine_text(std::string_view text) {
  return text.starts_with("cuDNN ") && text.find(" engine ") != std::string_view::npos;
}

}  // namespace rewire::codegen
