// Cases of ops on maps: convolutions of every stride, padding and number of groups, and batch norm.
#include <algorithm>

#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "tests/support/case_builder.h"

namespace rewire::testing {

using namespace rewire::ir;

namespace {

struct ConvCase {
  ConvShape shape;
  bool channels_last;
  Attributes window;

  Shape input() const { return shape.input(channels_last); }
  Shape output() const { return shape.output(channels_last); }
};

std::int64_t places(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (extent + 2 * padding - kernel) / stride + 1;
}

/// Extents that leave a rest behind the last stride, kernels wider than the map without its padding, depthwise
/// groups, and single channels among them.
ConvCase convolution(CaseBuilder& c) {
  ConvCase found;
  ConvShape& s = found.shape;
  s.batch = c.pick<std::int64_t>({1, 2, 3, 5});
  s.groups = c.pick<std::int64_t>({1, 1, 1, 2, 3, 8});
  s.inputs = s.groups * c.integer(1, s.groups > 3 ? 2 : 4);
  s.outputs = s.groups * c.integer(1, s.groups > 3 ? 2 : 5);
  s.kernel = {c.pick<std::int64_t>({1, 2, 3, 3, 5}), c.pick<std::int64_t>({1, 2, 3, 3, 4})};
  s.stride = {c.integer(1, 3), c.integer(1, 3)};
  s.padding = {c.integer(0, 2), c.integer(0, 2)};
  const auto least = [](std::int64_t kernel, std::int64_t padding) {
    return std::max<std::int64_t>(1, kernel - 2 * padding);
  };
  s.in = {least(s.kernel.height, s.padding.height) + c.integer(0, 5),
          least(s.kernel.width, s.padding.width) + c.integer(0, 6)};
  s.out = {places(s.in.height, s.kernel.height, s.stride.height, s.padding.height),
           places(s.in.width, s.kernel.width, s.stride.width, s.padding.width)};
  found.channels_last = c.chance(0.5);
  found.window = {{"strides", Ints{s.stride.height, s.stride.width}},
                  {"padding", Ints{s.padding.height, s.padding.width}},
                  {"groups", s.groups},
                  {"layout", std::string(found.channels_last ? "nhwc" : "nchw")}};
  return found;
}

}  // namespace

void conv2d_case(CaseBuilder& c, Opcode code) {
  ConvCase conv = convolution(c);
  const auto tensor = [&](const Shape& shape) { return c.input(c.tensor(shape, -1, 1)); };
  if (code == Opcode::conv2d)
    return c.apply(code, {tensor(conv.input()), tensor(conv.shape.weight())}, conv.window);
  if (code == Opcode::conv2d_input_grad) {
    conv.window.set("size", Ints{conv.shape.in.height, conv.shape.in.width});
    return c.apply(code, {tensor(conv.output()), tensor(conv.shape.weight())}, conv.window);
  }
  conv.window.set("kernel", Ints{conv.shape.kernel.height, conv.shape.kernel.width});
  c.apply(code, {tensor(conv.input()), tensor(conv.output())}, conv.window);
}

void batch_norm_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(2, 4);
  const std::int64_t axis = c.axis(shape.size());
  const std::int64_t channels =
      shape[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis)];
  // The derivative over few equal numbers is of the order of 1 / sqrt(epsilon): they take a large one.
  const std::int64_t count = element_count(shape) / channels;
  const double epsilon = count < 4 ? 0.1 : c.pick({1e-5, 1e-3});
  const Value x = c.input(c.tensor(shape));
  const Value weight = c.input(c.tensor({channels})), bias = c.input(c.tensor({channels}));
  // The running moments are constants of a step: no gradient flows into them.
  const Value mean = c.input(c.tensor({channels}), false),
              variance = c.input(c.tensor({channels}, 0.5, 2), false);
  const Value training = c.input(c.scalar(DType::i1, c.chance(0.6) ? 1 : 0));
  c.apply(code, {x, weight, bias, mean, variance, training},
          {{"axis", axis}, {"epsilon", epsilon}, {"momentum", c.pick({0.1, 0.01, 1.0})}});
}

}  // namespace rewire::testing
