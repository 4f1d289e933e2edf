// What tests of convolutions by the fake cuDNN share: its engines that are taken, shapes, and a module of one op.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/library/device_convolution.h"
#include "ir/builder.h"
#include "ir/opcodes.h"

namespace rewire::runtime {

inline constexpr const char* kFourth = "cuDNN 9.99.0 engine 4, knobs 24=7";
inline constexpr const char* kFifth = "cuDNN 9.99.0 engine 5, knobs";

inline std::int64_t places(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (in + 2 * padding - kernel) / stride + 1;
}

inline ir::ConvShape conv(std::int64_t batch, std::int64_t inputs, std::int64_t outputs, std::int64_t groups,
                          ir::ConvShape::Plane in, ir::ConvShape::Plane kernel,
                          ir::ConvShape::Plane stride = {1, 1}, ir::ConvShape::Plane padding = {0, 0}) {
  const ir::ConvShape::Plane out = {places(in.height, kernel.height, stride.height, padding.height),
                                    places(in.width, kernel.width, stride.width, padding.width)};
  return {batch, inputs, outputs, groups, in, out, kernel, stride, padding};
}

/// Odd in everything: extents, kernels, strides that leave a rest, paddings, groups down to one channel.
inline std::vector<ir::ConvShape> odd_shapes() {
  return {conv(2, 3, 5, 1, {7, 5}, {3, 3}, {1, 1}, {1, 1}),
          conv(1, 4, 6, 2, {9, 6}, {3, 2}, {2, 3}, {1, 0}),
          conv(3, 6, 6, 6, {5, 8}, {5, 3}, {1, 2}, {2, 1}),
          conv(2, 5, 7, 1, {6, 4}, {1, 1}, {2, 2}),
          conv(1, 1, 1, 1, {1, 1}, {1, 1}),
          conv(1, 2, 3, 1, {2, 3}, {4, 5}, {3, 3}, {1, 1}),
          conv(5, 9, 3, 3, {1, 11}, {1, 3}, {1, 1}, {0, 1})};
}

/// main(first, second) -> result of one op.
inline ir::Module one_op(const codegen::DeviceConvolution& c) {
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::ConvShape& s = c.shape;
  ir::Attributes attributes = {{"strides", ir::Ints{s.stride.height, s.stride.width}},
                               {"padding", ir::Ints{s.padding.height, s.padding.width}},
                               {"groups", s.groups},
                               {"layout", std::string(c.channels_last ? "nhwc" : "nchw")}};
  const bool of_input = c.code == ir::Opcode::conv2d_input_grad,
             of_weight = c.code == ir::Opcode::conv2d_weight_grad;
  if (of_input) attributes.set("size", ir::Ints{s.in.height, s.in.width});
  if (of_weight) attributes.set("kernel", ir::Ints{s.kernel.height, s.kernel.width});
  const ir::Value first =
      b.argument("first", {c.dtype, of_input ? s.output(c.channels_last) : s.input(c.channels_last)});
  const ir::Value second =
      b.argument("second", {c.dtype, of_weight ? s.output(c.channels_last) : s.weight()});
  b.result("y", b.emit(c.code, {first, second}, std::move(attributes)));
  return module;
}

}  // namespace rewire::runtime
