// Attention as a device's library takes it: bf16 heads with contiguous channels, whose rows begin at
// multiples of 16 bytes. Our own kernels compute all other layouts.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen/program.h"
#include "ir/types.h"

namespace rewire::codegen {

/// The shape of output = softmax(scale q k^T) v and lse = log sum exp(scale q k^T), f32 and dense; or of the
/// gradient of output. q [batch, heads, queries, width], k and v [batch, heads, keys, width].
struct DeviceAttentionShape {
  /// Strides in elements, multiples of 8.
  struct Tensor {
    std::int64_t batch = 0, head = 0, token = 0;
    auto operator<=>(const Tensor&) const = default;
  };
  bool gradient = false;
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, width = 8;
  double scale = 1;
  Tensor q, k, v, output;
  Tensor d_output, dq, dk, dv;  // only of the gradient
  auto operator<=>(const DeviceAttentionShape&) const = default;

  /// Returns the elements from the first to the last of a tensor of so many tokens.
  std::int64_t elements(const Tensor& tensor, std::int64_t tokens) const {
    return (batch - 1) * tensor.batch + (heads - 1) * tensor.head + (tokens - 1) * tensor.token + width;
  }
};

/// Returns all of it in one line that begins with "attention ": "attention forward 64x6x65x65x64 bf16 scale
/// 0.125 q=74880,64,1152 k=… v=… o=…". The sizes are batch, heads, queries, keys and width; the strides are
/// of batch, head and token.
std::string full_name(const DeviceAttentionShape& shape);

/// Returns the shape of an attention call; nullopt: no library takes such a call.
std::optional<DeviceAttentionShape> device_attention(const Program& program, const OpCall& call);

}  // namespace rewire::codegen
