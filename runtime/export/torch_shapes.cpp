// The steps of ops that move, cut and reduce elements, or make new tensors.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "runtime/export/torch_ops.h"

namespace rewire::runtime {
namespace {

std::string index_text(const std::vector<std::string>& parts) {
  std::size_t used = parts.size();
  while (used > 1 && parts[used - 1] == ":") --used;
  return fmt::format("{}", fmt::join(std::span(parts).first(used), ", "));
}

/// If `op` drops the axis that a slice has cut to one index, as x[:, i].
bool add_select(TorchTranslation& net, const ir::Op& op) {
  const ir::Op* slice = net.definition(op.operands[0], ir::Opcode::slice);
  if (slice == nullptr) return false;
  const ExportShape in = net.extents(slice->operands[0]), cut = net.extents(slice->results[0]),
                    out = net.extents(op.results[0]);
  std::optional<std::size_t> at;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (in[axis] == cut[axis]) continue;
    if (at || cut[axis] != ExportExtent{0, 1}) return false;
    at = axis;
  }
  if (!at) return false;
  ExportShape without = in;
  without.erase(without.begin() + static_cast<std::ptrdiff_t>(*at));
  if (out != without) return false;
  std::vector<std::string> parts(*at, ":");
  const std::int64_t index = slice->attributes.get_ints("starts")[*at];
  parts.push_back(std::to_string(index));
  TorchWriter writer(op);
  writer.step.cut = TorchCut{slice->operands[0], *at, index, index + 1, true};
  writer.step.code.text =
      fmt::format("{}[{}]", writer.operand(slice->operands[0], kPrimary), fmt::join(parts, ", "));
  net.add(op, std::move(writer), kPrimary);
  return true;
}

/// A reduction whose axes are dropped.
bool add_dropped_reduction(TorchTranslation& net, const ir::Op& op) {
  const ir::Op* reduction = net.definition(op.operands[0]);
  if (reduction == nullptr || net.uses(op.operands[0]) != 1) return false;
  const bool is_sum = reduction->code == ir::Opcode::sum;
  if (!is_sum && reduction->code != ir::Opcode::max) return false;
  const ir::Ints& axes = reduction->attributes.get_ints("axes");
  const ExportShape in = net.extents(reduction->operands[0]);
  ExportShape without;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (!has_axis(axes, axis, in.size())) without.push_back(in[axis]);
  }
  if (net.extents(op.results[0]) != without) return false;
  TorchWriter writer(op);
  const std::string x = writer.operand(reduction->operands[0], kPrimary);
  writer.step.code.text = fmt::format("{}.{}({})", x, is_sum ? "sum" : "amax", axes_text(axes));
  net.add(op, std::move(writer), kPrimary, {is_sum ? "sum" : "top"});
  return true;
}

std::int64_t ones_dropped(const ExportShape& in, const ExportShape& out, ir::Ints& axes) {
  std::size_t to = 0;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (to < out.size() && in[axis] == out[to]) {
      ++to;
    } else if (in[axis] == ExportExtent{0, 1}) {
      axes.push_back(static_cast<std::int64_t>(axis));
    } else {
      return -1;
    }
  }
  return to == out.size() ? static_cast<std::int64_t>(axes.size()) : -1;
}

/// Indices that broadcast against x in all axes but `axis`.
std::string spread_indices(const TorchTranslation& net, TorchWriter& writer, ir::Value indices, ir::Value x,
                           std::int64_t axis) {
  std::string text = writer.operand(indices, kPrimary);
  if (net.type(indices).dtype != ir::DType::i64) text += ".long()";
  const int trailing = net.type(x).rank() - static_cast<int>(axis) - 1;
  for (int more = 0; more < trailing; ++more) text += ".unsqueeze(-1)";
  return text;
}

}  // namespace

