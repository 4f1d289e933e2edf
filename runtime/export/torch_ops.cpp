// The steps of single ops. An op that PyTorch has as a layer or a method becomes that; its neighbours, which are
// parts of it, then have no use left and get no step.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/attention.h"
#include "ir/residual.h"
#include "runtime/export/torch_ops.h"

namespace rewire::runtime {
namespace {

using ir::Opcode;
using Translation = TorchTranslation;

std::string parent_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string leaf_of(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

/// "2" or "(2, 3)" for a window's sides.
std::string sides(TorchWriter& writer, const ir::Ints& values, const char* hint) {
  const bool square = std::ranges::all_of(values, [&](std::int64_t value) { return value == values[0]; });
  if (square) return writer.literal(values[0], hint);
  return writer.literal("(" + joined(values) + ")", hint);
}

/// Returns the path P if the value reads P.weight (or P.<leaf>).
std::string layer_of(const Translation& net, ir::Value value, std::string_view leaf = "weight") {
  const std::string name = net.parameter(value);
  return leaf_of(name) == leaf ? parent_of(name) : "";
}

// --- pointwise -----------------------------------------------------------------------------------------------

std::string written(TorchWriter& writer, const Translation::Operand& operand, int binding) {
  if (!operand.number) return writer.operand(operand.value, binding);
  const std::string text = writer.literal(python_number(*operand.number), "value");
  return *operand.number < 0 && binding > kUnary ? "(" + text + ")" : text;
}

struct Infix {
  const char* sign;
  int binding, left, right;
};

void add_infix(Translation& net, const ir::Op& op, const Infix& how) {
  TorchWriter writer(op);
  const auto operands = net.pointwise_operands(op);
  const std::string left = written(writer, operands[0], how.left);
  const std::string right = written(writer, operands[1], how.right);
  writer.step.code.text = fmt::format("{} {} {}", left, how.sign, right);
  net.add(op, std::move(writer), how.binding);
}

/// A function of PyTorch: open is "F.gelu(", close ")".
void add_function(Translation& net, const ir::Op& op, std::string_view open, std::string_view close = ")") {
  TorchWriter writer(op);
  std::vector<std::string> operands;
  for (const auto& operand : net.pointwise_operands(op)) {
    // What is no operator wants tensors.
    operands.push_back(writer.operand(operand.number ? op.operands[operands.size()] : operand.value));
  }
  writer.step.code.text = fmt::format("{}{}{}", open, fmt::join(operands, ", "), close);
  net.add(op, std::move(writer), kPrimary);
}

/// sum / n over n elements.
bool add_mean(Translation& net, const ir::Op& op) {
  if (op.code != Opcode::div) return false;
  const auto count = net.number(op.operands[1]);
  if (!count) return false;
  const ir::Op* dropped = net.definition(op.operands[0], Opcode::reshape);
  const ir::Op* sum = net.definition(dropped != nullptr ? dropped->operands[0] : op.operands[0], Opcode::sum);
  if (sum == nullptr || net.uses(op.operands[0]) != 1 ||
      (dropped != nullptr && net.uses(sum->results[0]) != 1)) {
    return false;
  }
  const ir::Ints& axes = sum->attributes.get_ints("axes");
  double elements = 1;
  const ExportShape in = net.extents(sum->operands[0]);
  ExportShape without;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (!has_axis(axes, axis, in.size())) {
      without.push_back(in[axis]);
      continue;
    }
    if (in[axis].coefficient != 0) return false;
    elements *= static_cast<double>(in[axis].constant);
  }
  if (elements != *count) return false;
  if (dropped != nullptr && net.extents(dropped->results[0]) != without) return false;
  TorchWriter writer(op);
  const std::string x = writer.operand(sum->operands[0], kPrimary);
  writer.step.code.text =
      fmt::format("{}.mean({}{})", x, axes_text(axes), dropped == nullptr ? ", keepdim=True" : "");
  net.add(op, std::move(writer), kPrimary, {"mean"});
  return true;
}

// --- contractions, with their bias -----------------------------------------------------------------------------

TorchCode linear(std::int64_t in, std::int64_t out, bool bias) {
  TorchCode code;
  code.literals = {{std::to_string(in), "in_features"}, {std::to_string(out), "out_features"}};
  code.text =
      fmt::format("nn.Linear({}, {}{})", literal_mark(0), literal_mark(1), bias ? "" : ", bias=False");
  return code;
}

/// Names the weights of a layer, or returns "" if weight and bias have different owners. Without a bias in the
/// op the layer must have none.
std::string layer_with(const Translation& net, ir::Value weight, ir::Value bias) {
  const std::string path = layer_of(net, weight);
  if (path.empty()) return "";
  if (!bias) return net.has_parameter(path + ".bias") ? "" : path;
  return layer_of(net, net.peeled(bias), "bias") == path ? path : "";
}

std::vector<std::string> weights_of(const std::string& path, ir::Value bias) {
  std::vector<std::string> weights{path + ".weight"};
  if (bias) weights.push_back(path + ".bias");
  return weights;
}

/// A convolution whose windows do not overlap, as the models write it: patches times a matrix. The patches are of
/// maps [B, C, H, W], or of tokens [B, H W, C] that are such maps.
bool add_patches(Translation& net, const ir::Op& op, const ir::Op& product, ir::Value bias) {
  const ir::Op* matrix = net.definition(product.operands[1], Opcode::reshape);
  const ir::Op* rows = net.definition(product.operands[0], Opcode::reshape);
  const ir::Op* moved = rows == nullptr ? nullptr : net.definition(rows->operands[0], Opcode::transpose);
  const ir::Op* cut = moved == nullptr ? nullptr : net.definition(moved->operands[0], Opcode::reshape);
  if (matrix == nullptr || cut == nullptr) return false;
  const ir::Op* turned = net.definition(matrix->operands[0], Opcode::transpose);
  const bool of_tokens =
      turned != nullptr && turned->attributes.get_ints("permutation") == ir::Ints{0, 2, 3, 1};
  const ir::Ints order = of_tokens ? ir::Ints{0, 1, 3, 2, 4, 5} : ir::Ints{0, 2, 4, 1, 3, 5};
  const ir::Value kernel = of_tokens ? turned->operands[0] : matrix->operands[0];
  const std::string path = layer_with(net, kernel, bias);
  if (path.empty() || moved->attributes.get_ints("permutation") != order) return false;
  const ir::Shape &weight = net.type(kernel).shape, &maps = net.type(cut->operands[0]).shape;
  const ir::Shape &pieces = net.type(cut->results[0]).shape, &tokens = net.type(rows->results[0]).shape;
  if (weight.size() != 4 || pieces.size() != 6 || tokens.size() != 3) return false;
  const std::int64_t across = of_tokens ? 3 : 4, down = of_tokens ? 1 : 2;
  const std::int64_t h = pieces[static_cast<std::size_t>(down)], w = pieces[static_cast<std::size_t>(across)];
  const ir::Shape wanted = of_tokens ? ir::Shape{maps[0], h, weight[2], w, weight[3], weight[1]}
                                     : ir::Shape{maps[0], weight[1], h, weight[2], w, weight[3]};
  const ir::Shape source = of_tokens ? ir::Shape{maps[0], h * weight[2] * w * weight[3], weight[1]}
                                     : ir::Shape{maps[0], weight[1], h * weight[2], w * weight[3]};
  if (pieces != wanted || maps != source || tokens[1] != h * w) return false;
  TorchCode code;
  const std::string sides_text =
      weight[2] == weight[3] ? std::to_string(weight[2]) : fmt::format("({}, {})", weight[2], weight[3]);
  code.literals = {{std::to_string(weight[1]), "in_channels"},
                   {std::to_string(weight[0]), "out_channels"},
                   {sides_text, "patch"}};
  code.text = fmt::format("nn.Conv2d({}, {}, {}, stride={}{})", literal_mark(0), literal_mark(1),
                          literal_mark(2), literal_mark(2), bias ? "" : ", bias=False");
  const std::string before =
      of_tokens ? fmt::format(".transpose(1, 2).unflatten(2, ({}, {}))", h * weight[2], w * weight[3]) : "";
  return net.add_layer(op, path, weights_of(path, bias), code, cut->operands[0],
                       ".flatten(2).transpose(1, 2)", before);
}

bool add_product_layer(Translation& net, const ir::Op& op, const ir::Op& product, ir::Value bias) {
  if (product.attributes.get_bool("transpose_a") || !product.attributes.get_bool("transpose_b")) return false;
  if (add_patches(net, op, product, bias)) return true;
  const std::string path = layer_with(net, product.operands[1], bias);
  const ir::Shape& weight = net.type(product.operands[1]).shape;
  if (path.empty() || weight.size() != 2) return false;
  if (bias && net.type(net.peeled(bias)).shape != ir::Shape{weight[0]}) return false;
  return net.add_layer(op, path, weights_of(path, bias),
                       linear(weight[1], weight[0], static_cast<bool>(bias)), product.operands[0]);
}

bool add_convolution_layer(Translation& net, const ir::Op& op, const ir::Op& convolution, ir::Value bias) {
  if (convolution.attributes.get_string("layout") != "nchw") return false;
  const std::string path = layer_with(net, convolution.operands[1], bias);
  if (path.empty()) return false;
  const ir::Shape& weight = net.type(convolution.operands[1]).shape;
  const auto pair = [](const ir::Ints& values) {
    return values[0] == values[1] ? std::to_string(values[0]) : "(" + joined(values) + ")";
  };
  const std::int64_t groups = convolution.attributes.get_int("groups");
  TorchCode code;
  const auto literal = [&](const std::string& text, const char* hint) {
    code.literals.push_back({text, hint});
    return literal_mark(code.literals.size() - 1);
  };
  code.text = fmt::format("nn.Conv2d({}, ", literal(std::to_string(weight[1] * groups), "in_channels"));
  code.text += literal(std::to_string(weight[0]), "out_channels") + ", ";
  code.text += literal(pair({weight[2], weight[3]}), "kernel_size");
  if (const std::string stride = pair(convolution.attributes.get_ints("strides")); stride != "1") {
    code.text += ", stride=" + literal(stride, "stride");
  }
  if (const std::string padding = pair(convolution.attributes.get_ints("padding")); padding != "0") {
    code.text += ", padding=" + literal(padding, "padding");
  }
  if (groups != 1) code.text += ", groups=" + literal(std::to_string(groups), "groups");
  code.text += bias ? ")" : ", bias=False)";
  return net.add_layer(op, path, weights_of(path, bias), code, convolution.operands[0]);
}

/// x W^T + b as one layer, if `op` is the sum.
bool add_with_bias(Translation& net, const ir::Op& op) {
  for (const std::size_t side : {0, 1}) {
    const ir::Op* product = net.definition(op.operands[side]);
    const ir::Value bias = op.operands[1 - side];
    if (product == nullptr || net.uses(op.operands[side]) != 1) continue;
    if (product->code == Opcode::matmul && add_product_layer(net, op, *product, bias)) return true;
    if (product->code != Opcode::conv2d) continue;
    const ir::Op* widened = net.definition(bias, Opcode::broadcast);
    if (widened == nullptr) continue;
    ir::Value vector = widened->operands[0];
    if (net.type(vector).shape != ir::Shape{1, net.type(op.results[0]).shape[1], 1, 1}) continue;
    while (const ir::Op* raised = net.definition(vector, Opcode::reshape)) vector = raised->operands[0];
    if (add_convolution_layer(net, op, *product, vector)) return true;
  }
  return false;
}

void add_matmul(Translation& net, const ir::Op& op) {
  if (add_product_layer(net, op, op, {})) return;
  const bool right = op.attributes.get_bool("transpose_b"), left = op.attributes.get_bool("transpose_a");
  TorchWriter writer(op);
  if (right && !left && net.type(op.operands[1]).rank() == 2) {
    const std::string x = writer.operand(op.operands[0]);
    writer.step.code.text = fmt::format("F.linear({}, {})", x, writer.operand(op.operands[1]));
    return net.add(op, std::move(writer), kPrimary);
  }
  const auto side = [&](std::size_t index, bool transposed, int binding) {
    return writer.operand(op.operands[index], transposed ? kPrimary : binding) +
           (transposed ? ".transpose(-2, -1)" : "");
  };
  const std::string a = side(0, left, kProduct);
  writer.step.code.text = fmt::format("{} @ {}", a, side(1, right, kUnary));
  net.add(op, std::move(writer), kProduct);
}

void add_convolution(Translation& net, const ir::Op& op) {
  if (add_convolution_layer(net, op, op, {})) return;
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0]), weight = writer.operand(op.operands[1]);
  std::string more = ", stride=" + sides(writer, op.attributes.get_ints("strides"), "stride");
  more += ", padding=" + sides(writer, op.attributes.get_ints("padding"), "padding");
  if (op.attributes.get_int("groups") != 1)
    more += ", groups=" + writer.literal(op.attributes.get_int("groups"), "groups");
  writer.step.code.text = fmt::format("F.conv2d({}, {}{})", x, weight, more);
  net.add(op, std::move(writer), kPrimary);
}

