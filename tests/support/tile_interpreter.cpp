// One function a node. A value is a dense tensor over its lanes; pointwise nodes ask the op table's own
// evaluators.
#include "tests/support/tile_interpreter.h"

#include <algorithm>
#include <cmath>

#include "codegen/tile/walk.h"
#include "ir/error.h"
#include "ir/ops/op_info.h"
#include "ir/philox.h"

namespace rewire::test {
namespace {

using namespace codegen::tile;  // NOLINT: the subject of this file
using Index64 = std::int64_t;

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, std::vector<TileMemory>& arguments)
      : kernel_(kernel), memory_(arguments), index_(kernel.axes.size()), values_(kernel.values.size()) {}

  void run() {
    for (Index64 instance = 0; instance < kernel_.instances(); ++instance) {
      partition_ = instance % kernel_.partitions;
      decompose(instance / kernel_.partitions, AxisUse::outer);
      run_instance();
    }
  }

 private:
  void run_instance() {
    run_nodes(kernel_.prologue);
    for (const Carried& carried : kernel_.carried) at(carried.entry) = at(carried.initial);
    const Index64 rows = kernel_.rows_per_partition();
    const Index64 end = std::min((partition_ + 1) * rows, kernel_.row_count());
    const bool has_body = !kernel_.body.empty() || !kernel_.carried.empty();
    for (Index64 row = partition_ * rows; has_body && row < end; ++row) {
      decompose(row, AxisUse::row);
      if (is_beyond_bounds()) continue;
      run_nodes(kernel_.body);
      std::vector<std::vector<double>> next;
      for (const Carried& carried : kernel_.carried) next.push_back(at(carried.next));
      for (std::size_t i = 0; i < next.size(); ++i) at(kernel_.carried[i].entry) = next[i];
    }
    for (const Carried& carried : kernel_.carried) at(carried.last) = at(carried.entry);
    run_nodes(kernel_.epilogue);
  }

  bool is_beyond_bounds() {
    if (!kernel_.bounds) return false;
    std::size_t last = kernel_.axes.size() - 1;
    while (kernel_.axes[last].use != AxisUse::row) --last;
    const auto row = static_cast<double>(index_[last]);
    return row < element(kernel_.bounds->first) || row >= element(kernel_.bounds->end);
  }

  /// Whether an access at index_ is beyond the points of a short tile.
  bool is_beyond(const Access& access) const {
    return std::ranges::any_of(kernel_.short_tiles, [&](const ShortTile& one) {
      const auto tile = static_cast<std::size_t>(one.tile), lane = static_cast<std::size_t>(one.lane);
      return access.strides[lane] != 0 &&
             index_[tile] * kernel_.axes[lane].extent + index_[lane] >= one.count;
    });
  }

