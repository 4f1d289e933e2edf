// The rules of tile kernels. An InternalError names the kernel, the node and the broken rule.
//
//  1  Axes have distinct names of letters and digits, and extents >= 1. partitions is in [1, row count].
//     Without row axes it is 1, and there is neither a body nor a carried value.
//  2  A value is defined once, before its use, in its section. The body also sees the prologue and the
//     carried entries. The epilogue sees the prologue and the carried lasts.
//  3  A value's lanes are lane axes, ascending.
//  4  An access has an argument and one stride per axis. Row strides appear in the body only.
//  5  Load: the argument may be read. The result has every lane axis of the access and of the gather's
//     index. That index is an integer with a limit >= 1.
//  6  Store: the argument may be written. Every lane of the value has a stride. The predicate is a scalar
//     i1.
//  7  Pointwise: the opcode is of that class, with its operand count, or one more for erf. The result's
//     lanes are the union of the operands' lanes. Dtypes are those of the op table (cast: free).
//  8  Index: along a row axis in the body only. A lane index has that one lane, the others have none.
//  9  Reduce: over at least one lane of the operand, ascending. The result keeps the other lanes and the
//     dtype. The dtype is not narrow (bf16, f16: cast to f32 first) and no truth value.
//  10 Dot: a and b are f32, and share the contracted lane and no other. b has one more lane. The result has
//     the rest.
//  11 Random: seed and step are i64 scalars. The result is f32 or f64 and has the lanes of the element
//     access.
//  12 Carried: initial comes from the prologue. initial, entry, next and last have one type.
//  13 Row bounds: i32 scalars of the prologue, with row axes and one partition.
//  14 A short tile: an outer or row axis and a lane axis, in neither of which another has a part. Its count ends
//     in the last tile.
#include <fmt/format.h>
#include <iterator>

#include <algorithm>
#include <cctype>
#include <optional>