// --- norms -----------------------------------------------------------------------------------------------------

void add_rms_norm(Translation& net, const ir::Op& op) {
  const std::int64_t width = net.type(op.operands[0]).shape.back();
  const std::string epsilon = python_float(op.attributes.get_double("epsilon"));
  const std::string path = op.operands.size() > 1 ? layer_of(net, op.operands[1]) : "";
  if (!path.empty()) {
    TorchCode code;
    code.literals = {{std::to_string(width), "dim"}, {epsilon, "eps"}};
    code.text = fmt::format("nn.RMSNorm({}, eps={})", literal_mark(0), literal_mark(1));
    if (net.add_layer(op, path, {path + ".weight"}, code, op.operands[0])) return;
  }
  TorchWriter writer(op);
  std::string arguments = writer.operand(op.operands[0]);
  arguments += fmt::format(", ({},)", writer.literal(width, "dim"));
  if (op.operands.size() > 1) arguments += ", " + writer.operand(op.operands[1]);
  writer.step.code.text = fmt::format("F.rms_norm({}, eps={})", arguments, writer.literal(epsilon, "eps"));
  net.add(op, std::move(writer), kPrimary, {"norm"});
}

void add_layer_norm(Translation& net, const ir::Op& op) {
  const std::int64_t width = net.type(op.operands[0]).shape.back();
  const std::string epsilon = python_float(op.attributes.get_double("epsilon"));
  const std::string path = op.operands.size() > 1 ? layer_of(net, op.operands[1]) : "";
  const bool bias = op.operands.size() > 2;
  if (!path.empty() &&
      (bias ? layer_of(net, op.operands[2], "bias") == path : !net.has_parameter(path + ".bias"))) {
    TorchCode code;
    code.literals = {{std::to_string(width), "dim"}, {epsilon, "eps"}};
    code.text = fmt::format("nn.LayerNorm({}, eps={}{})", literal_mark(0), literal_mark(1),
                            bias ? "" : ", bias=False");
    std::vector<std::string> weights{path + ".weight"};
    if (bias) weights.push_back(path + ".bias");
    if (net.add_layer(op, path, weights, code, op.operands[0])) return;
  }
  TorchWriter writer(op);
  std::string arguments = writer.operand(op.operands[0]);
  arguments += fmt::format(", ({},)", writer.literal(width, "dim"));
  for (std::size_t index = 1; index < op.operands.size(); ++index)
    arguments += ", " + writer.operand(op.operands[index]);
  writer.step.code.text = fmt::format("F.layer_norm({}, eps={})", arguments, writer.literal(epsilon, "eps"));
  net.add(op, std::move(writer), kPrimary, {"norm"});
}

