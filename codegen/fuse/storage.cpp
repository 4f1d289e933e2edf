// Storage of values; see storage.h.
#include "codegen/fuse/storage.h"

#include "codegen/fuse/twins.h"
#include "codegen/lowering_steps.h"
#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using ir::Function;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

bool takes_strided_results(const Op& op) {
  return op.code == Opcode::attention || op.code == Opcode::attention_grad || op.code == Opcode::concat;
}

std::vector<double> constant_values(const Op& op) {
  const ir::Doubles* values = nullptr;
  if (const ir::Attribute* attribute = op.attributes.find("values"))
    values = std::get_if<ir::Doubles>(attribute);
  if (values != nullptr && !values->empty()) return *values;
  return {op.attributes.has("value") ? op.attributes.get_double("value") : 0.0};
}

}  // namespace

std::optional<double> splat_value(const Op& constant) {
  const std::vector<double> values = constant_values(constant);
  return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
}

bool is_gemm_view(const View& view) {
  const std::size_t rank = view.shape.size();
  bool unit = false;
  for (std::size_t d = rank - 2; d < rank; ++d) {
    if (view.shape[d] == 1) {
      unit = true;
      continue;
    }
    if (view.strides[d] == 0) return false;
    unit = unit || view.strides[d] == 1;
  }
  return unit;
}

Storage::Storage(const Grouping& grouping, const ir::Module& module, Program& program)
    : grouping_(grouping), program_(program), classes_(twin_classes(grouping)) {
  const Function& f = grouping.function();
  for (const auto& argument : f.arguments) {
    const std::int32_t buffer = add_buffer({argument.name, BufferKind::argument, f.type(argument.value), {}});
    views_[argument.value.id] = dense_view(buffer, f.type(argument.value).shape);
  }
  std::set<std::string_view> used;  // parameters
  for (const Op& op : f.body) {
    if (op.code == Opcode::param || op.code == Opcode::update) used.insert(op.attributes.get_string("name"));
  }
  for (const auto& parameter : module.parameters) {
    if (used.contains(parameter.name))
      states_[parameter.name] = add_buffer({parameter.name, BufferKind::state, parameter.type, {}});
  }
  for (std::size_t i = 0; i < f.body.size(); ++i) {
    const Op& op = f.body[i];
    if (op.code == Opcode::param) {
      views_[op.results[0].id] =
          dense_view(state(op.attributes.get_string("name")), f.type(op.results[0]).shape);
    } else if (op.code == Opcode::constant && needs_memory(op)) {
      const std::int32_t buffer = add_buffer(
          {op.location + ".constant", BufferKind::constant, f.type(op.results[0]), constant_values(op)});
      views_[op.results[0].id] = dense_view(buffer, f.type(op.results[0]).shape);
    }
  }
  for (const auto& result : f.results) {
    const std::int32_t buffer = add_buffer({result.name, BufferKind::result, f.type(result.value), {}});
    views_[result.value.id] = dense_view(buffer, f.type(result.value).shape);
  }
  for (std::size_t i = f.body.size(); i-- > 0;) {
    for (Value result : f.body[i].results) {
      const int node = grouping.producer(result);
      if (node < 0 || views_.contains(result.id)) continue;
      const GroupNode& producer = grouping.nodes()[static_cast<std::size_t>(node)];
      if (producer.opaque || producer.group.exported.contains(result.id)) assign(result);
    }
  }
}

// Returns whether a constant needs memory. A constant with one value for all elements is written into the
// kernels that use it; only calls and indexed reads need it in memory.
bool Storage::needs_memory(const Op& constant) const {
  for (const Use& use : grouping_.uses(constant.results[0])) {
    const GroupNode& node = grouping_.nodes()[static_cast<std::size_t>(use.node)];
    if (node.opaque || !splat_value(constant)) return true;
    if (node.group.sources.at({use.op, use.operand}).indexed) return true;
  }
  return false;
}

const View& Storage::view(Value value) const {
  const auto it = views_.find(value.id);
  if (it == views_.end())
    internal_error("value %{} of '{}' has no memory", value.id, grouping_.function().name);
  return it->second;
}

std::vector<Storage::Copy> Storage::concat_copies(int node) const {
  const auto it = copies_.find(node);
  return it == copies_.end() ? std::vector<Copy>{} : it->second;
}

std::int32_t Storage::add_buffer(Buffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return static_cast<std::int32_t>(program_.buffers.size()) - 1;
}

std::int32_t Storage::add_temporary(std::string name, ir::TensorType type) {
  return add_buffer({std::move(name), BufferKind::temporary, std::move(type), {}});
}

View Storage::dense_view(std::int32_t buffer, const Shape& shape) const {
  return {buffer, 0, shape, ir::row_major_strides(shape)};
}

void Storage::assign(Value value) {
  if (assign_as_sum(value)) return;  // a call changes it, so it is nobody's twin
  const bool placed = assign_in_concat(value) ||
                      (grouping_.does(kCopyElision) && assign_through_copy(value)) ||
                      (grouping_.does(kTwins) && assign_as_twin(value));
  if (!placed) assign_dense(value);
  const std::int32_t own_class = classes_[static_cast<std::size_t>(value.id)];
  if (own_class >= 0) first_.emplace(std::pair(grouping_.producer(value), own_class), value);
}

void Storage::assign_dense(Value value) {
  const Op* op = grouping_.definition(value);
  const std::int32_t buffer = add_temporary(op->location, grouping_.function().type(value));
  views_[value.id] = dense_view(buffer, grouping_.function().type(value).shape);
}

