// Cases of the ops over windows of maps, and of resize.
#include <algorithm>

#include "ir/opcodes.h"
#include "tests/support/case_builder.h"

namespace rewire::testing {

using namespace rewire::ir;

namespace {

/// One to three maps, a few pixels a side, seldom square.
Shape map_shape(CaseBuilder& c, std::int64_t largest) {
  return {c.integer(1, 2), c.integer(1, 3), c.integer(1, largest), c.integer(1, largest)};
}

/// Windows up to 4 a side, with strides below, at and above that; padding at most half of them.
Attributes windows_of(CaseBuilder& c, Shape& maps) {
  Ints kernel, strides, padding;
  for (std::size_t axis : {2, 3}) {
    kernel.push_back(c.integer(1, 4));
    strides.push_back(c.integer(1, 5));
    padding.push_back(c.integer(0, kernel.back() / 2));
    maps[axis] = std::max(maps[axis], kernel.back() - 2 * padding.back());
  }
  Attributes attributes = {{"kernel", kernel}, {"strides", strides}};
  if (c.chance(0.7)) {
    attributes.set("padding", padding);
  } else {
    for (std::size_t axis : {2, 3}) maps[axis] = std::max(maps[axis], kernel[axis - 2]);
  }
  return attributes;
}

}  // namespace

void pool_case(CaseBuilder& c, Opcode code) {
  Shape shape = map_shape(c, 17);
  Attributes windows = windows_of(c, shape);
  const Value x = c.input(code == Opcode::max_pool ? c.distinct(shape) : c.tensor(shape));
  c.apply(code, {x}, std::move(windows));
}

void unfold_case(CaseBuilder& c, Opcode code) {
  Shape shape = map_shape(c, 8);
  Attributes windows = windows_of(c, shape);
  c.apply(code, {c.input(c.tensor(shape))}, std::move(windows));
}

void resize_case(CaseBuilder& c, Opcode code) {
  const Value x = c.input(c.tensor(map_shape(c, 13)));
  c.apply(code, {x}, {{"size", Ints{c.integer(1, 20), c.integer(1, 20)}}});
}

}  // namespace rewire::testing