bool updates(const Translation& net, const ir::Op& op) {
  return net.uses(op.results[1]) > 0 || net.uses(op.results[2]) > 0;
}

void add_batch_norm(Translation& net, const ir::Op& op) {
  const std::string path = layer_of(net, op.operands[1]);
  const int rank = net.type(op.operands[0]).rank();
  const bool owns = !path.empty() && layer_of(net, op.operands[2], "bias") == path &&
                    layer_of(net, op.operands[3], "running_mean") == path &&
                    layer_of(net, op.operands[4], "running_var") == path;
  if (!owns || op.attributes.get_int("axis") != 1 || rank < 2 || rank > 4 || !updates(net, op)) {
    return net.refuse(op, "a batch norm that is no layer of PyTorch");
  }
  TorchCode code;
  code.literals = {{std::to_string(net.type(op.operands[1]).shape[0]), "dim"},
                   {python_float(op.attributes.get_double("epsilon")), "eps"},
                   {python_float(op.attributes.get_double("momentum")), "momentum"}};
  code.text = fmt::format("nn.BatchNorm{}d({}, eps={}, momentum={})", rank == 4 ? 2 : 1, literal_mark(0),
                          literal_mark(1), literal_mark(2));
  const std::vector<std::string> weights{path + ".weight", path + ".bias", path + ".running_mean",
                                         path + ".running_var"};
  if (!net.add_layer(op, path, weights, code, op.operands[0]))
    net.refuse(op, "other weights beside a batch norm's");
}