#include "codegen/tile/walk.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen::tile {
namespace {

using Lanes = std::vector<std::int32_t>;

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), defined_(kernel.values.size(), false) {}

  void run() {
    check_axes();
    check_short_tiles();
    for (std::size_t id = 0; id < kernel_.values.size(); ++id) check_lanes(id);
    section("prologue", kernel_.prologue);
    const std::vector<bool> prologue = defined_;
    for (const Carried& carried : kernel_.carried) {
      where_ = "carried";
      use(carried.initial);
      define(carried.entry);
      same_type(carried.initial, carried.entry);
    }
    check_bounds();
    in_body_ = true;
    section("body", kernel_.body);
    in_body_ = false;
    for (const Carried& carried : kernel_.carried) {
      where_ = "carried";
      use(carried.next);
      same_type(carried.initial, carried.next);
    }
    defined_ = prologue;
    for (const Carried& carried : kernel_.carried) {
      define(carried.last);
      same_type(carried.initial, carried.last);
    }
    section("epilogue", kernel_.epilogue);
  }

 private:
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    internal_error("tile kernel {}, {}: {}", kernel_.name, where_,
                   fmt::format(format, std::forward<Args>(args)...));
  }

  const ValueInfo& info(TileValue value) const { return kernel_.values[static_cast<std::size_t>(value.id)]; }

  void check_axes() {
    where_ = "axes";
    bool rows = false;
    for (std::size_t i = 0; i < kernel_.axes.size(); ++i) {
      const Axis& axis = kernel_.axes[i];
      require(!axis.name.empty() && std::all_of(axis.name.begin(), axis.name.end(),
                                                [](unsigned char c) { return std::isalnum(c) != 0; }),
              "axis {} has the name '{}'; letters and digits are needed", i, axis.name);
      require(std::none_of(kernel_.axes.begin(), kernel_.axes.begin() + static_cast<std::ptrdiff_t>(i),
                           [&](const Axis& other) { return other.name == axis.name; }),
              "two axes are called {}", axis.name);
      require(axis.extent >= 1, "axis {} has extent {}", axis.name, axis.extent);
      rows = rows || axis.use == AxisUse::row;
    }
    require(kernel_.partitions >= 1 && kernel_.partitions <= kernel_.row_count(), "{} partitions of {} rows",
            kernel_.partitions, kernel_.row_count());
    require(rows || (kernel_.body.empty() && kernel_.carried.empty()), "a body without row axes");
  }

  void check_bounds() {
    if (!kernel_.bounds) return;
    where_ = "row bounds";
    require(kernel_.partitions == 1 && !kernel_.body.empty(), "{} partitions", kernel_.partitions);
    for (const TileValue value : {kernel_.bounds->first, kernel_.bounds->end}) {
      use(value);
      require(info(value).dtype == ir::DType::i32 && info(value).lanes.empty(), "%{} is not an i32 scalar",
              value.id);
    }
  }

  void check_short_tiles() {
    where_ = "short tiles";
    for (const ShortTile& one : kernel_.short_tiles) {
      const auto axis = [&](std::int32_t index) -> const Axis& {
        return kernel_.axes.at(static_cast<std::size_t>(index));
      };
      require(axis(one.tile).use != AxisUse::lane && axis(one.lane).use == AxisUse::lane, "axes {} and {}",
              axis(one.tile).name, axis(one.lane).name);
      require(std::ranges::count_if(kernel_.short_tiles,
                                    [&](const ShortTile& other) {
                                      return other.tile == one.tile || other.lane == one.lane;
                                    }) == 1,
              "two of them share an axis");
      const std::int64_t all = axis(one.tile).extent * axis(one.lane).extent;
      require(one.count <= all && one.count > all - axis(one.lane).extent, "{} points in {} tiles", one.count,
              axis(one.tile).extent);
    }
  }

  void check_lanes(std::size_t id) {
    where_ = fmt::format("value %{}", id);
    const Lanes& lanes = kernel_.values[id].lanes;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      require(lanes[i] >= 0 && static_cast<std::size_t>(lanes[i]) < kernel_.axes.size() &&
                  kernel_.axes[static_cast<std::size_t>(lanes[i])].use == AxisUse::lane,
              "lane {} is not a lane axis", lanes[i]);
      require(i == 0 || lanes[i - 1] < lanes[i], "lanes are not ascending");
    }
  }

  void section(std::string_view name, const std::vector<Node>& nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      where_ = fmt::format("{} node {} ({})", name, i, node_word(nodes[i]));
      for (TileValue operand : operands_of(nodes[i])) use(operand);
      if (!std::holds_alternative<Store>(nodes[i])) check_id(result_of(nodes[i]));
      if (const Access* access = access_of(nodes[i])) check_access(*access, nodes[i]);
      std::visit([&](const auto& node) { check(node); }, nodes[i]);
      if (!std::holds_alternative<Store>(nodes[i])) define(result_of(nodes[i]));
    }
  }

  void check_id(TileValue value) const {
    require(value.id >= 0 && static_cast<std::size_t>(value.id) < kernel_.values.size(),
            "value %{} does not exist", value.id);
  }

  void use(TileValue value) const {
    check_id(value);
    require(defined_[static_cast<std::size_t>(value.id)], "value %{} is used before it is defined", value.id);
  }

  void define(TileValue value) {
    check_id(value);
    require(!defined_[static_cast<std::size_t>(value.id)], "value %{} is defined twice", value.id);
    defined_[static_cast<std::size_t>(value.id)] = true;
  }

  void same_type(TileValue a, TileValue b) const {
    require(info(a).dtype == info(b).dtype && info(a).lanes == info(b).lanes,
            "%{} and %{} have different types", a.id, b.id);
  }

  void check_access(const Access& access, const Node& node) const {
    require(access.strides.size() == kernel_.axes.size(), "{} strides for {} axes", access.strides.size(),
            kernel_.axes.size());
    if (!std::holds_alternative<Random>(node)) {
      require(access.argument >= 0 && static_cast<std::size_t>(access.argument) < kernel_.arguments.size(),
              "argument {} does not exist", access.argument);
    }
    for (std::size_t axis = 0; axis < kernel_.axes.size() && !in_body_; ++axis) {
      require(kernel_.axes[axis].use != AxisUse::row || access.strides[axis] == 0,
              "a stride along row axis {} outside of the body", kernel_.axes[axis].name);
    }
  }

  void require_lanes(TileValue result, const Lanes& lanes) const {
    for (std::int32_t lane : lanes) {
      require(contains_lane(info(result).lanes, lane), "the result lacks lane axis {}",
              kernel_.axes[static_cast<std::size_t>(lane)].name);
    }
  }

  void check(const Load& n) const {
    require(kernel_.arguments[static_cast<std::size_t>(n.access.argument)].use != ArgumentUse::write,
            "argument {} is only written", n.access.argument);
    require_lanes(n.result, access_lanes(kernel_, n.access));
    if (!n.index) return;
    require_lanes(n.result, info(n.index).lanes);
    require(ir::is_integer(info(n.index).dtype), "the index is {}", ir::dtype_name(info(n.index).dtype));
    require(n.index_limit >= 1, "the index limit is {}", n.index_limit);
  }

  void check(const Store& n) const {
    require(kernel_.arguments[static_cast<std::size_t>(n.access.argument)].use != ArgumentUse::read,
            "argument {} is only read", n.access.argument);
    for (std::int32_t lane : info(n.value).lanes) {
      require(n.access.strides[static_cast<std::size_t>(lane)] != 0,
              "no stride along the value's lane axis {}", kernel_.axes[static_cast<std::size_t>(lane)].name);
    }
    if (n.predicate) {
      require(info(n.predicate).dtype == ir::DType::i1 && info(n.predicate).lanes.empty(),
              "the predicate is not an i1 scalar");
    }
  }

  void check(const Pointwise& n) const {
    const ir::OpInfo& op = ir::op_info(n.code);
    require(op.op_class == ir::OpClass::pointwise, "{} is not a pointwise op", op.name);
    const bool by_exp = n.code == ir::Opcode::erf && n.operands.size() == 2;
    require(by_exp || static_cast<int>(n.operands.size()) == op.min_operands, "{} operands, {} are needed",
            n.operands.size(), op.min_operands);
    Lanes lanes;
    for (TileValue operand : n.operands) lanes = lane_union(lanes, info(operand).lanes);
    require(lanes == info(n.result).lanes, "the result's lanes are not the union of the operands'");
    require((n.code == ir::Opcode::compare) == !n.direction.empty(), "direction '{}'", n.direction);
    check_dtypes(n);
  }

  void check_dtypes(const Pointwise& n) const {
    if (n.code == ir::Opcode::cast) return;
    const ir::DType result = info(n.result).dtype;
    const ir::DType first = info(n.operands[0]).dtype;
    const bool truth = n.code == ir::Opcode::compare || n.code == ir::Opcode::isfinite;
    const bool select = n.code == ir::Opcode::select;
    const bool logical = n.code == ir::Opcode::logical_and || n.code == ir::Opcode::logical_or ||
                         n.code == ir::Opcode::logical_not;
    if (truth || logical)
      require(result == ir::DType::i1, "the result is {}, not i1", ir::dtype_name(result));
    if (select || logical) require(first == ir::DType::i1, "operand 0 is {}, not i1", ir::dtype_name(first));
    for (std::size_t i = select ? 1 : 0; i < n.operands.size(); ++i) {
      const ir::DType operand = info(n.operands[i]).dtype;
      require(operand == (truth ? first : result), "operand {} is {}, not {}", i, ir::dtype_name(operand),
              ir::dtype_name(truth ? first : result));
    }
    if (n.code == ir::Opcode::compare) {
      constexpr std::string_view kDirections[] = {"lt", "le", "gt", "ge", "eq", "ne"};
      require(std::find(std::begin(kDirections), std::end(kDirections), n.direction) != std::end(kDirections),
              "direction '{}'", n.direction);
    }
  }

  void check(const Constant&) const {}

  void check(const Index& n) const {
    require(n.axis >= 0 && static_cast<std::size_t>(n.axis) < kernel_.axes.size(), "axis {} does not exist",
            n.axis);
    const AxisUse use_of_axis = kernel_.axes[static_cast<std::size_t>(n.axis)].use;
    require(use_of_axis != AxisUse::row || in_body_, "a row index outside of the body");
    require(info(n.result).lanes == (use_of_axis == AxisUse::lane ? Lanes{n.axis} : Lanes{}),
            "the result's lanes differ from the axis");
  }

  void check(const Reduce& n) const {
    require(!n.axes.empty(), "no axes to reduce over");
    Lanes rest;
    for (std::int32_t lane : info(n.operand).lanes) {
      if (!contains_lane(n.axes, lane)) rest.push_back(lane);
    }
    for (std::size_t i = 0; i < n.axes.size(); ++i) {
      require(contains_lane(info(n.operand).lanes, n.axes[i]), "axis {} is not a lane of the operand",
              n.axes[i]);
      require(i == 0 || n.axes[i - 1] < n.axes[i], "the axes are not ascending");
    }
    require(info(n.result).lanes == rest, "the result's lanes are not the remaining ones");
    const ir::DType dtype = info(n.operand).dtype;
    const bool adds = dtype != ir::DType::i1 && dtype != ir::DType::bf16 && dtype != ir::DType::f16;
    require(info(n.result).dtype == dtype && adds,
            "from {} to {}; f32, f64, i64, i32 and u8 add up in their own dtype", ir::dtype_name(dtype),
            ir::dtype_name(info(n.result).dtype));
  }

  void check(const Dot& n) const {
    const Lanes& a = info(n.a).lanes;
    const Lanes& b = info(n.b).lanes;
    Lanes shared;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(shared));
    require(shared == Lanes{n.contract}, "a and b must share only the contracted lane");
    require(b.size() == 2, "b has {} lanes, 2 are needed", b.size());
    Lanes rest = lane_union(a, b);
    std::erase(rest, n.contract);
    require(info(n.result).lanes == rest, "the result's lanes are not the remaining ones");
    for (TileValue value : {n.a, n.b, n.result}) {
      require(info(value).dtype == ir::DType::f32, "%{} is {}, not f32", value.id,
              ir::dtype_name(info(value).dtype));
    }
  }

  void check(const Random& n) const {
    require(bool{n.stream_low} == bool{n.stream_high}, "a stream with only one half");
    for (TileValue value : operands_of(Node(n))) {
      require(info(value).dtype == ir::DType::i64 && info(value).lanes.empty(), "%{} is not an i64 scalar",
              value.id);
    }
    const ir::DType result = info(n.result).dtype;
    require(result == ir::DType::f32 || result == ir::DType::f64, "the result is {}", ir::dtype_name(result));
    require_lanes(n.result, access_lanes(kernel_, n.element));
  }

  const Kernel& kernel_;
  std::vector<bool> defined_;
  bool in_body_ = false;
  std::string where_;
};

}  // namespace

void verify(const Kernel& kernel) {
  Verifier(kernel).run();
}

}  // namespace rewire::codegen::tile
