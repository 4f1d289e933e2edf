// A convolution operation of cuDNN's: y = x * w, of which one tensor is computed from the other two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewire::fake_cuda::dnn {

struct Tensor;

struct Convolution {
  enum class Product : std::uint8_t { forward, data, filter } product = Product::forward;  // y, x or w
  std::vector<std::int64_t> strides, dilations, before, behind;  // of height and width
};

/// What is wrong with it alone; "": nothing.
std::string fault_of(const Convolution& convolution);
/// What does not fit of x [batch, inputs, height, width], w [outputs, inputs / groups, height, width] and
/// y [batch, outputs, height, width]; "": nothing.
std::string fault_of(const Convolution& convolution, const Tensor& x, const Tensor& w, const Tensor& y);

}  // namespace rewire::fake_cuda::dnn
