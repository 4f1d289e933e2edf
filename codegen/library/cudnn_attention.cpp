#include "codegen/library/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "codegen/library/cudnn_functions.h"
#include "codegen/library/cudnn_graph.h"

namespace rewire::codegen {

/// A handle, or the properties of a device.
struct Cudnn::Impl {
  cudnn::Handle handle = nullptr;
  std::optional<cudnn::Object> device;

  Impl() = default;
  ~Impl() {
    if (handle != nullptr) cudnn::any_functions().destroy(handle);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

namespace cudnn {
namespace {

constexpr std::size_t kOldest = 90800;  // handles are optional, device properties known
/// Before, the gradient reads beyond the last keys where they do not fill tiles of 128, unless masked.
constexpr std::size_t kOldestGradient = 91501;
constexpr int kNewestGradientArch = 99;
constexpr std::int64_t kMostKnobs = 64;       // that an engine has; cuDNN knows some 45
constexpr std::int64_t kWorkspaceLine = 256;  // bytes

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string text_of(const Object& config, const std::string& what) {
  std::vector<Object> engines;
  engines.emplace_back(kEngine, what);
  if (config.fill(kConfigEngine, engines) != 1)
    throw RuntimeFailure(fmt::format("cudnnBackendGetAttribute for {}: a configuration has no engine", what));
  std::string text =
      fmt::format("cuDNN {} engine {}, knobs", Cudnn::version(), engines.front().get_int64(kEngineIndex));
  std::vector<Object> knobs;
  for (std::int64_t i = 0; i < kMostKnobs; ++i) knobs.emplace_back(kKnobChoice, what);
  const std::int64_t count = config.fill(kConfigKnobs, knobs);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    text +=
        fmt::format(" {}={}", knobs[i].get_enum(kKnobType, kKnobTypeType), knobs[i].get_int64(kKnobValue));
  return text;
}

}  // namespace
}  // namespace cudnn

std::optional<std::string> cudnn_missing() {
  if (auto problem = cudnn::any_functions().file.missing()) return problem;
  const std::size_t version = cudnn::any_functions().version();
  if (version >= cudnn::kOldest) return std::nullopt;
  return fmt::format("cuDNN in {} is {}; attention takes {} or newer", cudnn::any_functions().file.path(),
                     cudnn::version_text(version), cudnn::version_text(cudnn::kOldest));
}

Cudnn::Cudnn() : impl_(std::make_unique<Impl>()) {
  if (const auto problem = cudnn_missing()) throw UserError(*problem);
  cudnn::check(cudnn::usable_functions().create(&impl_->handle), "cudnnCreate", "a handle");
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
  return cudnn::version_text(cudnn::usable_functions().version());
}

bool is_engine_text(std::string_view text) {
  return text.starts_with("cuDNN ") && text.find(" engine ") != std::string_view::npos;
}

struct CudnnAttention::Impl {
  Impl(const Cudnn::Impl& library, const DeviceAttentionShape& attention)
      : device(library), shape(attention), name(full_name(attention)), graph(attention, name) {}

  void find_engines(std::int64_t workspace_limit);
  std::int64_t row_sum_bytes() const {
    const std::int64_t rows = shape.batch * shape.heads * shape.queries;
    return shape.gradient ? rows * static_cast<std::int64_t>(sizeof(float)) : 0;
  }
  std::int64_t row_sum_offset() const {
    return (plan_workspace + cudnn::kWorkspaceLine - 1) / cudnn::kWorkspaceLine * cudnn::kWorkspaceLine;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw UnsupportedAttention(fmt::format("{}: {}", name, why));
  }

  const Cudnn::Impl& device;
  DeviceAttentionShape shape;
  std::string name;
  cudnn::AttentionGraph graph;
  std::vector<cudnn::Object> configs;
  std::vector<std::string> engines;  // of the configs
  std::size_t chosen = 0;
  std::optional<cudnn::Object> plan;
  std::int64_t plan_workspace = 0;
};

void CudnnAttention::Impl::find_engines(std::int64_t workspace_limit) {
  std::string refusal;
  if (!graph.finalize(device.handle, refusal)) refuse(refusal);
  cudnn::Object heuristic(cudnn::kHeuristic, name);
  heuristic.put(cudnn::kHeuristicGraph, graph.get());
  heuristic.put_enum(cudnn::kHeuristicMode, cudnn::kHeuristicModeType, cudnn::kModeA);
  if (device.device) heuristic.put(cudnn::kHeuristicDevice, device.device->get());
  if (!heuristic.finalize(refusal)) refuse(refusal);
  std::vector<cudnn::Object> found;
  for (std::int64_t left = heuristic.count(cudnn::kHeuristicResults); left > 0; --left)
    found.emplace_back(cudnn::kEngineConfig, name);
  const std::int64_t count = found.empty() ? 0 : heuristic.fill(cudnn::kHeuristicResults, found);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (found[i].get_int64(cudnn::kConfigWorkspace) + row_sum_bytes() > workspace_limit) continue;
    std::string text = cudnn::text_of(found[i], name);
    if (std::ranges::find(engines, text) != engines.end()) continue;
    engines.push_back(std::move(text));
    configs.push_back(std::move(found[i]));
  }
  if (count == 0) refuse(fmt::format("cuDNN {} knows no engine for it", Cudnn::version()));
  if (configs.empty())
    refuse(fmt::format("each engine of cuDNN {} wants more than {} bytes of workspace", Cudnn::version(),
                       workspace_limit));
}

CudnnAttention::CudnnAttention(const Cudnn& library, int arch, const DeviceAttentionShape& shape,
                               std::int64_t workspace_limit)
    : impl_(std::make_unique<Impl>(*library.impl_, shape)) {
  if (shape.gradient) {
    if (const std::size_t version = cudnn::usable_functions().version(); version < cudnn::kOldestGradient)
      impl_->refuse(fmt::format("the gradient takes cuDNN {} or newer, this is {}",
                                cudnn::version_text(cudnn::kOldestGradient), Cudnn::version()));
    if (arch > cudnn::kNewestGradientArch)
      impl_->refuse(
          fmt::format("the heuristic names no engine that gives the same bits twice on sm_{}", arch));
    if (shape.queries == 1 && shape.keys == 1) impl_->refuse("the gradient takes more than one token");
  }
  impl_->find_engines(workspace_limit);
}
CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;
CudnnAttention& CudnnAttention::operator=(CudnnAttention&&) noexcept = default;

const std::vector<std::string>& CudnnAttention::engines() const {
  return impl_->engines;
}

bool CudnnAttention::choose(std::string_view engine) {
  const auto known = std::ranges::find(impl_->engines, engine);
  if (known == impl_->engines.end()) return false;
  const auto index = static_cast<std::size_t>(known - impl_->engines.begin());
  cudnn::Object plan(cudnn::kPlan, impl_->name);
  plan.put(cudnn::kPlanConfig, impl_->configs[index].get());
  const Cudnn::Impl& device = impl_->device;
  if (device.handle != nullptr) plan.put(cudnn::kPlanHandle, cudnn::kHandleType, 1, &device.handle);
  if (device.device) plan.put(cudnn::kPlanDevice, device.device->get());
  std::string refusal;
  if (!plan.finalize(refusal)) return false;
  impl_->plan_workspace = plan.get_int64(cudnn::kPlanWorkspace);
  impl_->plan = std::move(plan);
  impl_->chosen = index;
  return true;
}

const std::string& CudnnAttention::chosen() const {
  return impl_->engines[impl_->chosen];
}

std::int64_t CudnnAttention::workspace_bytes() const {
  return impl_->shape.gradient ? impl_->row_sum_offset() + impl_->row_sum_bytes() : impl_->plan_workspace;
}

void CudnnAttention::run(const AttentionMemory& memory, void* workspace, void* stream) const {
  if (!impl_->plan) internal_error("{} has no plan: no engine was chosen", impl_->name);
  const cudnn::Functions& functions = cudnn::usable_functions();
  const float scale = static_cast<float>(impl_->shape.scale), one = 1;
  const auto address = [&](std::int64_t id) -> const void* {
    switch (static_cast<cudnn::Id>(id)) {
      case cudnn::kQ:
        return memory.q;
      case cudnn::kK:
        return memory.k;
      case cudnn::kV:
        return memory.v;
      case cudnn::kOutput:
        return memory.output;
      case cudnn::kLse:
        return memory.lse;
      case cudnn::kDOutput:
        return memory.d_output;
      case cudnn::kDq:
        return memory.dq;
      case cudnn::kDk:
        return memory.dk;
      case cudnn::kDv:
        return memory.dv;
      case cudnn::kScale:
        return &scale;
      case cudnn::kOne:
        return &one;
      case cudnn::kRowSums:
        return static_cast<std::byte*>(workspace) + impl_->row_sum_offset();
      case cudnn::kFirstVirtual:
        break;
    }
    internal_error("{}: no tensor with memory has the id {}", impl_->name, id);
  };
  std::vector<const void*> pointers;
  for (const std::int64_t id : impl_->graph.ids()) pointers.push_back(address(id));
  cudnn::Object pack(cudnn::kVariantPack, impl_->name);
  pack.put(cudnn::kPackIds, std::span<const std::int64_t>(impl_->graph.ids()));
  pack.put(cudnn::kPackPointers, cudnn::kPointerType, static_cast<std::int64_t>(pointers.size()),
           pointers.data());
  pack.put(cudnn::kPackWorkspace, cudnn::kPointerType, 1, &workspace);
  pack.finalize();
  cudnn::check(functions.set_stream(impl_->device.handle, stream), "cudnnSetStream", impl_->name);
  cudnn::check(functions.execute(impl_->device.handle, impl_->plan->get(), pack.get()), "cudnnBackendExecute",
               impl_->name);
}

}  // namespace rewire::codegen
