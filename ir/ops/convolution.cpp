// conv2d and its two gradients. All three are computed from the same relation y = x * w.
#include "ir/ops/convolution.h"

#include <limits>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

using Plane = ConvShape::Plane;

constexpr std::int64_t kLargestExtent = std::numeric_limits<std::int32_t>::max();  // what libraries accept

Plane plane(const Attributes& attributes, std::string_view name, std::int64_t least) {
  const Ints& values = attributes.get_ints(name);
  const auto fits = [&](std::int64_t value) { return value >= least && value <= kLargestExtent; };
  if (values.size() != 2 || !fits(values[0]) || !fits(values[1]))
    user_error("{} must be [height, width], both from {} to {}", name, least, kLargestExtent);
  return {values[0], values[1]};
}

Shape map_shape(std::int64_t batch, std::int64_t channels, const Plane& extent, bool channels_last) {
  if (channels_last) return {batch, extent.height, extent.width, channels};
  return {batch, channels, extent.height, extent.width};
}

struct Map {
  std::int64_t batch, channels;
  Plane extent;
};

Map read_map(const Shape& shape, bool channels_last, std::string_view name) {
  if (shape.size() != 4) user_error("{} must have rank 4, not {}", name, shape.size());
  if (channels_last) return {shape[0], shape[3], {shape[1], shape[2]}};
  return {shape[0], shape[1], {shape[2], shape[3]}};
}

std::int64_t places(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (extent + 2 * padding - kernel) / stride + 1;
}

void set_output(ConvShape& shape) {
  if (shape.kernel.height > shape.in.height + 2 * shape.padding.height ||
      shape.kernel.width > shape.in.width + 2 * shape.padding.width) {
    user_error("the kernel, {} x {}, is larger than the padded map, {} x {}", shape.kernel.height,
               shape.kernel.width, shape.in.height + 2 * shape.padding.height,
               shape.in.width + 2 * shape.padding.width);
  }
  shape.out = {places(shape.in.height, shape.kernel.height, shape.stride.height, shape.padding.height),
               places(shape.in.width, shape.kernel.width, shape.stride.width, shape.padding.width)};
}

void set_weight(ConvShape& shape, const Shape& weight) {
  if (weight.size() != 4) user_error("the weight must have rank 4, not {}", weight.size());
  shape.outputs = weight[0];
  shape.kernel = {weight[2], weight[3]};
  if (shape.outputs % shape.groups != 0 || shape.inputs != weight[1] * shape.groups) {
    user_error("{} groups of {} channels and {} outputs do not fit a weight [{}, {}, …]", shape.groups,
               shape.inputs, shape.outputs, weight[0], weight[1]);
  }
}

void check_output(const ConvShape& shape, const Map& output) {
  if (output.batch != shape.batch || output.channels != shape.outputs || output.extent != shape.out) {
    user_error("the gradient has {} maps of {} x {} x {}, but the result has {} of {} x {} x {}",
               output.batch, output.channels, output.extent.height, output.extent.width, shape.batch,
               shape.outputs, shape.out.height, shape.out.width);
  }
}

ConvShape shape_of(const Op& op, const Tensor& first, const Tensor& second) {
  return conv_shape(op.code, op.attributes, first.type.shape, second.type.shape);
}

/// Calls visit(index in x, index in w, index in y) for every product of the sum.
template <class Visit>
void for_each_product(const ConvShape& s, bool channels_last, Visit visit) {
  const std::int64_t in = s.inputs / s.groups, out = s.outputs / s.groups;
  const auto at = [&](std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t channels,
                      const Plane& extent) {
    const std::int64_t index = channels_last ? ((b * extent.height + h) * extent.width + w) * channels + c
                                             : ((b * channels + c) * extent.height + h) * extent.width + w;
    return static_cast<std::size_t>(index);
  };
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t o = 0; o < s.outputs; ++o)
      for (std::int64_t i = 0; i < in; ++i)
        for (std::int64_t kh = 0; kh < s.kernel.height; ++kh)
          for (std::int64_t kw = 0; kw < s.kernel.width; ++kw)
            for (std::int64_t oh = 0; oh < s.out.height; ++oh)
              for (std::int64_t ow = 0; ow < s.out.width; ++ow) {
                const std::int64_t h = oh * s.stride.height + kh - s.padding.height;
                const std::int64_t w = ow * s.stride.width + kw - s.padding.width;
                if (h < 0 || w < 0 || h >= s.in.height || w >= s.in.width) continue;
                const std::int64_t weight = ((o * in + i) * s.kernel.height + kh) * s.kernel.width + kw;
                visit(at(b, o / out * in + i, h, w, s.inputs, s.in), static_cast<std::size_t>(weight),
                      at(b, o, oh, ow, s.outputs, s.out));
              }
}

ConvShape checked_shape(const InferContext& context, Opcode code) {
  require_float(context, 0);
  if (context.operand(0).dtype != context.operand(1).dtype) user_error("operand dtypes differ (cast one)");
  const std::string& layout = context.attributes.get_string("layout");
  if (layout != "nchw" && layout != "nhwc") user_error("layout must be nchw or nhwc, not '{}'", layout);
  return conv_shape(code, context.attributes, context.operand(0).shape, context.operand(1).shape);
}

}  // namespace

