// Tensors of the host drawn from Philox streams, for the tests of engines.
#pragma once

#include <cstdint>

#include "ir/philox.h"
#include "runtime/io/host_tensor.h"

namespace rewire::testing {

/// Returns f32, standard normal.
inline runtime::HostTensor noise(const ir::Shape& shape, std::uint64_t seed, const char* name = "noise") {
  const ir::PhiloxStream stream{seed, 0, ir::stream_hash(name)};
  runtime::HostTensor tensor({ir::DType::f32, shape});
  for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
    tensor.as<float>()[i] = static_cast<float>(stream.normal(i));
  return tensor;
}

/// Returns "image" [batch, 3, size, size] and "label" [batch] of ten classes.
inline runtime::TensorMap random_batch(std::int64_t batch, std::int64_t size, std::uint64_t seed) {
  const ir::PhiloxStream stream{seed, 0, ir::stream_hash("batch")};
  runtime::HostTensor label({ir::DType::i64, {batch}});
  for (std::size_t i = 0; i < label.as<std::int64_t>().size(); ++i)
    label.as<std::int64_t>()[i] = static_cast<std::int64_t>(stream.bits(i) % 10);
  runtime::TensorMap inputs;
  inputs.emplace("image", noise({batch, 3, size, size}, seed, "batch"));
  inputs.emplace("label", std::move(label));
  return inputs;
}

}  // namespace rewire::testing
