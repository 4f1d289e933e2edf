// A small ViT with strategies, compiled: what it computes, for comparisons bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/io/host_tensor.h"

namespace rewire::test {

/// Logits in evaluation, loss and every gradient of training step `step`, from the weights that training
/// would start from.
runtime::TensorMap compiled_gradients(const std::vector<std::string>& specs, std::int64_t step = 0);

/// The names of the tensors that differ in a bit or in presence.
std::vector<std::string> differing(const runtime::TensorMap& a, const runtime::TensorMap& b);

}  // namespace rewire::test
