// Written with TileBuilder; every value of a random kernel stays near 1.
#include "tests/support/transposing_kernels.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "ir/opcodes.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::tile;  // NOLINT: the subject of this file
using ir::DType;
using ir::Opcode;

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(seed), t_("transposing") {}

  Kernel draw() {
    make_axes();
    const bool rows =
        std::ranges::any_of(t_.kernel().axes, [](const Axis& a) { return a.use == AxisUse::row; });
    std::int32_t flag = -1;
    if (chance(20)) flag = t_.input("flag", DType::i1);
    if (rows) t_.partitions(pick(1, t_.kernel().row_count()));
    if (rows) t_.body();
    for (std::int64_t i = pick(1, 3); i > 0; --i) add_load();
    std::int32_t in_place = -1;
    TileBuilder::Strides place = dense(all_, true);
    if (chance(20)) {
      in_place = t_.argument("kept", ArgumentUse::read_write, one_of(kStored));
      values_.push_back(t_.load(in_place, place));
    }
    for (std::int64_t i = pick(0, 3); i > 0; --i) add_op();
    if (in_place >= 0) t_.store(in_place, combined(), place);
    for (std::int64_t i = in_place >= 0 ? pick(0, 1) : pick(1, 2); i > 0; --i) {
      const TileBuilder::Value predicate =
          flag >= 0 && chance(50) ? read_flag(flag, rows) : TileBuilder::Value{};
      t_.store(t_.output("y" + std::to_string(i), one_of(kStored)), combined(), dense(all_, true),
               chance(20) ? pick(1, 4) : 0, 0, predicate);
    }
    return t_.finish();
  }

 private:
  static inline const std::vector<DType> kStored = {DType::f32,  DType::f32, DType::f32, DType::bf16,
                                                    DType::bf16, DType::f16, DType::f64};

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T>
  const T& one_of(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(items.size()) - 1))];
  }
  std::int64_t extent(TileBuilder::Axis axis) {
    return t_.kernel().axes[static_cast<std::size_t>(axis)].extent;
  }

  void make_axes() {
    static const std::vector<std::int64_t> kExtents = {1,  2,  3,  4,  5,  7,  8,  12, 16,
                                                       31, 32, 33, 40, 50, 64, 65, 100};
    std::int64_t budget = 4000;
    for (std::int64_t i = pick(2, 4); i > 0; --i) {
      const std::int64_t extent = std::min(one_of(kExtents), budget);
      budget /= extent;
      const std::string name = "x" + std::to_string(i);
      const std::int64_t use = pick(0, 2);
      all_.push_back(use == 0   ? t_.outer(name, extent)
                     : use == 1 ? t_.row(name, extent)
                                : t_.lane(name, extent));
    }
  }

  /// Dense in a random order, at times with gaps.
  TileBuilder::Strides dense(std::vector<TileBuilder::Axis> axes, bool shuffled) {
    if (shuffled) std::shuffle(axes.begin(), axes.end(), random_);
    TileBuilder::Strides strides;
    std::int64_t stride = chance(10) ? 2 : 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      strides[axes[i]] = stride;
      stride *= extent(axes[i]) + (chance(10) ? pick(1, 4) : 0);
    }
    return strides;
  }

  void add_load() {
    std::vector<TileBuilder::Axis> axes;
    for (const TileBuilder::Axis axis : all_) {
      if (chance(85)) axes.push_back(axis);
    }
    const std::int32_t argument =
        t_.input("in" + std::to_string(t_.kernel().arguments.size()), one_of(kStored));
    const TileBuilder::Strides strides = dense(axes, true);
    if (!axes.empty() && chance(25)) return add_padded(argument, strides, one_of(axes));
    values_.push_back(t_.load(argument, strides, chance(20) ? pick(1, 4) : 0));
  }

  /// A window around what is there: the index along an axis is moved, the load clamps it, and what lies
  /// outside becomes a number.
  void add_padded(std::int32_t argument, TileBuilder::Strides strides, TileBuilder::Axis axis) {
    const std::int64_t low = pick(1, 3), inside = std::max<std::int64_t>(extent(axis) - low - 1, 1);
    const std::int64_t step = strides[axis];
    strides.erase(axis);
    const auto whole = [&](std::int64_t number) {
      return t_.constant(static_cast<double>(number), {}, DType::i64);
    };
    const auto at = t_.op(Opcode::sub, {t_.index(axis, DType::i64), whole(low)});
    const auto within = t_.op(Opcode::logical_and, {t_.op(Opcode::compare, {at, whole(0)}, "ge"),
                                                    t_.op(Opcode::compare, {at, whole(inside)}, "lt")});
    const auto x = t_.gather(argument, strides, at, step, inside);
    values_.push_back(t_.op(Opcode::select, {within, x, t_.constant(0.5)}));
  }

  TileBuilder::Value read_flag(std::int32_t flag, bool rows) {
    TileBuilder::Strides strides;
    for (const TileBuilder::Axis axis : all_) {
      const AxisUse use = t_.kernel().axes[static_cast<std::size_t>(axis)].use;
      if (rows && use == AxisUse::row && strides.empty() && chance(60)) strides[axis] = 1;
    }
    return t_.load(flag, strides, 0, DType::i1);
  }

  void add_op() {
    static const std::vector<Opcode> kOps = {Opcode::neg, Opcode::abs, Opcode::tanh, Opcode::sigmoid,
                                             Opcode::sin};
    if (chance(50)) {
      values_.push_back(t_.op(one_of(kOps), {one_of(values_)}));
    } else if (chance(30)) {
      const auto where = t_.index(one_of(all_), DType::i32);
      const auto early = t_.op(Opcode::compare, {where, t_.constant(2, {}, DType::i32)}, "le");
      values_.push_back(t_.op(Opcode::select, {early, one_of(values_), one_of(values_)}));
    } else {
      values_.push_back(
          t_.op(chance(50) ? Opcode::sub : Opcode::maximum, {one_of(values_), one_of(values_)}));
    }
  }

  /// A mean of all that was made, so that nothing is left unread.
  TileBuilder::Value combined() {
    TileBuilder::Value sum = values_[0];
    for (std::size_t i = 1; i < values_.size(); ++i) sum = t_.op(Opcode::add, {sum, values_[i]});
    return t_.op(Opcode::mul, {sum, t_.constant(1.0 / static_cast<double>(values_.size()))});
  }

  std::mt19937_64 random_;
  TileBuilder t_;
  std::vector<TileBuilder::Axis> all_;
  std::vector<TileBuilder::Value> values_;
};

}  // namespace

