// The nodes of single ops. https://onnx.ai/onnx/operators names opset 18's.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/residual.h"
#include "runtime/export/onnx_translation.h"

namespace rewire::runtime {
namespace {

using ir::Opcode;
using Translation = OnnxTranslation;

/// The op's axis, counted from the front.
std::int64_t axis_of(const Translation& net, const ir::Op& op) {
  const bool made = op.operands.empty();
  return ir::normal_axis(op.attributes.get_int("axis"),
                         net.type(made ? op.results[0] : op.operands[0]).rank());
}

/// Ops that ONNX has with the same meaning, element by element.
const std::map<Opcode, const char*> kPointwise{
    {Opcode::neg, "Neg"},         {Opcode::abs, "Abs"},         {Opcode::exp, "Exp"},
    {Opcode::log, "Log"},         {Opcode::sqrt, "Sqrt"},       {Opcode::sin, "Sin"},
    {Opcode::cos, "Cos"},         {Opcode::tanh, "Tanh"},       {Opcode::erf, "Erf"},
    {Opcode::sigmoid, "Sigmoid"}, {Opcode::floor, "Floor"},     {Opcode::logical_not, "Not"},
    {Opcode::add, "Add"},         {Opcode::sub, "Sub"},         {Opcode::mul, "Mul"},
    {Opcode::div, "Div"},         {Opcode::pow, "Pow"},         {Opcode::maximum, "Max"},
    {Opcode::minimum, "Min"},     {Opcode::logical_and, "And"}, {Opcode::logical_or, "Or"},
    {Opcode::relu, "Relu"}};

void add_pointwise(Translation& net, const ir::Op& op, const char* type) {
  net.last(op, type, net.pointwise(op));
}

void add_compare(Translation& net, const ir::Op& op) {
  static const std::map<std::string, const char*> kTypes{
      {"lt", "Less"}, {"le", "LessOrEqual"}, {"gt", "Greater"}, {"ge", "GreaterOrEqual"}, {"eq", "Equal"}};
  const std::string& direction = op.attributes.get_string("direction");
  const std::vector<std::string> inputs = net.pointwise(op);
  if (direction == "ne") return net.last(op, "Not", {net.node(op, "Equal", inputs)});
  net.last(op, kTypes.at(direction), inputs);
}

void add_select(Translation& net, const ir::Op& op) {
  // is_training, which is known.
  if (const auto condition = net.number(op.operands[0])) {
    return net.add_alias(op.results[0], op.operands[*condition != 0 ? 1 : 2]);
  }
  add_pointwise(net, op, "Where");
}

void add_reduction(Translation& net, const ir::Op& op, const char* type) {
  net.last(op, type, {net.value(op.operands[0]), net.ints(op.attributes.get_ints("axes"))},
           {{"keepdims", std::int64_t{1}}});
}

void add_argmax(Translation& net, const ir::Op& op) {
  const std::string found =
      net.node(op, "ArgMax", {net.value(op.operands[0])},
               {{"axis", op.attributes.get_int("axis")}, {"keepdims", std::int64_t{1}}});
  net.last(op, "Cast", {found}, {{"to", onnx_element_type(ir::DType::i32)}});
}

void add_matmul(Translation& net, const ir::Op& op) {
  const auto side = [&](std::size_t index, const char* transposed) {
    return op.attributes.get_bool(transposed) ? net.swapped(op, op.operands[index])
                                              : net.value(op.operands[index]);
  };
  const std::string a = side(0, "transpose_a");
  net.last(op, "MatMul", {a, side(1, "transpose_b")});
}

/// Padding, the same before and after, as ONNX has it: [top, left, bottom, right].
ir::Ints both_sides(const ir::Ints& padding) {
  if (padding.empty()) return {0, 0, 0, 0};
  return {padding[0], padding[1], padding[0], padding[1]};
}

void add_convolution(Translation& net, const ir::Op& op) {
  const bool is_last = op.attributes.get_string("layout") == "nhwc";  // where the channels are
  const ir::Shape& weight = net.type(op.operands[1]).shape;
  const ir::Ints &strides = op.attributes.get_ints("strides"), &padding = op.attributes.get_ints("padding");
  ir::Attributes attributes{{"kernel_shape", ir::Ints{weight[2], weight[3]}},
                            {"strides", strides},
                            {"pads", both_sides(padding)},
                            {"group", op.attributes.get_int("groups")}};
  const bool is_transposed = op.code == Opcode::conv2d_input_grad;
  if (is_transposed) {
    const ir::Shape& in = net.type(op.operands[0]).shape;
    const std::size_t height = is_last ? 1 : 2;
    const ir::Ints& size = op.attributes.get_ints("size");
    ir::Ints more;
    for (const std::size_t side : {0, 1}) {
      more.push_back(size[side] -
                     (strides[side] * (in[height + side] - 1) + weight[2 + side] - 2 * padding[side]));
    }
    attributes.set("output_padding", more);
  }
  const char* type = is_transposed ? "ConvTranspose" : "Conv";
  std::string x = net.value(op.operands[0]);
  if (!is_last) return net.last(op, type, {x, net.value(op.operands[1])}, attributes);
  x = net.node(op, "Transpose", {x}, {{"perm", ir::Ints{0, 3, 1, 2}}});
  const std::string y = net.node(op, type, {x, net.value(op.operands[1])}, attributes);
  net.last(op, "Transpose", {y}, {{"perm", ir::Ints{0, 2, 3, 1}}});
}

void add_layer_norm(Translation& net, const ir::Op& op) {
  const ir::TensorType& x = net.type(op.operands[0]);
  std::vector<std::string> inputs;
  for (const ir::Value operand : op.operands) inputs.push_back(net.value(operand));
  if (inputs.size() == 1) inputs.push_back(net.filled(1, x.dtype, {x.shape.back()}));
  net.last(op, "LayerNormalization", inputs,
           {{"axis", std::int64_t{-1}}, {"epsilon", op.attributes.get_double("epsilon")}});
}

void add_batch_norm(Translation& net, const ir::Op& op) {
  if (axis_of(net, op) != 1) return net.refuse(op, "channels are not the second axis");
  if (net.number(op.operands[5]) != 0) return net.refuse(op, "it uses the batch's statistics");
  // What training would write stays as it is.
  for (const std::size_t statistic : {1, 2}) {
    if (net.is_needed(op.results[statistic]))
      net.add_alias(op.results[statistic], op.operands[2 + statistic]);
  }
  if (!net.is_needed(op.results[0])) return;
  std::vector<std::string> inputs;
  for (std::size_t index = 0; index < 5; ++index) inputs.push_back(net.value(op.operands[index]));
  net.last(op, "BatchNormalization", inputs, {{"epsilon", op.attributes.get_double("epsilon")}});
}

void add_gelu(Translation& net, const ir::Op& op) {
  const ir::DType dtype = net.type(op.operands[0]).dtype;
  const std::string x = net.value(op.operands[0]);
  const auto number = [&](double value) { return net.filled(value, dtype); };
  std::string inner;
  if (op.attributes.get_string("approximate") == "tanh") {
    // sqrt(2 / pi) (x + 0.044715 x^3)
    const std::string cube = net.node(op, "Mul", {net.node(op, "Pow", {x, number(3)}), number(0.044715)});
    const std::string sum = net.node(op, "Add", {x, cube});
    inner = net.node(op, "Tanh", {net.node(op, "Mul", {sum, number(0.7978845608028654)})});
  } else {
    inner = net.node(op, "Erf", {net.node(op, "Div", {x, number(1.4142135623730951)})});
  }
  const std::string twice = net.node(op, "Mul", {x, net.node(op, "Add", {inner, number(1)})});
  net.last(op, "Mul", {twice, number(0.5)});
}

void add_pool(Translation& net, const ir::Op& op, const char* type) {
  ir::Attributes attributes{{"kernel_shape", op.attributes.get_ints("kernel")},
                            {"strides", op.attributes.get_ints("strides")},
                            {"pads", both_sides(op.attributes.get_ints("padding"))}};
  if (op.code == Opcode::avg_pool) attributes.set("count_include_pad", std::int64_t{1});
  net.last(op, type, {net.value(op.operands[0])}, attributes);
}

void add_resize(Translation& net, const ir::Op& op) {
  net.last(op, "Resize", {net.value(op.operands[0]), "", "", net.ints(op.attributes.get_ints("size"))},
           {{"mode", std::string("linear")},
            {"coordinate_transformation_mode", std::string("half_pixel")},
            {"axes", ir::Ints{2, 3}}});
}

void add_join(Translation& net, const ir::Op& op) {
  const ir::Join join = ir::read_join(op);
  std::vector<ir::Value> terms;
  if (join.shortcut) terms.push_back(join.shortcut);
  if (join.branch_slot) terms.push_back(join.branch_slot);
  terms.insert(terms.end(), join.paths.begin(), join.paths.end());
  if (terms.empty()) return net.refuse(op, "a sum of no terms");
  if (terms.size() == 1) return net.add_alias(op.results[0], terms[0]);
  std::string sum = net.value(terms[0]);
  for (std::size_t index = 1; index + 1 < terms.size(); ++index) {
    sum = net.node(op, "Add", {sum, net.value(terms[index])});
  }
  net.last(op, "Add", {sum, net.value(terms.back())});
}

// --- shapes ------------------------------------------------------------------------------------------------

void add_transpose(Translation& net, const ir::Op& op) {
  ir::Ints order = op.attributes.get_ints("permutation");
  for (std::int64_t& axis : order) axis = ir::normal_axis(axis, net.type(op.operands[0]).rank());
  net.last(op, "Transpose", {net.value(op.operands[0])}, {{"perm", order}});
}

/// A reshape or a broadcast.
void add_shaped(Translation& net, const ir::Op& op, const char* type) {
  const ExportShape out = net.extents(op.results[0]);
  if (net.extents(op.operands[0]) == out) return net.add_alias(op.results[0], op.operands[0]);
  const std::string shape = net.shape(op, out, op.code == Opcode::reshape);
  net.last(op, type, {net.value(op.operands[0]), shape});
}

void add_slice(Translation& net, const ir::Op& op) {
  const ir::Ints &starts = op.attributes.get_ints("starts"), &limits = op.attributes.get_ints("limits");
  const ir::Ints& steps = op.attributes.get_ints("strides");
  const ir::Shape& whole = net.type(op.operands[0]).shape;
  const ir::Attributes& other = net.larger(op).attributes;
  ir::Ints from, to, axes, by;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    const std::int64_t step = steps.empty() ? 1 : steps[axis];
    const bool to_end = limits[axis] == whole[axis];
    if (starts[axis] != other.get_ints("starts")[axis] ||
        (!to_end && limits[axis] != other.get_ints("limits")[axis])) {
      return net.refuse(op, "cuts the batch");
    }
    if (starts[axis] == 0 && to_end && step == 1) continue;
    from.push_back(starts[axis]);
    to.push_back(to_end ? std::numeric_limits<std::int64_t>::max() : limits[axis]);
    axes.push_back(static_cast<std::int64_t>(axis));
    by.push_back(step);
  }
  if (axes.empty()) return net.add_alias(op.results[0], op.operands[0]);
  net.last(op, "Slice",
           {net.value(op.operands[0]), net.ints(from), net.ints(to), net.ints(axes), net.ints(by)});
}

void add_pad(Translation& net, const ir::Op& op) {
  ir::Ints pads = op.attributes.get_ints("low");
  const ir::Ints& high = op.attributes.get_ints("high");
  pads.insert(pads.end(), high.begin(), high.end());
  const std::string filling = net.filled(op.attributes.get_double("value"), net.type(op.results[0]).dtype);
  net.last(op, "Pad", {net.value(op.operands[0]), net.ints(pads), filling});
}

void add_constant(Translation& net, const ir::Op& op) {
  const auto& values = op.attributes.get<ir::Doubles>("values");
  const ir::TensorType& type = net.type(op.results[0]);
  if (!values.empty()) return net.last(op, "Identity", {net.constant(to_host(ir::Tensor(type, values)))});
  const std::string number = net.filled(op.attributes.get_double("value"), type.dtype);
  if (type.rank() == 0) return net.last(op, "Identity", {number});
  net.last(op, "Expand", {number, net.shape(op, net.extents(op.results[0]))});
}

void add_iota(Translation& net, const ir::Op& op) {
  const ExportShape shape = net.extents(op.results[0]);
  const ir::DType dtype = net.type(op.results[0]).dtype;
  const auto axis = static_cast<std::size_t>(axis_of(net, op));
  std::string count = net.node(op, "Squeeze", {net.shape(op, {shape[axis]})});
  if (dtype != ir::DType::i64) count = net.node(op, "Cast", {count}, {{"to", onnx_element_type(dtype)}});
  const std::string row = net.node(op, "Range", {net.filled(0, dtype), count, net.filled(1, dtype)});
  ir::Ints view(shape.size(), 1);
  view[axis] = -1;
  const std::string spread = net.node(op, "Reshape", {row, net.ints(view)});
  net.last(op, "Expand", {spread, net.shape(op, shape)});
}

void add_concat(Translation& net, const ir::Op& op) {
  std::vector<std::string> parts;
  for (const ir::Value operand : op.operands) parts.push_back(net.value(operand));
  net.last(op, "Concat", parts, {{"axis", op.attributes.get_int("axis")}});
}

/// Indices within the axis as i64, and in the shape of `like` where there is one list a sample.
std::string indices_of(Translation& net, const ir::Op& op, ir::Value indices, const ExportExtent& extent,
                       std::int64_t axis, ir::Value like) {
  std::string text = net.value(indices);
  if (net.type(indices).dtype != ir::DType::i64) {
    text = net.node(op, "Cast", {text}, {{"to", onnx_element_type(ir::DType::i64)}});
  }
  text = net.node(op, "Max", {text, net.ints({0})});
  text = net.node(op, "Min", {text, net.node(op, "Sub", {net.shape(op, {extent}), net.ints({1})})});
  if (net.type(indices).rank() == 1) return text;
  ir::Ints added;
  for (std::int64_t more = axis + 1; more < net.type(like).rank(); ++more) added.push_back(more);
  if (added.empty()) return text;
  text = net.node(op, "Unsqueeze", {text, net.ints(added)});
  return net.node(op, "Expand", {text, net.shape(op, net.extents(like))});
}

void add_gather(Translation& net, const ir::Op& op) {
  const std::int64_t axis = axis_of(net, op);
  const std::string source = net.value(op.operands[0]);
  const std::string indices =
      indices_of(net, op, op.operands[1], net.extents(op.operands[0])[static_cast<std::size_t>(axis)], axis,
                 op.results[0]);
  const bool is_list = net.type(op.operands[1]).rank() == 1;
  net.last(op, is_list ? "Gather" : "GatherElements", {source, indices}, {{"axis", axis}});
}

void add_scatter(Translation& net, const ir::Op& op) {
  const std::int64_t axis = axis_of(net, op);
  const ir::TensorType& updates = net.type(op.operands[2]);
  const std::string base = net.value(op.operands[0]);
  std::string indices =
      indices_of(net, op, op.operands[1], net.extents(op.operands[0])[static_cast<std::size_t>(axis)], axis,
                 op.operands[2]);
  if (net.type(op.operands[1]).rank() == 1 && updates.rank() > 1) {
    ir::Ints view(static_cast<std::size_t>(updates.rank()), 1);
    view[static_cast<std::size_t>(axis)] = -1;
    indices = net.node(op, "Reshape", {indices, net.ints(view)});
    indices = net.node(op, "Expand", {indices, net.shape(op, net.extents(op.operands[2]))});
  }
  net.last(op, "ScatterElements", {base, indices, net.value(op.operands[2])},
           {{"axis", axis}, {"reduction", std::string("add")}});
}

void add_sort(Translation& net, const ir::Op& op) {
  const ir::TensorType& x = net.type(op.operands[0]);
  const std::int64_t axis = axis_of(net, op);
  if (net.extents(op.operands[0])[static_cast<std::size_t>(axis)].coefficient != 0) {
    return net.refuse(op, "sorts the batch");
  }
  const auto both =
      net.pair(op, "TopK", {net.value(op.operands[0]), net.ints({x.shape[static_cast<std::size_t>(axis)]})},
               {{"axis", axis}, {"largest", std::int64_t{op.attributes.get_bool("descending") ? 1 : 0}}});
  net.result(op, 0, "Identity", both[0]);
  net.result(op, 1, "Cast", both[1], {{"to", onnx_element_type(ir::DType::i32)}});
}

void add_random(Translation& net, const ir::Op& op) {
  const std::string like = net.node(op, "ConstantOfShape", {net.shape(op, net.extents(op.results[0]))});
  net.last(op, op.code == Opcode::random_uniform ? "RandomUniformLike" : "RandomNormalLike", {like},
           {{"dtype", onnx_element_type(net.type(op.results[0]).dtype)}});
}

/// Returns whether ONNX's op takes other element types.
bool has_foreign_type(const Translation& net, const ir::Op& op) {
  const auto has = [&](ir::Value value, ir::DType dtype) { return net.type(value).dtype == dtype; };
  const auto is_any = [&](ir::DType dtype) {
    return std::ranges::any_of(op.operands, [&](ir::Value value) { return has(value, dtype); }) ||
           std::ranges::any_of(op.results, [&](ir::Value value) { return has(value, dtype); });
  };
  if (op.code != Opcode::cast && (is_any(ir::DType::bf16) || is_any(ir::DType::f16))) return true;
  switch (op.code) {
    case Opcode::neg:
    case Opcode::sum:
    case Opcode::iota:
      return is_any(ir::DType::u8);
    case Opcode::compare: {
      const std::string& direction = op.attributes.get_string("direction");
      return has(op.operands[0], ir::DType::i1) && direction != "eq" && direction != "ne";
    }
    default:
      return false;
  }
}

}  // namespace