// --- windows ---------------------------------------------------------------------------------------------------

void add_window(Translation& net, const ir::Op& op, const char* function, const char* more = "") {
  TorchWriter writer(op);
  std::string text = fmt::format("{}({}, ", function, writer.operand(op.operands[0]));
  text += sides(writer, op.attributes.get_ints("kernel"), "kernel_size");
  text += ", stride=" + sides(writer, op.attributes.get_ints("strides"), "stride");
  const ir::Ints& padding = op.attributes.get_ints("padding");
  if (std::ranges::any_of(padding, [](std::int64_t side) { return side != 0; })) {
    text += ", padding=" + sides(writer, padding, "padding");
  }
  writer.step.code.text = text + more + ")";
  net.add(op, std::move(writer), kPrimary);
}

void add_resize(Translation& net, const ir::Op& op) {
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0]);
  const std::string size = writer.literal("(" + joined(op.attributes.get_ints("size")) + ")", "size");
  writer.step.code.text =
      fmt::format("F.interpolate({}, size={}, mode=\"bilinear\", align_corners=False)", x, size);
  net.add(op, std::move(writer), kPrimary);
}

// --- random ----------------------------------------------------------------------------------------------------

void add_dropout(Translation& net, const ir::Op& op) {
  const std::string rate = python_float(op.attributes.get_double("probability"));
  const bool path = op.code == Opcode::drop_path;
  if (path) net.helper("drop_path");
  TorchWriter writer(op);
  writer.step.is_random = true;
  const std::string x = writer.operand(op.operands[0]);
  writer.step.code.text = fmt::format("{}({}, {}, self.training)", path ? "drop_path" : "F.dropout", x,
                                      writer.literal(rate, path ? "drop_path" : "drop"));
  net.add(op, std::move(writer), kPrimary, {path ? "dropped" : "y"});
}

