// Steps of random programs: shape ops and leaves.
#include <algorithm>

#include "ir/opcodes.h"
#include "tests/support/program_writer.h"

namespace rewire::testing {
namespace {

using namespace rewire::ir;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Merges two neighbouring axes, splits one, or inserts an axis of extent 1.
void reshape(ProgramWriter& w) {
  const Node x = w.pick(1, 4);
  Shape shape = w.shape(x);
  const std::size_t axis = at(w.random.integer(0, static_cast<std::int64_t>(shape.size()) - 1));
  const std::int64_t kind = w.random.integer(0, 2);
  if (kind == 0 && axis + 1 < shape.size()) {
    shape[axis] *= shape[axis + 1];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  } else if (kind == 1) {
    for (std::int64_t factor : {2, 3, 5, 7}) {
      if (shape[axis] % factor != 0 || shape[axis] == factor) continue;
      shape[axis] /= factor;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, factor);
      break;
    }
  } else {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  }
  w.add(w.build.reshape(x.value, shape), x.bound, x.exact);
}

void transpose(ProgramWriter& w) {
  const Node x = w.pick(2, 5);
  w.add(w.build.transpose(x.value, w.random.permutation(w.shape(x).size())), x.bound, x.exact);
}

void broadcast(ProgramWriter& w) {
  const Node x = w.pick(1, 4);
  Shape shape = w.shape(x);
  std::int64_t room = kMaxProgramElements / w.elements(x);
  for (std::int64_t& extent : shape) {
    if (extent != 1 || room < 2) continue;
    extent = w.random.extent(std::min<std::int64_t>(room, 17));
    room /= extent;
  }
  if (w.random.chance(0.3) && room >= 2)
    shape.insert(shape.begin(), w.random.extent(std::min<std::int64_t>(room, 8)));
  w.add(w.build.broadcast(x.value, shape), x.bound, x.exact);
}

void slice(ProgramWriter& w) {
  const Node x = w.pick(1);
  Ints starts, limits, strides;
  for (std::int64_t extent : w.shape(x)) {
    starts.push_back(w.random.chance(0.5) ? 0 : w.random.integer(0, extent - 1));
    limits.push_back(w.random.chance(0.5) ? extent : w.random.integer(starts.back() + 1, extent));
    strides.push_back(w.random.chance(0.8) ? 1 : w.random.integer(1, 3));
  }
  if (w.random.chance(0.6)) strides.clear();
  w.add(
      w.build.emit(Opcode::slice, {x.value}, {{"starts", starts}, {"limits", limits}, {"strides", strides}}),
      x.bound, x.exact);
}

void pad(ProgramWriter& w) {
  const Node x = w.pick(1);
  Ints low, high;
  std::int64_t grown = 1;
  for (std::int64_t extent : w.shape(x)) {
    low.push_back(w.random.chance(0.5) ? 0 : w.random.integer(0, 2));
    high.push_back(w.random.chance(0.5) ? 0 : w.random.integer(0, 3));
    grown *= extent + low.back() + high.back();
  }
  if (grown > kMaxProgramElements) return;
  const double value = w.random.pick({0.0, 0.0, 1.5});
  w.add(w.build.emit(Opcode::pad, {x.value}, {{"low", low}, {"high", high}, {"value", value}}), x.bound + 1,
        x.exact);
}

void concat(ProgramWriter& w) {
  const Node x = w.pick(1);
  const std::size_t axis = at(w.random.integer(0, static_cast<std::int64_t>(w.shape(x).size()) - 1));
  std::vector<Value> parts = {x.value};
  double bound = x.bound;
  bool exact = x.exact;
  std::int64_t total = w.elements(x);
  for (std::int64_t count = w.random.integer(1, 2); count > 0; --count) {
    Node other = w.random.chance(0.4) ? x : w.partner(x);
    Shape fitting = w.shape(x);
    fitting[axis] = w.shape(other).size() == fitting.size() ? w.shape(other)[axis] : 1;
    if (w.shape(other) != fitting) other = w.input(fitting);
    total += w.elements(other);
    if (total > kMaxProgramElements) break;
    parts.insert(w.random.chance(0.5) ? parts.begin() : parts.end(), other.value);
    bound = std::max(bound, other.bound);
    exact = exact && other.exact;
  }
  w.add(w.build.concat(parts, static_cast<int>(axis)), bound, exact);
}

/// Splits along an axis and works on the parts, as q, k and v of one product are.
void split(ProgramWriter& w) {
  const Node x = w.tame(w.pick(1), 8);
  const auto axis = static_cast<int>(w.random.integer(0, static_cast<std::int64_t>(w.shape(x).size()) - 1));
  const std::int64_t extent = w.shape(x)[static_cast<std::size_t>(axis)];
  if (extent < 2) return;
  const std::int64_t middle = w.random.integer(1, extent - 1);
  const Value left = w.build.slice(x.value, axis, 0, middle),
              right = w.build.slice(x.value, axis, middle, extent);
  const Value parts[] = {w.build.unary(Opcode::tanh, left), w.build.mul(right, 0.5)};
  if (w.random.chance(0.3)) w.add(left, x.bound, x.exact);
  w.add(w.build.concat(parts, axis), x.bound);
}

void gather_or_scatter(ProgramWriter& w) {
  const Node x = w.pick(1, 3);
  const std::size_t axis = at(w.random.integer(0, static_cast<std::int64_t>(w.shape(x).size()) - 1));
  const std::int64_t extent = w.shape(x)[axis];
  const std::int64_t count = w.random.extent(9);
  if (w.elements(x) / extent * count > kMaxProgramElements) return;
  Shape lists = w.shape(x);
  lists.resize(w.random.chance(0.5) ? axis : 0);
  lists.push_back(count);
  const Value indices = random_indices(w, extent, lists);
  const Attributes attributes{{"axis", static_cast<std::int64_t>(axis)}};
  if (w.random.chance(0.6)) {
    return w.add(w.build.emit(Opcode::gather, {x.value, indices}, attributes), x.bound, x.exact);
  }
  Shape shape = w.shape(x);
  shape[axis] = count;
  const Node updates = w.input(shape);
  w.add(w.build.emit(Opcode::scatter_add, {x.value, indices, updates.value}, attributes), x.bound + 2 * 9);
}

void leaf(ProgramWriter& w) {
  const TensorType type{DType::f32, w.random.shape(1, 3, 300)};
  switch (w.random.integer(0, 2)) {
    case 0:
      return w.add(w.build.emit(Opcode::iota, {}, {{"axis", w.random.axis(type.shape.size())}}, type), 100,
                   true);
    case 1:
      return w.add(w.build.constant(w.random.real(-2, 2), DType::f32, type.shape), 2);
    default: {
      const Opcode code = w.random.pick({Opcode::random_uniform, Opcode::random_normal});
      const Value draw = w.build.emit(code, {w.seed(), w.step()}, {{"stream", w.stream()}}, type);
      return w.add(draw, code == Opcode::random_uniform ? 1 : 4, code == Opcode::random_uniform);
    }
  }
}

}  // namespace

Value random_indices(ProgramWriter& w, std::int64_t extent, const Shape& shape) {
  return w.random.input(w.random.tensor(TensorType{w.random.pick({DType::i32, DType::i64}), shape}, 0,
                                        static_cast<double>(extent) - 0.001));
}

std::span<const ProgramStep> shape_steps() {
  static constexpr ProgramStep kSteps[] = {
      {reshape, 4}, {transpose, 4}, {broadcast, 3},         {slice, 3}, {pad, 2},
      {concat, 3},  {split, 2},     {gather_or_scatter, 3}, {leaf, 2}};
  return kSteps;
}

}  // namespace rewire::testing
