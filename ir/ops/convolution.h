// The shape of a convolution, conv2d or one of its two gradients. Shape rules, evaluator, libraries and the
// count of multiply-adds read it.
#pragma once

#include <cstdint>
#include <functional>

#include "ir/attribute.h"
#include "ir/module.h"
#include "ir/types.h"

namespace rewire::ir {

/// y [batch, outputs, out height, out width] = x [batch, inputs, height, width] * w [outputs, inputs /
/// groups, kernel height, kernel width], a cross-correlation as in PyTorch's conv2d.
struct ConvShape {
  struct Plane {
    std::int64_t height = 1, width = 1;
    auto operator<=>(const Plane&) const = default;
  };
  std::int64_t batch = 1, inputs = 1, outputs = 1, groups = 1;
  Plane in, out, kernel, stride, padding;
  auto operator<=>(const ConvShape&) const = default;

  Shape input(bool channels_last) const;
  Shape output(bool channels_last) const;
  Shape weight() const { return {outputs, inputs / groups, kernel.height, kernel.width}; }
  /// Returns the multiply-adds, including those on padding, as libraries do and papers print.
  double multiply_adds() const;
};

bool is_convolution(Opcode code);
/// Returns whether the op's maps are [batch, height, width, channels]. Its weights keep their layout.
bool is_channels_last(const Attributes& attributes);

/// Returns the shape of conv2d, conv2d_input_grad or conv2d_weight_grad on operands of these shapes. Throws
/// UserError if they do not fit.
ConvShape conv_shape(Opcode code, const Attributes& attributes, const Shape& first, const Shape& second);

/// Returns whether a device computes conv2d or one of its gradients from bf16 operands.
using NarrowConvolution = std::function<bool(Opcode code, const ConvShape& shape, bool channels_last)>;

}  // namespace rewire::ir