Shape ConvShape::input(bool channels_last) const {
  return map_shape(batch, inputs, in, channels_last);
}

Shape ConvShape::output(bool channels_last) const {
  return map_shape(batch, outputs, out, channels_last);
}

double ConvShape::multiply_adds() const {
  const auto product = [](const auto&... extents) { return (1.0 * ... * static_cast<double>(extents)); };
  return product(batch, outputs, out.height, out.width, inputs / groups, kernel.height, kernel.width);
}

bool is_convolution(Opcode code) {
  return code == Opcode::conv2d || code == Opcode::conv2d_input_grad || code == Opcode::conv2d_weight_grad;
}

bool is_channels_last(const Attributes& attributes) {
  return attributes.get_string("layout") == "nhwc";
}

ConvShape conv_shape(Opcode code, const Attributes& attributes, const Shape& first, const Shape& second) {
  const bool last = is_channels_last(attributes);
  ConvShape shape;
  shape.stride = plane(attributes, "strides", 1);
  shape.padding = plane(attributes, "padding", 0);
  shape.groups = attributes.get_int("groups");
  if (shape.groups < 1) user_error("groups must be 1 or more, not {}", shape.groups);
  if (code == Opcode::conv2d_input_grad) {
    const Map gradient = read_map(first, last, "the gradient (operand 0)");
    shape.batch = gradient.batch;
    shape.in = plane(attributes, "size", 0);
    shape.inputs = second.size() == 4 ? second[1] * shape.groups : 0;
    set_weight(shape, second);
    set_output(shape);
    check_output(shape, gradient);
    return shape;
  }
  const Map input = read_map(first, last, "x (operand 0)");
  shape.batch = input.batch;
  shape.inputs = input.channels;
  shape.in = input.extent;
  if (code == Opcode::conv2d) {
    set_weight(shape, second);
    set_output(shape);
    return shape;
  }
  const Map gradient = read_map(second, last, "the gradient (operand 1)");
  shape.kernel = plane(attributes, "kernel", 1);
  if (shape.inputs % shape.groups != 0)
    user_error("{} groups do not divide {} channels", shape.groups, shape.inputs);
  set_weight(shape,
             {gradient.channels, shape.inputs / shape.groups, shape.kernel.height, shape.kernel.width});
  set_output(shape);
  check_output(shape, gradient);
  return shape;
}

std::vector<TensorType> infer_conv2d(const InferContext& context) {
  const ConvShape shape = checked_shape(context, Opcode::conv2d);
  return {{context.operand(0).dtype, shape.output(is_channels_last(context.attributes))}};
}

std::vector<TensorType> infer_conv2d_input_grad(const InferContext& context) {
  const ConvShape shape = checked_shape(context, Opcode::conv2d_input_grad);
  return {{context.operand(0).dtype, shape.input(is_channels_last(context.attributes))}};
}

std::vector<TensorType> infer_conv2d_weight_grad(const InferContext& context) {
  return {{context.operand(0).dtype, checked_shape(context, Opcode::conv2d_weight_grad).weight()}};
}

void eval_conv2d(EvalContext& context) {
  const Tensor &x = context.in(0), &w = context.in(1);
  std::vector<double>& y = context.out().data;
  for_each_product(shape_of(context.op, x, w), is_channels_last(context.op.attributes),
                   [&](std::size_t i, std::size_t k, std::size_t o) { y[o] += x.data[i] * w.data[k]; });
}

void eval_conv2d_input_grad(EvalContext& context) {
  const Tensor &g = context.in(0), &w = context.in(1);
  std::vector<double>& dx = context.out().data;
  for_each_product(shape_of(context.op, g, w), is_channels_last(context.op.attributes),
                   [&](std::size_t i, std::size_t k, std::size_t o) { dx[i] += g.data[o] * w.data[k]; });
}

void eval_conv2d_weight_grad(EvalContext& context) {
  const Tensor &x = context.in(0), &g = context.in(1);
  std::vector<double>& dw = context.out().data;
  for_each_product(shape_of(context.op, x, g), is_channels_last(context.op.attributes),
                   [&](std::size_t i, std::size_t k, std::size_t o) { dw[k] += x.data[i] * g.data[o]; });
}

namespace {

Work work_of(Opcode code, const WorkContext& context) {
  const double multiply_adds =
      conv_shape(code, context.attributes, context.operands[0].shape, context.operands[1].shape)
          .multiply_adds();
  return {2 * multiply_adds, multiply_adds};
}

}  // namespace

Work work_conv2d(const WorkContext& context) {
  return work_of(Opcode::conv2d, context);
}

Work work_conv2d_input_grad(const WorkContext& context) {
  return work_of(Opcode::conv2d_input_grad, context);
}

Work work_conv2d_weight_grad(const WorkContext& context) {
  return work_of(Opcode::conv2d_weight_grad, context);
}

}  // namespace rewire::ir