  void run_nodes(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      std::visit([&](const auto& n) { run_node(n); }, node);
    }
  }

  std::vector<double>& at(TileValue value) { return values_[static_cast<std::size_t>(value.id)]; }
  const ValueInfo& info(TileValue value) const { return kernel_.values[static_cast<std::size_t>(value.id)]; }

  void decompose(Index64 linear, AxisUse use) {
    for (std::size_t axis = kernel_.axes.size(); axis-- > 0;) {
      if (kernel_.axes[axis].use != use) continue;
      index_[axis] = linear % kernel_.axes[axis].extent;
      linear /= kernel_.axes[axis].extent;
    }
  }

  /// Calls `body(linear)` at every point of these lanes, row-major, with index_ set.
  template <class Body>
  void for_each(const std::vector<std::int32_t>& lanes, Body body) {
    Index64 count = 1;
    for (std::int32_t lane : lanes) count *= kernel_.axes[static_cast<std::size_t>(lane)].extent;
    for (Index64 linear = 0; linear < count; ++linear) {
      Index64 rest = linear;
      for (std::size_t i = lanes.size(); i-- > 0;) {
        const Index64 extent = kernel_.axes[static_cast<std::size_t>(lanes[i])].extent;
        index_[static_cast<std::size_t>(lanes[i])] = rest % extent;
        rest /= extent;
      }
      body(static_cast<std::size_t>(linear));
    }
  }

  /// A value's element at index_.
  double element(TileValue value) {
    const std::vector<std::int32_t>& lanes = info(value).lanes;
    Index64 linear = 0;
    for (std::int32_t lane : lanes) {
      linear = linear * kernel_.axes[static_cast<std::size_t>(lane)].extent +
               index_[static_cast<std::size_t>(lane)];
    }
    return at(value).at(static_cast<std::size_t>(linear));
  }

  Index64 address(const Access& access) const {
    Index64 linear = access.offset + access.part_stride * partition_;
    for (std::size_t axis = 0; axis < access.strides.size(); ++axis)
      linear += access.strides[axis] * index_[axis];
    return linear;
  }

  double& memory(const Access& access, Index64 linear) {
    TileMemory& data = memory_.at(static_cast<std::size_t>(access.argument));
    if (linear < 0 || linear >= static_cast<Index64>(data.size())) {
      internal_error("tile kernel {}: element {} of argument {}, which has {}", kernel_.name, linear,
                     kernel_.arguments[static_cast<std::size_t>(access.argument)].name, data.size());
    }
    return data[static_cast<std::size_t>(linear)];
  }

  template <class Function>
  void fill(TileValue result, Function function) {
    std::vector<double> data;
    for_each(info(result).lanes, [&](std::size_t) { data.push_back(function()); });
    at(result) = std::move(data);
  }

  /// To a dtype whose values are not all doubles. f32 stays in double precision.
  static double as(ir::DType dtype, double value) {
    return dtype == ir::DType::f32 ? value : ir::round_to(dtype, value);
  }

  void run_node(const Load& n) {
    fill(n.result, [&] {
      if (is_beyond(n.access)) return 0.0;
      Index64 linear = address(n.access);
      if (n.index) {
        linear += std::clamp<Index64>(static_cast<Index64>(element(n.index)), 0, n.index_limit - 1) *
                  n.index_stride;
      }
      return as(info(n.result).dtype, memory(n.access, linear));
    });
  }

  void run_node(const Store& n) {
    if (n.predicate && element(n.predicate) == 0) return;
    const ir::DType stored = kernel_.arguments[static_cast<std::size_t>(n.access.argument)].dtype;
    for_each(lane_union(info(n.value).lanes, access_lanes(kernel_, n.access)), [&](std::size_t) {
      if (!is_beyond(n.access))
        memory(n.access, address(n.access)) = ir::round_to(stored, as(stored, element(n.value)));
    });
  }

  void run_node(const Pointwise& n) {
    const ValueInfo& result = info(n.result);
    std::vector<ir::Tensor> operands;
    for (TileValue operand : n.operands) {
      fill_operand(result.lanes, operand, operands);
    }
    ir::Op op;
    op.code = n.code;
    if (!n.direction.empty()) op.attributes.set("direction", n.direction);
    std::vector<ir::Tensor> results = {ir::Tensor({result.dtype, operands[0].type.shape})};
    ir::EvalState state;
    ir::EvalContext context{op, {}, results, state};
    for (const ir::Tensor& operand : operands) context.operands.push_back(&operand);
    ir::op_info(n.code).evaluate(context);
    for (double& x : results[0].data) x = as(result.dtype, x);
    at(n.result) = results[0].data;
  }

  /// The operand broadcast to these lanes.
  void fill_operand(const std::vector<std::int32_t>& lanes, TileValue operand,
                    std::vector<ir::Tensor>& operands) {
    std::vector<double> data;
    for_each(lanes, [&](std::size_t) { data.push_back(element(operand)); });
    const auto count = static_cast<Index64>(data.size());
    operands.emplace_back(ir::TensorType{info(operand).dtype, {count}}, std::move(data));
  }

  void run_node(const Constant& n) {
    fill(n.result, [&] { return as(info(n.result).dtype, n.value); });
  }

  void run_node(const codegen::tile::Index& n) {
    fill(n.result, [&] { return static_cast<double>(index_[static_cast<std::size_t>(n.axis)]); });
  }

  void run_node(const Reduce& n) {
    fill(n.result, [&] {
      double total = n.kind == ReduceKind::sum ? 0 : -INFINITY;
      const std::vector<Index64> outside = index_;
      for_each(n.axes, [&](std::size_t) {
        const double x = element(n.operand);
        total = n.kind == ReduceKind::sum ? total + x : std::isnan(total) || total > x ? total : x;
      });
      index_ = outside;
      return total;
    });
  }

  void run_node(const Dot& n) {
    fill(n.result, [&] {
      double total = 0;
      for_each({n.contract}, [&](std::size_t) { total += element(n.a) * element(n.b); });
      return total;
    });
  }

  void run_node(const Random& n) {
    const auto word = [&](TileValue value) { return static_cast<std::uint64_t>(element(value)); };
    const ir::PhiloxStream stream{word(n.seed), static_cast<std::uint32_t>(element(n.step)),
                                  n.stream_low ? word(n.stream_low) | word(n.stream_high) << 32 : n.stream};
    fill(n.result, [&] {
      const auto index = static_cast<std::uint64_t>(address(n.element));
      return n.normal ? stream.normal(index) : stream.uniform(index);
    });
  }

  const Kernel& kernel_;
  std::vector<TileMemory>& memory_;
  std::vector<Index64> index_;
  std::vector<std::vector<double>> values_;
  Index64 partition_ = 0;
};

}  // namespace

void interpret(const Kernel& kernel, std::vector<TileMemory>& arguments) {
  Interpreter(kernel, arguments).run();
}

}  // namespace rewire::test
