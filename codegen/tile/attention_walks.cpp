// Writes the kernels of attention_walks.h node by node.
#include "codegen/tile/attention_walks.h"

#include <algorithm>

#include "codegen/tile/attention_nodes.h"
#include "ir/opcodes.h"

namespace rewire::codegen::tile {
namespace {

using ir::DType;
using ir::Opcode;

// Tokens of a tile. A warp has 16 rows, and its sums of 16 x `width` elements in registers; with the scores of
// two products it has room for fewer columns, and so for fewer rows of a block.
constexpr std::int64_t kQueries = 128, kKeys = 64;               // forward
constexpr std::int64_t kGradientQueries = 64;                    // of dq, with as many keys
constexpr std::int64_t kGradientKeys = 64, kWalkedQueries = 32;  // of dk and dv
constexpr std::int64_t kWideHead = 64;  // channels; wider heads walk half as many tokens at once

Part tiles_of(std::int64_t tokens, std::int64_t size) {
  return {0, (tokens + size - 1) / size, size};
}

std::int64_t parts_of_tile(const AttentionShape& shape) {
  return std::max(shape.width, shape.value_width) > kWideHead ? 2 : 1;
}

constexpr std::int64_t floor_of(std::int64_t value, std::int64_t by) {
  return value >= 0 ? value / by : -((by - 1 - value) / by);
}

/// The walked tiles that a tile of the outer axis takes: from scale x tile + first to scale x tile + end.
struct Reach {
  std::int64_t scale = 0, first = 0, end = 0;
};

class WalkedAttention : AttentionNodes {
 public:
  WalkedAttention(const AttentionShape& shape, const char* what, const Part& queries, const Part& keys,
                  const AttentionWalk& walk)
      : AttentionNodes(shape, attention_name(what, shape, queries, keys), queries, keys, walk) {}

  Kernel forward() {
    for (const char* name : {"q", "k", "v"}) argument(name, ArgumentUse::read);
    const std::int32_t output = argument("output", ArgumentUse::write);
    const std::int32_t lse = argument("lse", ArgumentUse::write, DType::f32);
    bound();
    const TileValue q = load(0, shape_.q, m_, {m_, d_});
    const TileValue largest = carry(kUnseen, {m_}), total = carry(0, {m_}), sum = carry(0, {m_, e_});
    nodes_ = &kernel_.body;
    const TileValue k = load(1, shape_.k, n_, {n_, d_}), v = load(2, shape_.v, n_, {n_, e_});
    const TileValue s = logits(dot(q, k, d_));
    const TileValue next = op(Opcode::maximum, {largest, reduce(ReduceKind::max, s, n_)});
    const TileValue reference = exponent(next);
    const TileValue kept = power(op(Opcode::sub, {exponent(largest), reference}));
    const TileValue p = power(op(Opcode::sub, {exponent(s), reference}));
    const TileValue last_largest = pass(largest, next);
    const TileValue last_total =
        pass(total, op(Opcode::add, {op(Opcode::mul, {total, kept}), reduce(ReduceKind::sum, p, n_)}));
    const TileValue last_sum =
        pass(sum, op(Opcode::add, {op(Opcode::mul, {sum, kept}), dot(narrow(p), v, n_)}));
    nodes_ = &kernel_.epilogue;
    store(output, shape_.output, m_, op(Opcode::mul, {last_sum, op(Opcode::div, {constant(1), last_total})}));
    store(lse, shape_.lse, m_,
          op(Opcode::add, {scaled(exponent(last_largest), 1 / unit()), op(Opcode::log, {last_total})}));
    return std::move(kernel_);
  }

  /// Computes dq, and D into memory.
  Kernel backward_queries() {
    gradient_arguments();
    const std::int32_t output = argument("output", ArgumentUse::read);
    const std::int32_t dq = argument("dq", ArgumentUse::write);
    bound();
    const TileValue q = load(0, shape_.q, m_, {m_, d_}), go = load(4, shape_.d_output, m_, {m_, e_});
    const TileValue lse = scaled(load(3, shape_.lse, m_, {m_}), unit());
    const TileValue delta = row_sums(load(4, shape_.d_output, m_, {m_, e_}), output, true);
    const TileValue sum = carry(0, {m_, d_});
    nodes_ = &kernel_.body;
    const TileValue k = load(1, shape_.k, n_, {n_, d_}), v = load(2, shape_.v, n_, {n_, e_});
    const TileValue p = power(op(Opcode::sub, {exponent(logits(dot(q, k, d_))), lse}));
    const TileValue ds = op(Opcode::mul, {p, op(Opcode::sub, {dot(go, v, e_), delta})});
    const TileValue last = pass(sum, op(Opcode::add, {sum, dot(narrow(ds), k, n_)}));
    nodes_ = &kernel_.epilogue;
    store(dq, shape_.dq, m_, scaled(last, shape_.scale));
    return std::move(kernel_);
  }