void add_random(Translation& net, const ir::Op& op) {
  TorchWriter writer(op);
  writer.step.is_random = true;
  const std::string shape = net.sizes(writer, net.extents(op.results[0]), false);
  const char* function = op.code == Opcode::random_uniform ? "torch.rand" : "torch.randn";
  writer.step.code.text =
      fmt::format("{}(({}{}), {})", function, shape, net.type(op.results[0]).rank() == 1 ? "," : "",
                  dtype_of_new(net.type(op.results[0]).dtype));
  net.add(op, std::move(writer), kPrimary, {"draw"});
}

// --- others ----------------------------------------------------------------------------------------------------

void add_attention(Translation& net, const ir::Op& op) {
  TorchWriter writer(op);
  writer.step.results = {op.results[0]};
  const std::string q = writer.operand(op.operands[0]), k = writer.operand(op.operands[1]),
                    v = writer.operand(op.operands[2]);
  const std::string scale = writer.literal(python_float(op.attributes.get_double("scale")), "scale");
  if (net.uses(op.results[1]) > 0) return net.refuse(op, "its log-sum-exp is used");
  for (const std::size_t side : {0, 1, 2}) net.suggest(op.operands[side], std::string(1, "qkv"[side]));
  std::string more;
  const ir::AttentionForm form = ir::attention_form(op);
  if (form.bias >= 0)
    more += ", attn_mask=" + writer.operand(op.operands[static_cast<std::size_t>(form.bias)]);
  if (form.causal) more += ", is_causal=True";
  if (net.type(op.operands[0]).shape[1] != net.type(op.operands[1]).shape[1]) more += ", enable_gqa=True";
  writer.step.code.text =
      fmt::format("F.scaled_dot_product_attention({}, {}, {}, scale={}{})", q, k, v, scale, more);
  net.add(op, std::move(writer), kPrimary, {"y"});
}