Kernel transposed(std::int64_t rows, std::int64_t columns, DType from, DType to, std::int64_t batch) {
  TileBuilder t("transposed");
  const auto b = t.outer("b", batch);
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", columns);
  const auto x = t.input("x", from), y = t.output("y", to);
  t.body();
  const auto value = t.load(x, {{b, rows * columns}, {r, 1}, {c, rows}}, 0,
                            from == DType::bf16 || from == DType::f16 ? DType::f32 : from);
  t.store(y, value, {{b, rows * columns}, {r, columns}, {c, 1}});
  return t.finish();
}

Kernel patches(std::int64_t images, std::int64_t down, std::int64_t across, std::int64_t patch, DType to) {
  TileBuilder t("patches");
  const auto b = t.row("b", images), i = t.row("i", down), j = t.row("j", across), c = t.row("c", 3);
  const auto k = t.row("k", patch), l = t.lane("l", patch);
  const auto image = t.input("image"), mean = t.input("mean"), scale = t.input("scale");
  const auto y = t.output("y", to);
  t.body();
  const std::int64_t width = across * patch, channel = down * patch * width, square = patch * patch;
  const auto x =
      t.load(image, {{b, 3 * channel}, {i, patch * width}, {j, patch}, {c, channel}, {k, width}, {l, 1}});
  const auto centred = t.op(Opcode::sub, {x, t.load(mean, {{c, 1}})});
  t.store(y, t.op(Opcode::mul, {centred, t.load(scale, {{c, 1}})}),
          {{b, 3 * channel}, {i, across * 3 * square}, {j, 3 * square}, {c, square}, {k, patch}, {l, 1}});
  return t.finish();
}

Kernel random_transposing_kernel(std::uint64_t seed) {
  return Drawer(seed).draw();
}

}  // namespace rewire::test