std::string joined(const ir::Ints& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

std::string axes_text(const ir::Ints& axes) {
  return axes.size() == 1 ? std::to_string(axes[0]) : "(" + joined(axes) + ")";
}

void add_method(TorchTranslation& net, const ir::Op& op, const std::string& call, std::string hint) {
  TorchWriter writer(op);
  writer.step.results = {op.results[0]};
  writer.step.code.text = writer.operand(op.operands[0], kPrimary) + call;
  net.add(op, std::move(writer), kPrimary, {std::move(hint)});
}

bool has_axis(const ir::Ints& axes, std::size_t axis, std::size_t rank) {
  const auto wanted = static_cast<std::int64_t>(axis), all = static_cast<std::int64_t>(rank);
  return std::ranges::any_of(axes, [&](std::int64_t at) { return (at + all) % all == wanted; });
}

std::string torch_dtype(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f64:
      return "torch.float64";
    case ir::DType::bf16:
      return "torch.bfloat16";
    case ir::DType::f16:
      return "torch.float16";
    case ir::DType::i64:
      return "torch.int64";
    case ir::DType::i32:
      return "torch.int32";
    case ir::DType::u8:
      return "torch.uint8";
    case ir::DType::i1:
      return "torch.bool";
    default:
      return "torch.float32";
  }
}

std::string dtype_of_new(ir::DType dtype) {
  const std::string type = dtype == ir::DType::f32 ? kReferenceMark + ".dtype" : torch_dtype(dtype);
  return fmt::format("dtype={}, device={}.device", type, kReferenceMark);
}

void add_reshape(TorchTranslation& net, const ir::Op& op) {
  if (add_select(net, op) || add_dropped_reduction(net, op)) return;
  const ExportShape in = net.extents(op.operands[0]), out = net.extents(op.results[0]);
  if (in == out) return net.add_alias(op.results[0], op.operands[0]);
  if (ir::Ints axes; ones_dropped(in, out, axes) > 0) {
    return add_method(net, op, fmt::format(".squeeze({})", axes_text(axes)));
  }
  if (ir::Ints axes; ones_dropped(out, in, axes) == 1)
    return add_method(net, op, fmt::format(".unsqueeze({})", axes[0]));
  std::size_t front = 0, back = 0;
  while (front < std::min(in.size(), out.size()) && in[front] == out[front]) ++front;
  while (front + back < std::min(in.size(), out.size()) &&
         in[in.size() - 1 - back] == out[out.size() - 1 - back])
    ++back;
  if (out.size() == front + back + 1 && in.size() > out.size()) {
    const std::string end = back == 0 ? "" : fmt::format(", {}", -static_cast<std::int64_t>(back) - 1);
    return add_method(net, op, fmt::format(".flatten({}{})", front, end));
  }
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0], kPrimary);
  if (in.size() == front + back + 1 && out.size() > in.size()) {
    const ExportShape parts(out.begin() + static_cast<std::ptrdiff_t>(front),
                            out.end() - static_cast<std::ptrdiff_t>(back));
    const std::int64_t axis = back == 0 ? -1 : static_cast<std::int64_t>(front);
    writer.step.code.text = fmt::format("{}.unflatten({}, ({}))", x, axis, net.sizes(writer, parts, true));
  } else {
    writer.step.code.text = fmt::format("{}.reshape({})", x, net.sizes(writer, out, true));
  }
  net.add(op, std::move(writer), kPrimary);
}

void add_transpose(TorchTranslation& net, const ir::Op& op) {
  ir::Ints permutation = op.attributes.get_ints("permutation"), moved;
  for (std::int64_t& axis : permutation) axis = ir::normal_axis(axis, static_cast<int>(permutation.size()));
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    if (permutation[axis] != static_cast<std::int64_t>(axis))
      moved.push_back(static_cast<std::int64_t>(axis));
  }
  if (moved.empty()) return net.add_alias(op.results[0], op.operands[0]);
  const bool swaps = moved.size() == 2;
  add_method(net, op,
             fmt::format(".{}({})", swaps ? "transpose" : "permute", joined(swaps ? moved : permutation)));
}

void add_expand(TorchTranslation& net, const ir::Op& op) {
  const ExportShape in = net.extents(op.operands[0]), out = net.extents(op.results[0]);
  if (in == out) return net.add_alias(op.results[0], op.operands[0]);
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0], kPrimary);
  std::vector<std::string> sizes;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    sizes.push_back(in[axis] == out[axis] ? "-1" : net.size(writer, out[axis]));
  }
  writer.step.code.text = fmt::format("{}.expand({})", x, fmt::join(sizes, ", "));
  net.add(op, std::move(writer), kPrimary);
}