void add_circulant(Translation& net, const ir::Op& op) {
  net.helper("circulant");
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0]);
  std::string text = fmt::format("circulant({}, {}", x, writer.operand(op.operands[1]));
  if (op.attributes.get_bool("correlation")) text += ", correlation=True";
  if (op.attributes.get_bool("transpose")) text += ", transpose=True";
  writer.step.code.text = text + ")";
  net.add(op, std::move(writer), kPrimary);
}

void add_spectrum(Translation& net, const ir::Op& op) {
  const bool forward = op.code == Opcode::rfft;
  net.helper(forward ? "rfft" : "irfft");
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0]);
  const std::string length = forward ? "" : ", " + writer.literal(op.attributes.get_int("length"), "length");
  writer.step.code.text = fmt::format("{}({}{})", forward ? "rfft" : "irfft", x, length);
  net.add(op, std::move(writer), kPrimary);
}

void add_join(Translation& net, const ir::Op& op) {
  const ir::Join join = ir::read_join(op);
  std::vector<ir::Value> terms;
  if (join.shortcut) terms.push_back(join.shortcut);
  if (join.branch_slot) terms.push_back(join.branch_slot);
  terms.insert(terms.end(), join.paths.begin(), join.paths.end());
  if (terms.empty()) return net.refuse(op, "a sum of no terms");
  if (terms.size() == 1) return net.add_alias(op.results[0], terms[0]);
  TorchWriter writer(op);
  std::vector<std::string> parts;
  for (const ir::Value term : terms)
    parts.push_back(writer.operand(term, parts.empty() ? kAddition : kProduct));
  writer.step.code.text = fmt::format("{}", fmt::join(parts, " + "));
  writer.step.place = Translation::block_of(op);
  net.add(op, std::move(writer), kAddition, {"x"});
}