  /// Computes dk and dv.
  Kernel backward_keys() {
    gradient_arguments();
    const std::int32_t dk = argument("dk", ArgumentUse::write), dv = argument("dv", ArgumentUse::write);
    bound();
    const TileValue k = load(1, shape_.k, n_, {n_, d_}), v = load(2, shape_.v, n_, {n_, e_});
    const TileValue dk_sum = carry(0, {n_, d_}), dv_sum = carry(0, {n_, e_});
    nodes_ = &kernel_.body;
    const TileValue q = load(0, shape_.q, m_, {m_, d_}), go = load(4, shape_.d_output, m_, {m_, e_});
    const TileValue lse = scaled(load(3, shape_.lse, m_, {m_}), unit()), delta = read_row_sums();
    const TileValue p = power(op(Opcode::sub, {exponent(logits(dot(k, q, d_))), lse}));
    const TileValue last_dv = pass(dv_sum, op(Opcode::add, {dv_sum, dot(narrow(p), go, m_)}));
    const TileValue ds = op(Opcode::mul, {p, op(Opcode::sub, {dot(v, go, e_), delta})});
    const TileValue last_dk = pass(dk_sum, op(Opcode::add, {dk_sum, dot(narrow(ds), q, m_)}));
    nodes_ = &kernel_.epilogue;
    store(dk, shape_.dk, n_, scaled(last_dk, shape_.scale));
    store(dv, shape_.dv, n_, last_dv);
    return std::move(kernel_);
  }

 private:
  void gradient_arguments() {
    for (const char* name : {"q", "k", "v"}) argument(name, ArgumentUse::read);
    argument("lse", ArgumentUse::read, DType::f32);
    argument("d_output", ArgumentUse::read);
  }

  /// Returns a value that is carried from tile to tile, as it enters one.
  TileValue carry(double initial, const Lanes& of) {
    const TileValue begins = constant(initial, of);
    kernel_.carried.push_back({begins, value(of), {}, {}});
    return kernel_.carried.back().entry;
  }
  /// Returns its last value.
  TileValue pass(TileValue entry, TileValue next) {
    const auto carried = std::ranges::find(kernel_.carried, entry, &Carried::entry);
    carried->next = next;
    carried->last = value(lanes(next));
    return carried->last;
  }

  // With a positive scale and no bias the logits are kept as the product, and scaled with the subtraction in
  // one multiply-add.
  bool scales_late() const { return shape_.scale > 0 && !shape_.bias; }
  TileValue logits(TileValue product) {
    return seen(scales_late() ? product : scaled(product, shape_.scale * unit()));
  }
  TileValue exponent(TileValue s) { return scales_late() ? scaled(s, shape_.scale * unit()) : s; }

  /// Sets the tiles that are walked.
  void bound() {
    if (!shape_.causal) return;
    const bool keys = walk_.keys;
    const Part &own = keys ? queries_ : keys_, &walked = keys ? keys_ : queries_;
    // A query sees the keys up to its own number, of those the last `window`.
    const std::int64_t window = shape_.window;
    Reach reach{own.size / walked.size, 0, own.size / walked.size};
    if (window > 0 && keys) reach.first = floor_of(1 - window, walked.size);
    if (window > 0 && !keys) reach.end += floor_of(window - 2, walked.size) + 1;
    const std::int32_t axis = keys ? query_tile_ : key_tile_;
    const auto whole = [&](std::int64_t number) {
      return constant(static_cast<double>(number), {}, DType::i32);
    };
    const TileValue tile = value({}, DType::i32);
    nodes_->push_back(Index{tile, axis});
    const TileValue same = op(Opcode::mul, {tile, whole(reach.scale)}, DType::i32);
    const bool to_first = keys && window == 0, to_last = !keys && window == 0;
    RowBounds bounds;
    bounds.first = to_first ? whole(0) : op(Opcode::add, {same, whole(reach.first)}, DType::i32);
    bounds.end = to_last ? whole(walked.tiles) : op(Opcode::add, {same, whole(reach.end)}, DType::i32);
    for (std::int64_t i = 0; i < own.tiles; ++i) {
      const std::int64_t first = to_first ? 0 : std::max<std::int64_t>(0, reach.scale * i + reach.first);
      const std::int64_t end = to_last ? walked.tiles : std::min(walked.tiles, reach.scale * i + reach.end);
      bounds.visits += std::max<std::int64_t>(0, end - first);
    }
    bounds.visits *= shape_.batch * shape_.heads * shape_.groups;
    kernel_.bounds = bounds;
  }
};

}  // namespace

bool walks_tiles(const AttentionShape& shape) {
  return shape.narrow && shape.walked_tokens > 0 &&
         std::max(shape.queries, shape.keys) > shape.walked_tokens && !shape.dq_sums && !shape.dk_sums &&
         !shape.dv_sums;
}

std::vector<Kernel> walked_forward(const AttentionShape& shape) {
  const std::int64_t part = parts_of_tile(shape);
  return {WalkedAttention(shape, "attention", tiles_of(shape.queries, kQueries / part),
                          tiles_of(shape.keys, kKeys / part), {.keys = true})
              .forward()};
}

std::vector<Kernel> walked_backward(const AttentionShape& shape) {
  const std::int64_t part = parts_of_tile(shape);
  const Part queries = tiles_of(shape.queries, kGradientQueries), keys = tiles_of(shape.keys, kGradientKeys);
  return {WalkedAttention(shape, "attention_grad_q", queries, tiles_of(shape.keys, kGradientQueries / part),
                          {.keys = true})
              .backward_queries(),
          WalkedAttention(shape, "attention_grad_kv", tiles_of(shape.queries, kWalkedQueries / part), keys,
                          {.keys_first = true, .groups = true, .queries = true})
              .backward_keys()};
}

}  // namespace rewire::codegen::tile