bool is_onnx(Opcode code) {
  switch (code) {
    case Opcode::attention:
    case Opcode::circulant_matmul:
    case Opcode::cross_entropy:
    case Opcode::rms_norm:
    case Opcode::rope:
    case Opcode::unfold:
      return false;
    default:
      return true;
  }
}

void translate(OnnxTranslation& net, const ir::Op& op) {
  if (has_foreign_type(net, op)) return net.refuse(op, "ONNX has it not for this element type");
  if (const auto same = kPointwise.find(op.code); same != kPointwise.end()) {
    return add_pointwise(net, op, same->second);
  }
  switch (op.code) {
    case Opcode::rsqrt:
      return net.last(op, "Reciprocal", {net.node(op, "Sqrt", {net.value(op.operands[0])})});
    case Opcode::isfinite: {
      const std::string size = net.node(op, "Abs", {net.value(op.operands[0])});
      const double infinite = std::numeric_limits<double>::infinity();
      return net.last(op, "Less", {size, net.filled(infinite, net.type(op.operands[0]).dtype)});
    }
    case Opcode::cast:
      return net.last(op, "Cast", {net.value(op.operands[0])},
                      {{"to", onnx_element_type(net.type(op.results[0]).dtype)}});
    case Opcode::compare:
      return add_compare(net, op);
    case Opcode::select:
      return add_select(net, op);
    case Opcode::sum:
      return add_reduction(net, op, "ReduceSum");
    case Opcode::max:
      return add_reduction(net, op, "ReduceMax");
    case Opcode::argmax:
      return add_argmax(net, op);
    case Opcode::matmul:
      return add_matmul(net, op);
    case Opcode::conv2d:
    case Opcode::conv2d_input_grad:
      return add_convolution(net, op);
    case Opcode::reshape:
      return add_shaped(net, op, "Reshape");
    case Opcode::broadcast:
      return add_shaped(net, op, "Expand");
    case Opcode::transpose:
      return add_transpose(net, op);
    case Opcode::slice:
      return add_slice(net, op);
    case Opcode::pad:
      return add_pad(net, op);
    case Opcode::constant:
      return add_constant(net, op);
    case Opcode::iota:
      return add_iota(net, op);
    case Opcode::concat:
      return add_concat(net, op);
    case Opcode::gather:
      return add_gather(net, op);
    case Opcode::scatter_add:
      return add_scatter(net, op);
    case Opcode::sort:
      return add_sort(net, op);
    case Opcode::random_uniform:
    case Opcode::random_normal:
      return add_random(net, op);
    case Opcode::layer_norm:
      return add_layer_norm(net, op);
    case Opcode::batch_norm:
      return add_batch_norm(net, op);
    case Opcode::softmax:
      return net.last(op, "Softmax", {net.value(op.operands[0])}, {{"axis", op.attributes.get_int("axis")}});
    case Opcode::gelu:
      return add_gelu(net, op);
    case Opcode::silu: {
      const std::string x = net.value(op.operands[0]);
      return net.last(op, "Mul", {x, net.node(op, "Sigmoid", {x})});
    }
    case Opcode::max_pool:
      return add_pool(net, op, "MaxPool");
    case Opcode::avg_pool:
      return add_pool(net, op, "AveragePool");
    case Opcode::resize:
      return add_resize(net, op);
    case Opcode::residual:
      return add_join(net, op);
    case Opcode::dropout:
    case Opcode::drop_path:
      if (net.number(op.operands[3]) != 0) return net.refuse(op, "it drops in evaluation");
      [[fallthrough]];
    case Opcode::stop_gradient:
    case Opcode::all_reduce:
      return net.add_alias(op.results[0], op.operands[0]);
    default:
      return net.refuse(op, "not known to this format");
  }
}

}  // namespace rewire::runtime
