// Attention as tile programs; see attention.h.
#include "codegen/fuse/attention.h"

#include <algorithm>

#include "ir/error.h"

namespace rewire::codegen {
namespace {

using ir::DType;
using ir::Opcode;
using tile::TileValue;

// Queries of one tile: the scores of a tile and the head's keys and values share the second-level cache.
constexpr std::int64_t kMaxTile = 128;

std::int64_t tile_extent(std::int64_t queries) {
  for (std::int64_t d = std::min(queries, kMaxTile); d > 1; --d) {
    if (queries % d == 0) return d;
  }
  return 1;
}

// The axes of both kernels, in order.
enum AxisIndex : std::int32_t { kBatch, kHead, kTile, kQuery, kKey, kChannel, kAxes };

class AttentionKernel {
 public:
  AttentionKernel(const Program& program, const View& q, const View& k, tile::AxisUse tiles,
                  const std::string& name)
      : program_(program) {
    tile_ = tile_extent(q.shape[2]);
    kernel_.name = name;
    kernel_.axes = {{"b", q.shape[0], tile::AxisUse::outer}, {"h", q.shape[1], tile::AxisUse::outer},
                    {"t", q.shape[2] / tile_, tiles},        {"m", tile_, tile::AxisUse::lane},
                    {"n", k.shape[2], tile::AxisUse::lane},  {"d", q.shape[3], tile::AxisUse::lane}};
  }

  tile::Kernel& kernel() { return kernel_; }
  std::vector<tile::Node>& prologue() { return kernel_.prologue; }
  std::vector<tile::Node>& body() { return kernel_.body; }

  TileValue value(std::vector<std::int32_t> lanes) {
    kernel_.values.push_back({DType::f32, std::move(lanes)});
    return {static_cast<std::int32_t>(kernel_.values.size()) - 1};
  }

  // A view [B, H, rows, columns] whose rows are queries (tiled) or keys and whose columns are channels, or a
  // single one.
  tile::Access access(const View& view, bool queries, bool channels, tile::ArgumentUse use) {
    tile::Access a{argument(view.buffer, use), view.offset, std::vector<std::int64_t>(kAxes, 0), 0};
    a.strides[kBatch] = view.strides[0];
    a.strides[kHead] = view.strides[1];
    if (queries) a.strides[kTile] = view.strides[2] * tile_;
    a.strides[queries ? kQuery : kKey] = view.strides[2];
    if (channels) a.strides[kChannel] = view.strides[3];
    return a;
  }

  TileValue load(std::vector<tile::Node>& nodes, const View& view, bool queries, bool channels = true) {
    std::vector<std::int32_t> lanes = {queries ? kQuery : kKey};
    if (channels) lanes.push_back(kChannel);
    const TileValue result = value(std::move(lanes));
    nodes.push_back(tile::Load{result, access(view, queries, channels, tile::ArgumentUse::read), {}, 0, 0});
    return result;
  }

  void store(std::vector<tile::Node>& nodes, TileValue v, const View& view, bool queries,
             bool channels = true) {
    nodes.push_back(tile::Store{v, access(view, queries, channels, tile::ArgumentUse::write), {}});
  }

  TileValue constant(double number) {
    const TileValue result = value({});
    prologue().push_back(tile::Constant{result, number});
    return result;
  }

  TileValue pointwise(std::vector<tile::Node>& nodes, Opcode code, std::vector<TileValue> operands) {
    std::vector<std::int32_t> lanes;
    for (TileValue operand : operands) {
      for (std::int32_t lane : kernel_.values[static_cast<std::size_t>(operand.id)].lanes) {
        if (std::find(lanes.begin(), lanes.end(), lane) == lanes.end()) lanes.push_back(lane);
      }
    }
    std::sort(lanes.begin(), lanes.end());
    const TileValue result = value(std::move(lanes));
    nodes.push_back(tile::Pointwise{result, code, std::move(operands), {}});
    return result;
  }

  TileValue reduce(std::vector<tile::Node>& nodes, tile::ReduceKind kind, TileValue operand,
                   std::int32_t axis) {
    std::vector<std::int32_t> lanes = kernel_.values[static_cast<std::size_t>(operand.id)].lanes;
    std::erase(lanes, axis);
    const TileValue result = value(std::move(lanes));
    nodes.push_back(tile::Reduce{result, kind, operand, {axis}});
    return result;
  }

  TileValue dot(std::vector<tile::Node>& nodes, TileValue a, TileValue b, std::int32_t contract,
                std::vector<std::int32_t> lanes) {
    const TileValue result = value(std::move(lanes));
    nodes.push_back(tile::Dot{result, a, b, contract});
    return result;
  }

  KernelLaunch finish(const std::string& origin) {
    kernel_.origin = {origin};
    tile::verify(kernel_);
    return {std::move(kernel_), std::move(buffers_)};
  }