void add_slice(TorchTranslation& net, const ir::Op& op) {
  const ExportShape in = net.extents(op.operands[0]);
  const ir::Ints &starts = op.attributes.get_ints("starts"), &limits = op.attributes.get_ints("limits");
  const ir::Ints& steps = op.attributes.get_ints("strides");
  const ir::Shape& whole = net.type(op.operands[0]).shape;
  const ir::Attributes& other = net.larger(op).attributes;
  std::vector<std::string> parts;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    const std::int64_t step = steps.empty() ? 1 : steps[axis];
    const bool to_end = limits[axis] == whole[axis];
    if (other.get_ints("starts")[axis] != starts[axis] ||
        (!to_end && other.get_ints("limits")[axis] != limits[axis])) {
      return net.refuse(op, "cuts the batch");
    }
    std::string part = starts[axis] == 0 ? "" : std::to_string(starts[axis]);
    part += ":";
    if (!to_end) part += std::to_string(limits[axis]);
    if (step != 1) part += fmt::format(":{}", step);
    parts.push_back(part);
  }
  if (std::ranges::all_of(parts, [](const std::string& part) { return part == ":"; })) {
    return net.add_alias(op.results[0], op.operands[0]);
  }
  TorchWriter writer(op);
  writer.step.code.text = fmt::format("{}[{}]", writer.operand(op.operands[0], kPrimary), index_text(parts));
  std::vector<std::size_t> cut;
  for (std::size_t axis = 0; axis < parts.size(); ++axis) {
    if (parts[axis] != ":") cut.push_back(axis);
  }
  if (cut.size() == 1 && (steps.empty() || steps[cut[0]] == 1)) {
    writer.step.cut = TorchCut{op.operands[0], cut[0], starts[cut[0]], limits[cut[0]], false};
  }
  net.add(op, std::move(writer), kPrimary);
}

void add_pad(TorchTranslation& net, const ir::Op& op) {
  const ir::Ints &low = op.attributes.get_ints("low"), &high = op.attributes.get_ints("high");
  std::size_t first = 0;
  while (first < low.size() && low[first] == 0 && high[first] == 0) ++first;
  if (first == low.size()) return net.add_alias(op.results[0], op.operands[0]);
  ir::Ints sizes;
  for (std::size_t axis = low.size(); axis-- > first;) sizes.insert(sizes.end(), {low[axis], high[axis]});
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0]);
  const double value = op.attributes.get_double("value");
  const std::string more = value == 0 ? "" : ", value=" + python_float(value);
  writer.step.code.text = fmt::format("F.pad({}, ({}){})", x, joined(sizes), more);
  net.add(op, std::move(writer), kPrimary);
}

void add_constant(TorchTranslation& net, const ir::Op& op) {
  const auto& values = op.attributes.get<ir::Doubles>("values");
  const ir::TensorType& type = net.type(op.results[0]);
  TorchWriter writer(op);
  if (values.empty()) {
    const std::string shape = net.sizes(writer, net.extents(op.results[0]), false);
    const double number = op.attributes.get_double("value");
    const std::string value =
        type.dtype == ir::DType::i1 ? (number != 0 ? "True" : "False") : python_number(number);
    const std::string sizes = type.rank() == 1 ? "(" + shape + ",)" : "(" + shape + ")";
    writer.step.code.text = fmt::format("torch.full({}, {}, {})", sizes, writer.literal(value, "value"),
                                        dtype_of_new(type.dtype));
    return net.add(op, std::move(writer), kPrimary);
  }
  const bool is_float = type.dtype == ir::DType::f32;
  if (values.size() <= 16 && type.rank() == 1) {
    std::vector<std::string> numbers;
    for (const double value : values) numbers.push_back(python_number(value));
    writer.step.code.text = fmt::format(
        "torch.tensor({}, {})", writer.literal(fmt::format("[{}]", fmt::join(numbers, ", ")), "values"),
        dtype_of_new(type.dtype));
  } else {
    const std::string table = writer.literal(net.table(op), "table");
    writer.step.code.text = fmt::format("{}.to({}{})", table, kReferenceMark, is_float ? "" : ".device");
  }
  net.add(op, std::move(writer), kPrimary, {"table"});
}

