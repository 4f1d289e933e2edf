#include "codegen/library/cudnn_attention.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "codegen/library/cudnn_attention_graph.h"
#include "codegen/library/cudnn_engines.h"

namespace rewire::codegen {
namespace {

/// The oldest version for the gradient. Before it, an unmasked gradient reads beyond the last keys if they
/// do not fill tiles of 128.
constexpr std::size_t kOldestGradient = 91501;
constexpr int kNewestGradientArch = 99;
constexpr std::int64_t kWorkspaceLine = 256;  // bytes

std::int64_t row_sum_bytes(const DeviceAttentionShape& shape) {
  const std::int64_t rows = shape.batch * shape.heads * shape.queries;
  return shape.gradient ? rows * static_cast<std::int64_t>(sizeof(float)) : 0;
}

void check_gradient(const DeviceAttentionShape& shape, int arch) {
  const auto refuse = [&](const std::string& why) {
    throw UnsupportedGraph(fmt::format("{}: {}", full_name(shape), why));
  };
  if (const std::size_t version = cudnn::Library::usable().version(); version < kOldestGradient)
    refuse(fmt::format("the gradient needs cuDNN {} or newer, this is {}",
                       cudnn::version_text(kOldestGradient), Cudnn::version()));
  if (arch > kNewestGradientArch)
    refuse(fmt::format("the heuristic names no deterministic engine on sm_{}", arch));
  if (shape.queries == 1 && shape.keys == 1) refuse("the gradient needs more than one token");
}

}  // namespace

struct CudnnAttention::Impl {
  std::int64_t row_sum_offset() const {
    return (engines.workspace_bytes() + kWorkspaceLine - 1) / kWorkspaceLine * kWorkspaceLine;
  }

  DeviceAttentionShape shape;
  cudnn::Engines engines;
};

CudnnAttention::CudnnAttention(const Cudnn& library, int arch, const DeviceAttentionShape& shape,
                               std::int64_t workspace_limit) {
  if (shape.gradient) check_gradient(shape, arch);
  cudnn::Engines engines(library, cudnn::attention_graph(shape, full_name(shape)),
                         {workspace_limit - row_sum_bytes(shape), {cudnn::kModeA}});
  impl_ = std::make_unique<Impl>(Impl{shape, std::move(engines)});
}
CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;
CudnnAttention& CudnnAttention::operator=(CudnnAttention&&) noexcept = default;

const std::vector<std::string>& CudnnAttention::engines() const {
  return impl_->engines.names();
}

bool CudnnAttention::choose(std::string_view engine) {
  return impl_->engines.choose(engine);
}

const std::string& CudnnAttention::chosen() const {
  return impl_->engines.chosen();
}

std::int64_t CudnnAttention::workspace_bytes() const {
  return impl_->shape.gradient ? impl_->row_sum_offset() + row_sum_bytes(impl_->shape)
                               : impl_->engines.workspace_bytes();
}

void CudnnAttention::run(const AttentionMemory& memory, void* workspace, void* stream) const {
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
    internal_error("{}: no tensor with memory has the id {}", impl_->engines.graph().what(), id);
  };
  std::vector<const void*> pointers;
  for (const std::int64_t id : impl_->engines.graph().ids()) pointers.push_back(address(id));
  impl_->engines.run(pointers, workspace, stream);
}

}  // namespace rewire::codegen
