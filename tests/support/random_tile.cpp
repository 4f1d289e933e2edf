// Grows a kernel section by section; every value made so far is a candidate operand.
#include "tests/support/random_tile.h"

#include <algorithm>
#include <random>
#include <string>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::tile;  // NOLINT: the subject of this file
using ir::DType;
using ir::Opcode;
using Axes = std::vector<TileBuilder::Axis>;

class Grower {
 public:
  explicit Grower(std::uint64_t seed) : random_(seed), t_("random") {}

  Kernel grow() {
    make_axes();
    grow_section(pick(1, 6));
    store_some(AxisUse::outer);
    if (!rows_.empty()) grow_rows();
    return t_.finish();
  }

 private:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T>
  const T& one_of(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(items.size()) - 1))];
  }

  void make_axes() {
    std::vector<AxisUse> uses(static_cast<std::size_t>(pick(1, 3)), AxisUse::lane);
    uses.insert(uses.end(), static_cast<std::size_t>(pick(0, 2)), AxisUse::outer);
    uses.insert(uses.end(), static_cast<std::size_t>(pick(0, 2)), AxisUse::row);
    std::shuffle(uses.begin(), uses.end(), random_);
    static const std::vector<std::int64_t> kLaneExtents = {1, 2, 3, 7, 15, 16, 17, 20, 33, 50};
    std::int64_t lane_budget = 1500;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const std::string name = "x" + std::to_string(i);
      if (uses[i] == AxisUse::outer) outer_.push_back(t_.outer(name, pick(1, 3)));
      if (uses[i] == AxisUse::row) rows_.push_back(t_.row(name, pick(1, 4)));
      if (uses[i] != AxisUse::lane) continue;
      const std::int64_t extent = std::min(one_of(kLaneExtents), lane_budget);
      lane_budget /= extent;
      lanes_.push_back(t_.lane(name, extent));
    }
    if (!rows_.empty()) t_.partitions(pick(1, t_.kernel().row_count()));
  }

  std::int64_t extent(TileBuilder::Axis axis) {
    return t_.kernel().axes[static_cast<std::size_t>(axis)].extent;
  }
  const ValueInfo& info(TileValue value) { return t_.kernel().values[static_cast<std::size_t>(value.id)]; }

  Axes some(const Axes& axes, int percent) {
    Axes chosen;
    for (TileBuilder::Axis axis : axes) {
      if (chance(percent)) chosen.push_back(axis);
    }
    return chosen;
  }

  /// Dense strides over these axes in a random order, sometimes with gaps, or reversed where offset allows.
  TileBuilder::Strides dense(Axes axes, bool shuffled) {
    if (shuffled) std::shuffle(axes.begin(), axes.end(), random_);
    TileBuilder::Strides strides;
    std::int64_t stride = chance(20) ? 2 : 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      strides[axes[i]] = stride;
      stride *= extent(axes[i]) + (chance(20) ? 1 : 0);
    }
    return strides;
  }

  Axes around(bool in_body) {
    Axes axes = some(outer_, 80);
    if (in_body) {
      const Axes rows = some(rows_, 80);
      axes.insert(axes.end(), rows.begin(), rows.end());
    }
    return axes;
  }

  void add_load() {
    Axes axes = around(in_body_);
    const Axes lanes = some(lanes_, 60);
    axes.insert(axes.end(), lanes.begin(), lanes.end());
    static const std::vector<DType> kDTypes = {DType::f32,  DType::f32, DType::f32,
                                               DType::bf16, DType::f16, DType::f64};
    const std::int32_t argument =
        t_.input("in" + std::to_string(t_.kernel().arguments.size()), one_of(kDTypes));
    TileBuilder::Strides strides = dense(axes, chance(40));
    std::int64_t offset = chance(30) ? pick(1, 5) : 0;
    if (!lanes.empty() && chance(15)) {
      std::int64_t& stride = strides[one_of(lanes)];
      for (TileBuilder::Axis axis : lanes) {
        if (&strides[axis] == &stride) offset += stride * (extent(axis) - 1);
      }
      stride = -stride;
    }
    values_.push_back(t_.load(argument, strides, offset, DType::f32, some(lanes_, 15)));
  }

  void add_gather() {
    const Axes lanes = some(lanes_, 50);
    const std::int32_t argument = t_.input("table" + std::to_string(t_.kernel().arguments.size()));
    const std::int32_t where = t_.input("where" + std::to_string(t_.kernel().arguments.size()), DType::i32);
    const TileValue index = t_.load(where, dense(some(lanes_, 50), false), 0, DType::i32);
    const std::int64_t limit = pick(1, 3);
    values_.push_back(t_.gather(argument, dense(lanes, false), index, pick(1, 30), limit));
  }

  void add_unary() {
    static const std::vector<Opcode> kOps = {Opcode::neg,     Opcode::abs, Opcode::tanh,
                                             Opcode::sigmoid, Opcode::sin, Opcode::erf};
    values_.push_back(t_.op(one_of(kOps), {one_of(values_)}));
  }

  void add_binary() {
    static const std::vector<Opcode> kOps = {Opcode::add, Opcode::sub, Opcode::maximum, Opcode::minimum,
                                             Opcode::mul};
    const TileValue result = t_.op(one_of(kOps), {one_of(values_), one_of(values_)});
    values_.push_back(t_.op(Opcode::mul, {result, t_.constant(0.5)}));
  }

  void add_select() {
    const Axes axes = in_body_ && !rows_.empty() && chance(50) ? rows_ : lanes_;
    const TileValue where = t_.index(one_of(axes), DType::i32);
    const TileValue condition =
        t_.op(Opcode::compare, {where, t_.constant(1, {}, DType::i32)}, chance(50) ? "le" : "ne");
    values_.push_back(t_.op(Opcode::select, {condition, one_of(values_), one_of(values_)}));
  }

  void add_reduce() {
    const TileValue operand = one_of(values_);
    Axes over = some(info(operand).lanes, 50);
    if (over.empty()) return;
    double count = 1;
    for (TileBuilder::Axis axis : over) count *= static_cast<double>(extent(axis));
    if (chance(50)) {
      values_.push_back(t_.max(operand, over));
    } else {
      values_.push_back(t_.op(Opcode::mul, {t_.sum(operand, over), t_.constant(1 / count)}));
    }
  }

  /// a(i…, k) x b(k, j), the operands broadcast to the lanes that a dot needs.
  void add_dot() {
    if (lanes_.size() < 2) return;
    Axes order = lanes_;
    std::shuffle(order.begin(), order.end(), random_);
    const TileBuilder::Axis contract = order[0];
    const TileBuilder::Axis column = order[1];
    const bool other = order.size() > 2 && column == lanes_.back();
    const auto with_lanes = [&](const Axes& lanes) {
      TileValue value =
          t_.load(t_.input("dot" + std::to_string(t_.kernel().arguments.size())), dense(lanes, chance(40)));
      return chance(50) ? value : t_.op(Opcode::sin, {value});
    };
    const TileValue a = with_lanes(other ? Axes{order[2], contract} : Axes{contract});
    const TileValue b = with_lanes({contract, column});
    values_.push_back(t_.op(Opcode::mul, {t_.dot(a, b, contract), t_.constant(0.1)}));
  }

  void grow_section(std::int64_t nodes) {
    if (values_.empty()) add_load();
    for (std::int64_t i = 0; i < nodes; ++i) {
      const std::int64_t kind = pick(1, 100);
      if (kind <= 20) {
        add_load();
      } else if (kind <= 25) {
        add_gather();
      } else if (kind <= 40) {
        add_unary();
      } else if (kind <= 65) {
        add_binary();
      } else if (kind <= 72) {
        add_select();
      } else if (kind <= 95) {
        add_reduce();
      } else {
        add_dot();
      }
    }
  }

  /// Stores one to three values, each to an argument of its own.
  void store_some(AxisUse section) {
    for (std::int64_t i = pick(1, 3); i > 0; --i) {
      const TileValue value = one_of(values_);
      Axes axes = outer_;
      if (section == AxisUse::row) axes.insert(axes.end(), rows_.begin(), rows_.end());
      const Axes lanes = lane_union(info(value).lanes, some(lanes_, 20));
      axes.insert(axes.end(), lanes.begin(), lanes.end());
      TileBuilder::Strides strides = dense(axes, chance(40));
      std::int64_t part_stride = 0;
      if (section == AxisUse::outer) {
        part_stride = 1;
        for (const auto& [axis, stride] : strides)
          part_stride = std::max(part_stride, stride * (extent(axis) + 1));
      }
      static const std::vector<DType> kDTypes = {DType::f32, DType::f32, DType::f32, DType::bf16, DType::f64};
      t_.store(t_.output("out" + std::to_string(t_.kernel().arguments.size()), one_of(kDTypes)), value,
               strides, pick(0, 2), part_stride);
    }
  }

  void grow_rows() {
    std::vector<TileValue> entries;
    for (std::int64_t i = pick(0, 3); i > 0; --i) entries.push_back(t_.carry(one_of(values_)));
    const std::vector<TileValue> prologue_values = values_;
    values_.insert(values_.end(), entries.begin(), entries.end());
    t_.body();
    in_body_ = true;
    grow_section(pick(2, 16));
    if (chance(80)) store_some(AxisUse::row);
    std::vector<TileValue> lasts;
    for (TileValue entry : entries) lasts.push_back(t_.carry_next(entry, next_for(entry)));
    in_body_ = false;
    t_.epilogue();
    values_ = prologue_values;
    values_.insert(values_.end(), lasts.begin(), lasts.end());
    grow_section(pick(0, 4));
    store_some(AxisUse::outer);
  }

  /// A value of the entry's type: mostly its average with something new, sometimes another value as it is.
  TileValue next_for(TileValue entry) {
    std::vector<TileValue> same, narrower;
    for (TileValue value : values_) {
      const Axes& lanes = info(value).lanes;
      if (lanes == info(entry).lanes) same.push_back(value);
      if (std::includes(info(entry).lanes.begin(), info(entry).lanes.end(), lanes.begin(), lanes.end())) {
        narrower.push_back(value);
      }
    }
    if (chance(25)) return one_of(same);
    return t_.op(Opcode::mul, {t_.op(Opcode::add, {entry, one_of(narrower)}), t_.constant(0.5)});
  }

  std::mt19937_64 random_;
  TileBuilder t_;
  Axes outer_, rows_, lanes_;
  std::vector<TileValue> values_;
  bool in_body_ = false;
};

}  // namespace

Kernel random_kernel(std::uint64_t seed) {
  return Grower(seed).grow();
}

}  // namespace rewire::test