void add_iota(TorchTranslation& net, const ir::Op& op) {
  const ExportShape shape = net.extents(op.results[0]);
  const auto axis = static_cast<std::size_t>(
      ir::normal_axis(op.attributes.get_int("axis"), static_cast<int>(shape.size())));
  TorchWriter writer(op);
  const std::string count = net.size(writer, shape[axis]);
  std::string text = fmt::format("torch.arange({}, {})", count, dtype_of_new(net.type(op.results[0]).dtype));
  if (shape.size() > 1) {
    std::vector<std::string> view(shape.size(), "1");
    view[axis] = "-1";
    text += fmt::format(".view({}).expand({})", fmt::join(view, ", "), net.sizes(writer, shape, false));
  }
  writer.step.code.text = text;
  net.add(op, std::move(writer), kPrimary);
}

void add_concat(TorchTranslation& net, const ir::Op& op) {
  TorchWriter writer(op);
  std::vector<std::string> parts;
  for (const ir::Value value : op.operands) parts.push_back(writer.operand(value));
  const std::int64_t rank = net.type(op.results[0]).rank(), axis = op.attributes.get_int("axis");
  writer.step.code.text = fmt::format("torch.cat({}, {})", python_tuple(parts), axis == rank - 1 ? -1 : axis);
  net.add(op, std::move(writer), kPrimary);
}

void add_gather(TorchTranslation& net, const ir::Op& op) {
  const std::int64_t rank = net.type(op.operands[0]).rank(),
                     axis = (op.attributes.get_int("axis") + rank) % rank;
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0], kPrimary);
  if (net.type(op.operands[1]).rank() == 1) {
    writer.step.code.text = fmt::format("{}.index_select({}, {})", x, axis, writer.operand(op.operands[1]));
  } else {
    const std::string indices = spread_indices(net, writer, op.operands[1], op.operands[0], axis);
    writer.step.code.text = fmt::format("{}.take_along_dim({}, {})", x, indices, axis);
  }
  net.add(op, std::move(writer), kPrimary);
}

void add_scatter(TorchTranslation& net, const ir::Op& op) {
  const std::int64_t rank = net.type(op.operands[0]).rank(),
                     axis = (op.attributes.get_int("axis") + rank) % rank;
  TorchWriter writer(op);
  const std::string base = writer.operand(op.operands[0], kPrimary);
  if (net.type(op.operands[1]).rank() == 1) {
    const std::string indices = writer.operand(op.operands[1]);
    writer.step.code.text =
        fmt::format("{}.index_add({}, {}, {})", base, axis, indices, writer.operand(op.operands[2]));
  } else {
    std::string indices = spread_indices(net, writer, op.operands[1], op.operands[2], axis);
    const std::string updates = writer.operand(op.operands[2], kPrimary);
    indices += fmt::format(".expand_as({})", writer.operand(op.operands[2]));
    writer.step.code.text = fmt::format("{}.scatter_add({}, {}, {})", base, axis, indices, updates);
  }
  net.add(op, std::move(writer), kPrimary);
}

void add_sort(TorchTranslation& net, const ir::Op& op) {
  const bool values = net.is_needed(op.results[0]), order = net.is_needed(op.results[1]);
  const std::string how = fmt::format("dim={}, stable=True{}", op.attributes.get_int("axis"),
                                      op.attributes.get_bool("descending") ? ", descending=True" : "");
  TorchWriter writer(op);
  const std::string x = writer.operand(op.operands[0]);
  if (values && order) {
    writer.step.code.text = fmt::format("torch.sort({}, {})", x, how);
    return net.add(op, std::move(writer), kPrimary, {"values", "order"});
  }
  writer.step.results = {op.results[values ? 0 : 1]};
  writer.step.code.text =
      values ? fmt::format("torch.sort({}, {})[0]", x, how) : fmt::format("torch.argsort({}, {})", x, how);
  net.add(op, std::move(writer), kPrimary, {values ? "values" : "order"});
}

void add_reduction(TorchTranslation& net, const ir::Op& op) {
  const char* name = op.code == ir::Opcode::sum ? "sum" : "amax";
  add_method(net, op, fmt::format(".{}({}, keepdim=True)", name, axes_text(op.attributes.get_ints("axes"))),
             op.code == ir::Opcode::sum ? "sum" : "top");
}

}  // namespace rewire::runtime