void add_parameter(Translation& net, const ir::Op& op) {
  const std::string& path = op.attributes.get_string("name");
  if (path == "rng.seed" || path == "train.step") return net.refuse(op, "reads the run's " + path);
  TorchWriter writer(op);
  writer.step.code.text = writer.name(path);
  writer.step.is_free = true;
  net.add(op, std::move(writer), kPrimary, {leaf_of(path)});
}

void add_update(Translation& net, const ir::Op& op) {
  const ir::Op* norm = net.definition(op.operands[0], Opcode::batch_norm);
  if (norm != nullptr) return;  // the layer does it
  net.refuse(op, "writes " + op.attributes.get_string("name") + " in forward");
}

void add_select_by(Translation& net, const ir::Op& op) {
  const ir::Value condition = net.peeled(op.operands[0]);
  TorchWriter writer(op);
  if (net.definition(condition, Opcode::is_training) != nullptr) {
    const std::string yes = writer.operand(op.operands[1], kComparison), no = writer.operand(op.operands[2]);
    writer.step.code.text = fmt::format("{} if self.training else {}", yes, no);
    return net.add(op, std::move(writer), kConditional);
  }
  const auto operands = net.pointwise_operands(op);
  std::vector<std::string> parts;
  for (std::size_t index = 0; index < 3; ++index) {
    const bool number = operands[index].number && index > 0;
    parts.push_back(
        number ? writer.literal(python_float(*operands[index].number), "value")
               : writer.operand(operands[index].number ? op.operands[index] : operands[index].value));
  }
  writer.step.code.text = fmt::format("torch.where({})", fmt::join(parts, ", "));
  net.add(op, std::move(writer), kPrimary);
}

void add_cast(Translation& net, const ir::Op& op) {
  const ir::DType to = net.type(op.results[0]).dtype;
  if (to == ir::DType::f32) return add_method(net, op, fmt::format(".to({}.dtype)", kReferenceMark));
  add_method(net, op, fmt::format(".to({})", torch_dtype(to)));
}

void add_compare(Translation& net, const ir::Op& op) {
  static const std::map<std::string, const char*> kSigns{{"lt", "<"},  {"le", "<="}, {"gt", ">"},
                                                         {"ge", ">="}, {"eq", "=="}, {"ne", "!="}};
  add_infix(net, op, {kSigns.at(op.attributes.get_string("direction")), kComparison, kAddition, kAddition});
}

}  // namespace