// Places a sum that a call adds to in the memory of the call's result.
bool Storage::assign_as_sum(Value value) {
  for (const Use& use : grouping_.uses(value)) {
    const GroupNode& node = grouping_.nodes()[static_cast<std::size_t>(use.node)];
    const bool is_product = node.epilogue >= 0;
    if (!node.accumulates || use.operand != (is_product ? 2 : 0)) continue;
    const Op& last =
        grouping_.function().body[static_cast<std::size_t>(is_product ? node.epilogue : node.op)];
    const View& home = view(last.results[0]);
    if (!fits_users(value, home)) return false;
    views_[value.id] = home;
    return true;
  }
  return false;
}

bool Storage::assign_in_concat(Value value) {
  for (const Use& use : grouping_.uses(value)) {
    const GroupNode& node = grouping_.nodes()[static_cast<std::size_t>(use.node)];
    if (!node.opaque) continue;
    const Op& concat = grouping_.function().body[static_cast<std::size_t>(node.op)];
    if (concat.code != Opcode::concat) continue;
    std::int64_t axis = concat.attributes.get_int("axis");
    const Shape& shape = grouping_.function().type(value).shape;
    if (axis < 0) axis += static_cast<std::int64_t>(shape.size());
    View window = view(concat.results[0]);
    for (int k = 0; k < use.operand; ++k) {
      const Shape& before = grouping_.function().type(concat.operands[static_cast<std::size_t>(k)]).shape;
      window.offset +=
          before[static_cast<std::size_t>(axis)] * window.strides[static_cast<std::size_t>(axis)];
    }
    window.shape = shape;
    if (grouping_.does(kConcatWindows) && fits_users(value, window)) {
      views_[value.id] = std::move(window);
    } else {
      assign_dense(value);
      copies_[use.node].push_back({view(value), std::move(window)});
    }
    return true;
  }
  return false;
}

// If a copy of `value` exists, tries to write the value to the copy's memory directly, by the inverse of the
// copy's map.
bool Storage::assign_through_copy(Value value) {
  const Shape& shape = grouping_.function().type(value).shape;
  for (const Use& use : grouping_.uses(value)) {
    const GroupNode& node = grouping_.nodes()[static_cast<std::size_t>(use.node)];
    if (node.opaque || node.group.ops.size() != 1 ||
        !is_view(grouping_.function().body[static_cast<std::size_t>(use.op)].code)) {
      continue;
    }
    const Source& source = node.group.sources.at({use.op, 0});
    const Value copied = grouping_.function().body[static_cast<std::size_t>(use.op)].results[0];
    const bool all =
        ir::element_count(shape) == grouping_.function().type(copied).elements();  // no broadcast, no slice
    if (source.linear || !all || !covers(source.map, shape, node.group.extents)) continue;
    const View& target = view(copied);
    const Affine place = strided_index(node.group.maps.at(copied.id), target.offset, target.strides);
    View window{target.buffer, place.offset, shape, Shape(shape.size(), 0)};
    bool fits = true;
    for (std::size_t d = 0; d < shape.size() && fits; ++d) {
      for (const auto& [axis, coefficient] : source.map[d].terms) {
        const std::int64_t stride = place.terms.at(axis);
        if (stride % coefficient != 0) fits = false;
        if (window.strides[d] == 0) window.strides[d] = stride / coefficient;
        fits = fits && window.strides[d] * coefficient == stride;
      }
      if (shape[d] == 1) window.strides[d] = 1;
    }
    if (!fits || !fits_users(value, window)) continue;
    elided_.insert(use.node);
    views_[value.id] = std::move(window);
    return true;
  }
  return false;
}

bool Storage::assign_as_twin(Value value) {
  const std::int32_t own_class = classes_[static_cast<std::size_t>(value.id)];
  const auto twin = first_.find({grouping_.producer(value), own_class});
  if (own_class < 0 || twin == first_.end()) return false;
  const View& home = view(twin->second);
  if (!fits_users(value, home)) return false;
  views_[value.id] = home;
  twins_.insert(value.id);
  return true;
}

// Returns whether a strided home suits every op that reads or writes the value.
bool Storage::fits_users(Value value, const View& home) const {
  const bool dense = home.strides == ir::row_major_strides(home.shape);
  if (dense) return true;
  if (grouping_.needs_dense(value)) return false;
  const GroupNode& producer = grouping_.nodes()[static_cast<std::size_t>(grouping_.producer(value))];
  if (producer.opaque) {
    const Op& op = grouping_.function().body[static_cast<std::size_t>(producer.op)];
    if (!takes_strided_results(op)) {
      const std::size_t last = home.shape.size() - 1;
      if (op.code != Opcode::matmul || (home.shape[last] != 1 && home.strides[last] != 1)) return false;
    }
  }
  for (const Use& use : grouping_.uses(value)) {
    const GroupNode& reader = grouping_.nodes()[static_cast<std::size_t>(use.node)];
    if (!reader.opaque) continue;
    const Op& op = grouping_.function().body[static_cast<std::size_t>(reader.op)];
    if (op.code != Opcode::matmul) continue;
    const Source& source = reader.operands[static_cast<std::size_t>(use.operand)];
    const Shape& shape = grouping_.function().type(op.operands[static_cast<std::size_t>(use.operand)]).shape;
    if (source.linear) return false;
    const Affine linear = strided_index(source.map, home.offset, home.strides);
    View seen{home.buffer, linear.offset, shape, Shape(shape.size(), 0)};
    for (const auto& [axis, stride] : linear.terms) seen.strides[static_cast<std::size_t>(axis)] = stride;
    if (!is_gemm_view(seen)) return false;
  }
  return true;
}

}  // namespace rewire::codegen
