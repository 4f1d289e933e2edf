// Addresses at points, and what row kernels touch; see sectors.h.
#include "codegen/cuda/sectors.h"

#include <cmath>
#include <cstdlib>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Kernel;
using tile::Node;
using tile::TileValue;

constexpr std::int64_t kSampledBlocks = 8;
constexpr int kMostIndexNodes = 64;  // of an index that is recomputed at every point

bool compares(const std::string& direction, double a, double b) {
  if (direction == "lt") return a < b;
  if (direction == "le") return a <= b;
  if (direction == "gt") return a > b;
  if (direction == "ge") return a >= b;
  return (a == b) == (direction == "eq");
}

/// Sets the indices of some axes from the row-major index of them all.
void set_indices(const Kernel& kernel, const std::vector<std::int32_t>& axes, std::int64_t linear,
                 Point& point) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    point[axis] = linear % kernel.axes[axis].extent;
    linear /= kernel.axes[axis].extent;
  }
}

class RowCounter {
 public:
  RowCounter(const Kernel& kernel, const RowsPlan& plan)
      : kernel_(kernel),
        plan_(plan),
        outer_(axes_of(kernel, AxisUse::outer)),
        rows_(axes_of(kernel, AxisUse::row)) {
    if (rows_.empty()) std::swap(outer_, rows_);  // each outer point is a row
    for (Address& address : addresses_of(kernel)) {
      if (address.is_known()) addresses_.push_back(std::move(address));
    }
  }

  BlockTraffic of_block(std::int64_t block) {
    const std::int64_t lane_block = block % plan_.lane_blocks, rest = block / plan_.lane_blocks;
    first_thread_ = lane_block * plan_.threads * plan_.chunks;
    first_row_ = rest % plan_.row_blocks * plan_.groups * plan_.repeats;
    point_.assign(kernel_.axes.size(), 0);
    set_indices(kernel_, outer_, rest / plan_.row_blocks, point_);
    Traffic traffic;
    for (const Address& address : addresses_) {
      for (int i = 0; i < plan_.repeats; ++i) {
        for (int thread = 0; thread < plan_.block_threads(); thread += kWarp)
          traffic += of_warp(address, thread, i);
      }
    }
    const std::int64_t step = std::int64_t{plan_.groups} * plan_.repeats;
    const std::int64_t rows = std::min(plan_.rows - first_row_, step);
    const std::int64_t span = std::int64_t{plan_.threads} * plan_.elements();
    return {traffic, rows * std::min(plan_.lanes - lane_block * span, span)};
  }

 private:
  Traffic of_warp(const Address& address, int first, int repeat) {
    const LanePattern pattern = lane_pattern(kernel_, address.access());
    const auto* load = std::get_if<tile::Load>(&address.node());
    const bool by_lane = load != nullptr && load->index &&
                         !kernel_.values[static_cast<std::size_t>(load->index.id)].lanes.empty();
    const int width = pattern != LanePattern::contiguous || by_lane ? 1 : plan_.vector;
    const int elements = pattern == LanePattern::scalar && !by_lane ? 1 : plan_.elements();
    Traffic traffic;
    for (int e = 0; e < elements; e += width) {
      for (int thread = first; thread < first + kWarp; ++thread) touch(address, thread, repeat, e, width);
      traffic += request_.take();
    }
    return traffic;
  }

  void touch(const Address& address, int thread, int repeat, int e, int width) {
    const std::int64_t row = first_row_ + std::int64_t{repeat} * plan_.groups + thread / plan_.threads;
    const std::int64_t in_row = thread % plan_.threads + first_thread_;
    const std::int64_t lane =
        (e / plan_.vector * std::int64_t{plan_.threads} + in_row) * plan_.vector + e % plan_.vector;
    if (row >= plan_.rows || lane >= plan_.lanes) return;
    set_indices(kernel_, rows_, row, point_);
    set_indices(kernel_, plan_.lane_axes, lane, point_);
    request_.touch(address.element(point_) * address.bytes(), width * address.bytes());
  }