 private:
  std::int32_t argument(std::int32_t buffer, tile::ArgumentUse use) {
    const auto it = std::find(buffers_.begin(), buffers_.end(), buffer);
    if (it != buffers_.end()) {
      auto& argument = kernel_.arguments[static_cast<std::size_t>(it - buffers_.begin())];
      if (argument.use != use) argument.use = tile::ArgumentUse::read_write;
      return static_cast<std::int32_t>(it - buffers_.begin());
    }
    buffers_.push_back(buffer);
    const Buffer& b = program_.buffers[static_cast<std::size_t>(buffer)];
    kernel_.arguments.push_back({b.name, b.type.dtype, use});
    return static_cast<std::int32_t>(buffers_.size()) - 1;
  }

  const Program& program_;
  tile::Kernel kernel_;
  std::vector<std::int32_t> buffers_;
  std::int64_t tile_ = 1;
};

std::string kernel_name(const std::string& location, const char* what, const View& q, const View& k) {
  std::string name;
  for (char c : location) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fmt::format("{}{}{}_{}x{}x{}x{}", name, name.empty() ? "" : "_", what, q.shape[0] * q.shape[1],
                     q.shape[2], k.shape[2], q.shape[3]);
}

}  // namespace

KernelLaunch emit_attention(const Program& program, std::span<const View> operands,
                            std::span<const View> results, double scale, const std::string& location) {
  const View &q = operands[0], &k = operands[1], &v = operands[2];
  AttentionKernel a(program, q, k, tile::AxisUse::outer, kernel_name(location, "attention", q, k));
  auto& nodes = a.prologue();
  const TileValue factor = a.constant(scale);
  const TileValue queries = a.load(nodes, q, true), keys = a.load(nodes, k, false),
                  values = a.load(nodes, v, false);
  const TileValue scores =
      a.pointwise(nodes, Opcode::mul, {a.dot(nodes, queries, keys, kChannel, {kQuery, kKey}), factor});
  const TileValue largest = a.reduce(nodes, tile::ReduceKind::max, scores, kKey);
  const TileValue weights =
      a.pointwise(nodes, Opcode::exp, {a.pointwise(nodes, Opcode::sub, {scores, largest})});
  const TileValue sum = a.reduce(nodes, tile::ReduceKind::sum, weights, kKey);
  const TileValue mixed = a.dot(nodes, weights, values, kKey, {kQuery, kChannel});
  a.store(nodes, a.pointwise(nodes, Opcode::div, {mixed, sum}), results[0], true);
  const TileValue log_sum =
      a.pointwise(nodes, Opcode::add, {largest, a.pointwise(nodes, Opcode::log, {sum})});
  a.store(nodes, log_sum, results[1], true, false);
  return a.finish("attention at " + location);
}

KernelLaunch emit_attention_grad(const Program& program, std::span<const View> operands,
                                 std::span<const View> results, double scale, const std::string& location) {
  const View &q = operands[0], &k = operands[1], &v = operands[2], &o = operands[3], &l = operands[4],
             &d_o = operands[5];
  AttentionKernel a(program, q, k, tile::AxisUse::row, kernel_name(location, "attention_grad", q, k));
  const TileValue factor = a.constant(scale);
  auto& nodes = a.body();
  const TileValue queries = a.load(nodes, q, true), keys = a.load(nodes, k, false),
                  values = a.load(nodes, v, false);
  const TileValue out = a.load(nodes, o, true), gradient = a.load(nodes, d_o, true),
                  log_sum = a.load(nodes, l, true, false);
  const TileValue scores =
      a.pointwise(nodes, Opcode::mul, {a.dot(nodes, queries, keys, kChannel, {kQuery, kKey}), factor});
  const TileValue weights =
      a.pointwise(nodes, Opcode::exp, {a.pointwise(nodes, Opcode::sub, {scores, log_sum})});
  const TileValue inner =
      a.reduce(nodes, tile::ReduceKind::sum, a.pointwise(nodes, Opcode::mul, {gradient, out}), kChannel);
  const TileValue d_weights = a.dot(nodes, gradient, values, kChannel, {kQuery, kKey});
  const TileValue scaled = a.pointwise(nodes, Opcode::mul, {weights, factor});
  const TileValue d_scores =
      a.pointwise(nodes, Opcode::mul, {scaled, a.pointwise(nodes, Opcode::sub, {d_weights, inner})});
  a.store(nodes, a.dot(nodes, d_scores, keys, kKey, {kQuery, kChannel}), results[0], true);
  const auto carry = [&](TileValue added, const View& result) {
    const std::vector<std::int32_t> lanes = {kKey, kChannel};
    tile::Carried carried{a.value(lanes), a.value(lanes), {}, a.value(lanes)};
    a.prologue().push_back(tile::Constant{carried.initial, 0});
    carried.next = a.pointwise(nodes, Opcode::add, {carried.entry, added});
    a.kernel().carried.push_back(carried);
    a.store(a.kernel().epilogue, carried.last, result, false);
  };
  carry(a.dot(nodes, d_scores, queries, kQuery, {kKey, kChannel}), results[1]);
  carry(a.dot(nodes, weights, gradient, kQuery, {kKey, kChannel}), results[2]);
  return a.finish("attention_grad at " + location);
}

}  // namespace rewire::codegen