void translate(TorchTranslation& net, const ir::Op& op) {
  switch (op.code) {
    case Opcode::param:
      return add_parameter(net, op);
    case Opcode::update:
      return add_update(net, op);
    case Opcode::neg: {
      TorchWriter writer(op);
      writer.step.code.text = "-" + writer.operand(op.operands[0], kUnary);
      return net.add(op, std::move(writer), kUnary);
    }
    case Opcode::abs:
      return add_method(net, op, ".abs()");
    case Opcode::exp:
      return add_method(net, op, ".exp()");
    case Opcode::log:
      return add_method(net, op, ".log()");
    case Opcode::sqrt:
      return add_method(net, op, ".sqrt()");
    case Opcode::rsqrt:
      return add_method(net, op, ".rsqrt()");
    case Opcode::sin:
      return add_method(net, op, ".sin()");
    case Opcode::cos:
      return add_method(net, op, ".cos()");
    case Opcode::tanh:
      return add_method(net, op, ".tanh()");
    case Opcode::erf:
      return add_method(net, op, ".erf()");
    case Opcode::sigmoid:
      return add_method(net, op, ".sigmoid()");
    case Opcode::floor:
      return add_method(net, op, ".floor()");
    case Opcode::isfinite:
      return add_method(net, op, ".isfinite()");
    case Opcode::logical_not:
      return add_method(net, op, ".logical_not()");
    case Opcode::cast:
      return add_cast(net, op);
    case Opcode::stop_gradient:
      return add_method(net, op, ".detach()");
    case Opcode::add:
      if (add_with_bias(net, op)) return;
      return add_infix(net, op, {"+", kAddition, kAddition, kProduct});
    case Opcode::sub:
      return add_infix(net, op, {"-", kAddition, kAddition, kProduct});
    case Opcode::mul:
      return add_infix(net, op, {"*", kProduct, kProduct, kUnary});
    case Opcode::div:
      if (add_mean(net, op)) return;
      return add_infix(net, op, {"/", kProduct, kProduct, kUnary});
    case Opcode::pow:
      return add_infix(net, op, {"**", kPower, kPrimary, kUnary});
    case Opcode::maximum:
      return add_function(net, op, "torch.maximum(");
    case Opcode::minimum:
      return add_function(net, op, "torch.minimum(");
    case Opcode::compare:
      return add_compare(net, op);
    case Opcode::logical_and:
      return add_function(net, op, "torch.logical_and(");
    case Opcode::logical_or:
      return add_function(net, op, "torch.logical_or(");
    case Opcode::select:
      return add_select_by(net, op);
    case Opcode::sum:
    case Opcode::max:
      return add_reduction(net, op);
    case Opcode::argmax:
      return add_method(net, op, fmt::format(".argmax({0}, keepdim=True)", op.attributes.get_int("axis")));
    case Opcode::matmul:
      return add_matmul(net, op);
    case Opcode::conv2d:
      return add_convolution(net, op);
    case Opcode::reshape:
      return add_reshape(net, op);
    case Opcode::transpose:
      return add_transpose(net, op);
    case Opcode::broadcast:
      return add_expand(net, op);
    case Opcode::slice:
      return add_slice(net, op);
    case Opcode::pad:
      return add_pad(net, op);
    case Opcode::concat:
      return add_concat(net, op);
    case Opcode::gather:
      return add_gather(net, op);
    case Opcode::scatter_add:
      return add_scatter(net, op);
    case Opcode::sort:
      return add_sort(net, op);
    case Opcode::iota:
      return add_iota(net, op);
    case Opcode::constant:
      return add_constant(net, op);
    case Opcode::rfft:
    case Opcode::irfft:
      return add_spectrum(net, op);
    case Opcode::random_uniform:
    case Opcode::random_normal:
      return add_random(net, op);
    case Opcode::layer_norm:
      return add_layer_norm(net, op);
    case Opcode::rms_norm:
      return add_rms_norm(net, op);
    case Opcode::batch_norm:
      return add_batch_norm(net, op);
    case Opcode::softmax:
      return add_method(net, op, fmt::format(".softmax({})", op.attributes.get_int("axis")));
    case Opcode::gelu: {
      const bool tanh = op.attributes.get_string("approximate") == "tanh";
      return add_function(net, op, "F.gelu(", tanh ? ", approximate=\"tanh\")" : ")");
    }
    case Opcode::silu:
      return add_function(net, op, "F.silu(");
    case Opcode::relu:
      return add_function(net, op, "F.relu(");
    case Opcode::attention:
      return add_attention(net, op);
    case Opcode::dropout:
    case Opcode::drop_path:
      return add_dropout(net, op);
    case Opcode::circulant_matmul:
      return add_circulant(net, op);
    case Opcode::max_pool:
      return add_window(net, op, "F.max_pool2d");
    case Opcode::avg_pool:
      return add_window(net, op, "F.avg_pool2d");
    case Opcode::unfold:
      return add_window(net, op, "F.unfold");
    case Opcode::resize:
      return add_resize(net, op);
    case Opcode::residual:
      return add_join(net, op);
    case Opcode::is_training: {
      TorchWriter writer(op);
      writer.step.code.text = "self.training";
      writer.step.is_free = true;
      return net.add(op, std::move(writer), kPrimary);
    }
    case Opcode::all_reduce:
      return net.add_alias(op.results[0], op.operands[0]);
    default:
      return net.refuse(op, "not known to this format");
  }
}

}  // namespace rewire::runtime