  const Kernel& kernel_;
  const RowsPlan& plan_;
  std::vector<std::int32_t> outer_, rows_;
  std::vector<Address> addresses_;
  std::int64_t first_thread_ = 0, first_row_ = 0;
  Point point_;
  Request request_;
};

}  // namespace

Address::Address(const Kernel& kernel, const Node& node)
    : kernel_(&kernel), node_(&node), access_(tile::access_of(node)), strides_(access_->strides) {
  bytes_ = static_cast<std::int64_t>(
      ir::dtype_bytes(kernel.arguments[static_cast<std::size_t>(access_->argument)].dtype));
  if (const auto* load = std::get_if<tile::Load>(&node); load != nullptr && load->index) {
    index_ = load->index;
    index_stride_ = load->index_stride, index_limit_ = load->index_limit;
    definitions_.resize(kernel.values.size());
    visit_nodes(kernel, [&](const Node& one) {
      if (const TileValue result = tile::result_of(one))
        definitions_[static_cast<std::size_t>(result.id)] = &one;
    });
    int nodes = kMostIndexNodes;
    known_ = is_computed(index_, nodes);
  }
  if (known_) sort_axes();
}

/// Returns whether a value is computed from indices and constants alone, by the ops of index arithmetic.
bool Address::is_computed(TileValue value, int& nodes) const {
  if (--nodes < 0) return false;
  const Node* node = definitions_[static_cast<std::size_t>(value.id)];
  if (node == nullptr) return false;
  if (std::holds_alternative<tile::Constant>(*node) || std::holds_alternative<tile::Index>(*node))
    return true;
  const auto* op = std::get_if<tile::Pointwise>(node);
  if (op == nullptr) return false;
  switch (op->code) {
    case ir::Opcode::add:
    case ir::Opcode::sub:
    case ir::Opcode::mul:
    case ir::Opcode::maximum:
    case ir::Opcode::minimum:
    case ir::Opcode::cast:
    case ir::Opcode::compare:
    case ir::Opcode::select:
      break;
    default:
      return false;
  }
  return std::all_of(op->operands.begin(), op->operands.end(),
                     [&](TileValue operand) { return is_computed(operand, nodes); });
}

double Address::index(TileValue value, const Point& point) const {
  const Node& node = *definitions_[static_cast<std::size_t>(value.id)];
  if (const auto* constant = std::get_if<tile::Constant>(&node)) return constant->value;
  if (const auto* index = std::get_if<tile::Index>(&node))
    return static_cast<double>(point[static_cast<std::size_t>(index->axis)]);
  return pointwise(std::get<tile::Pointwise>(node), point);
}

double Address::pointwise(const tile::Pointwise& node, const Point& point) const {
  const auto x = [&](std::size_t operand) { return index(node.operands[operand], point); };
  switch (node.code) {
    case ir::Opcode::add:
      return x(0) + x(1);
    case ir::Opcode::sub:
      return x(0) - x(1);
    case ir::Opcode::mul:
      return x(0) * x(1);
    case ir::Opcode::maximum:
      return std::max(x(0), x(1));
    case ir::Opcode::minimum:
      return std::min(x(0), x(1));
    case ir::Opcode::compare:
      return compares(node.direction, x(0), x(1)) ? 1 : 0;
    case ir::Opcode::select:
      return x(0) != 0 ? x(1) : x(2);
    default:  // cast
      return std::trunc(x(0));
  }
}

void Address::depend(TileValue value, std::vector<bool>& axes) const {
  const Node& node = *definitions_[static_cast<std::size_t>(value.id)];
  if (const auto* index = std::get_if<tile::Index>(&node)) axes[static_cast<std::size_t>(index->axis)] = true;
  for (TileValue operand : tile::operands_of(node)) depend(operand, axes);
}

void Address::sort_axes() {
  std::vector<bool> depends(strides_.size(), false);
  for (std::size_t axis = 0; axis < strides_.size(); ++axis) depends[axis] = strides_[axis] != 0;
  if (index_) {
    depend(index_, depends);
    Point middle(strides_.size());
    for (std::size_t axis = 0; axis < middle.size(); ++axis)
      middle[axis] = (kernel_->axes[axis].extent - 1) / 2;
    const std::int64_t here = element(middle);
    for (std::size_t axis = 0; axis < middle.size(); ++axis) {
      if (kernel_->axes[axis].extent == 1) continue;
      ++middle[axis];
      strides_[axis] = element(middle) - here;
      --middle[axis];
    }
  }
  for (std::size_t axis = strides_.size(); axis-- > 0;) {
    if (depends[axis] && kernel_->axes[axis].extent > 1) order_.push_back(static_cast<std::int32_t>(axis));
  }
  // A stride of 0 in the middle of the kernel comes from a clamp or a jump. It does not describe neighbours.
  std::ranges::stable_sort(order_, {}, [&](std::int32_t axis) {
    const std::int64_t stride = std::abs(strides_[static_cast<std::size_t>(axis)]);
    return std::pair(stride == 0, stride);
  });
}

std::int64_t Address::element(const Point& point) const {
  std::int64_t element = access_->offset;
  for (std::size_t axis = 0; axis < point.size(); ++axis) element += access_->strides[axis] * point[axis];
  if (!index_) return element;
  const double asked = index(index_, point);
  const double at = asked > 0 ? std::min(asked, static_cast<double>(index_limit_ - 1)) : 0;
  return element + index_stride_ * static_cast<std::int64_t>(at);
}

std::vector<Address> addresses_of(const Kernel& kernel) {
  std::vector<Address> addresses;
  visit_nodes(kernel, [&](const Node& node) {
    if (tile::access_of(node) != nullptr && !std::holds_alternative<tile::Random>(node))
      addresses.emplace_back(kernel, node);
  });
  return addresses;
}

void Request::touch(std::int64_t byte, std::int64_t bytes) {
  for (std::int64_t sector = byte / kSectorBytes; sector <= (byte + bytes - 1) / kSectorBytes; ++sector)
    touched_.push_back(sector);
}

Traffic Request::take() {
  constexpr std::int64_t kSectors = kLineBytes / kSectorBytes;
  std::ranges::sort(touched_);
  Traffic traffic;
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    if (i > 0 && touched_[i] == touched_[i - 1]) continue;
    ++traffic.sectors;
    if (i == 0 || touched_[i] / kSectors != touched_[i - 1] / kSectors) ++traffic.lines;
  }
  touched_.clear();
  return traffic;
}

Traffic over_blocks(std::int64_t blocks, std::int64_t points,
                    const std::function<BlockTraffic(std::int64_t)>& of_block) {
  constexpr double kStep = 0.6180339887498949;  // from the golden ratio: no two samples coincide
  const std::int64_t count = std::min(blocks, kSampledBlocks);
  BlockTraffic sum;
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * kStep;
    const BlockTraffic one = of_block(
        blocks == count ? i : static_cast<std::int64_t>((at - std::floor(at)) * static_cast<double>(blocks)));
    sum.traffic += one.traffic;
    sum.points += one.points;
  }
  const double share = static_cast<double>(points) / static_cast<double>(sum.points);
  return {std::llround(static_cast<double>(sum.traffic.sectors) * share),
          std::llround(static_cast<double>(sum.traffic.lines) * share)};
}

Traffic row_traffic(const Kernel& kernel, const RowsPlan& plan) {
  RowCounter counter(kernel, plan);
  return over_blocks(plan.blocks(), plan.outer * plan.rows * plan.lanes,
                     [&](std::int64_t block) { return counter.of_block(block); });
}

}  // namespace rewire::codegen::cuda
