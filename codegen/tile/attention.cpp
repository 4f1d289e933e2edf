// Writes the kernels of attention.h node by node.
#include "codegen/tile/attention.h"

#include <algorithm>

#include "codegen/tile/attention_nodes.h"
#include "codegen/tile/attention_walks.h"
#include "ir/opcodes.h"

namespace rewire::codegen::tile {
namespace {

using ir::DType;
using ir::Opcode;

/// Cuts the one tile of `tokens` into tiles of at most `most`, in one or two parts. Sizes are as even as possible.
/// With `squares`, products go in squares of 16, so sizes are multiples of 16 and a rest.
std::vector<Part> cut(const Part& tokens, std::int64_t most, bool squares) {
  const std::int64_t count = tokens.size, first = tokens.first;
  const std::int64_t whole = squares ? most / 16 * 16 : most;
  const std::int64_t largest = std::clamp<std::int64_t>(whole, std::min<std::int64_t>(count, 16), count);
  const std::int64_t tiles = (count + largest - 1) / largest;
  std::int64_t size = (count + tiles - 1) / tiles;
  if (squares && tiles > 1) {
    size = (size + 15) / 16 * 16;
    if (count % size == 0) return {{first, count / size, size}};
    return {{first, count / size, size}, {first + count / size * size, 1, count % size}};
  }
  const std::int64_t large = count - tiles * (size - 1);
  std::vector<Part> parts = {{first, large, size}};
  if (large < tiles) parts.push_back({first + large * size, tiles - large, size - 1});
  return parts;
}

/// Returns the elements that a row of bf16 takes on chip: whole packets of 8, and one packet more, which
/// keeps rows in different banks.
constexpr std::int64_t row_of(std::int64_t elements) {
  return (elements + 7) / 8 * 8 + 8;
}

constexpr std::int64_t kLargeTile = 96;  // tokens beside all of the other side, for which no tiles are walked
constexpr std::int64_t kStreamed = 16;   // queries at once, at least, where a program walks them
constexpr std::int64_t kRowSums = 4;     // elements on chip per query: lse and D in f32

/// A range of one side's tokens, and the tokens of the other side that these see, or that see these.
struct Range {
  Part own, others;
};

/// Cuts the tokens of a causal head into ranges of equal size, at least 32 and a multiple of 16.
std::vector<Part> causal_ranges(const AttentionShape& shape) {
  if (!shape.causal) return {{0, 1, shape.queries}};
  const std::int64_t most = std::clamp<std::int64_t>(shape.queries / 32, 1, shape.most_ranges);
  const std::int64_t size = ((shape.queries + most - 1) / most + 15) / 16 * 16;
  std::vector<Part> ranges;
  for (std::int64_t first = 0; first < shape.queries; first += size)
    ranges.push_back({first, 1, std::min(size, shape.queries - first)});
  return ranges;
}

/// Returns the ranges of queries, each with the keys that they see.
std::vector<Range> query_ranges(const AttentionShape& shape) {
  std::vector<Range> ranges;
  for (const Part& queries : causal_ranges(shape)) {
    const std::int64_t first =
        shape.window > 0 ? std::max<std::int64_t>(0, queries.first - shape.window + 1) : 0;
    ranges.push_back({queries, {first, 1, (shape.causal ? queries.end() : shape.keys) - first}});
  }
  return ranges;
}

/// Returns the ranges of keys, each with the queries that see them.
std::vector<Range> key_ranges(const AttentionShape& shape) {
  if (!shape.causal) return {{{0, 1, shape.keys}, {0, 1, shape.queries}}};
  std::vector<Range> ranges;
  for (const Part& keys : causal_ranges(shape)) {
    const std::int64_t end =
        shape.window > 0 ? std::min(shape.queries, keys.end() + shape.window - 1) : shape.queries;
    ranges.push_back({keys, {keys.first, 1, end - keys.first}});
  }
  return ranges;
}

/// What a kernel of the gradient computes.
struct Gradient {
  bool queries = false, keys = false;  // dq; dk and dv
  bool adds = false;                   // to what dk and dv hold
  bool streams = false;                // walks the queries, so D has its own load of do
};

class AttentionWriter : AttentionNodes {
 public:
  AttentionWriter(const AttentionShape& shape, const char* what, const Part& queries, const Part& keys,
                  const AttentionWalk& walk = {})
      : AttentionNodes(shape, attention_name(what, shape, queries, keys), queries, keys, walk) {}

  Kernel forward() {
    argument("q", ArgumentUse::read);
    argument("k", ArgumentUse::read);
    argument("v", ArgumentUse::read);
    argument("output", ArgumentUse::write);
    argument("lse", ArgumentUse::write, DType::f32);
    const TileValue q = load(0, shape_.q, m_, {m_, d_});
    const TileValue k = load(1, shape_.k, n_, {n_, d_});
    const TileValue v = load(2, shape_.v, n_, {n_, e_});
    const TileValue s = seen(op(Opcode::mul, {dot(q, k, d_), constant(shape_.scale * unit())}));
    const TileValue largest = reduce(ReduceKind::max, s, n_);
    const TileValue e = power(op(Opcode::sub, {s, largest}));
    const TileValue total = reduce(ReduceKind::sum, e, n_);
    const TileValue o = op(Opcode::mul, {dot(narrow(e), v, n_), op(Opcode::div, {constant(1), total})});
    store(3, shape_.output, m_, o);
    store(4, shape_.lse, m_, op(Opcode::add, {scaled(largest, 1 / unit()), op(Opcode::log, {total})}));
    return std::move(kernel_);
  }

  /// Computes dq for the tile's queries, and dk and dv for its keys. D is computed with dq. It is stored if
  /// dk and dv are not computed here, and loaded if dq is not.
  Kernel backward(const Gradient& gradient) {
    const bool queries = gradient.queries, keys = gradient.keys;
    for (const char* name : {"q", "k", "v"}) argument(name, ArgumentUse::read);
    argument("lse", ArgumentUse::read, DType::f32);
    argument("d_output", ArgumentUse::read);
    const std::int32_t output = queries ? argument("output", ArgumentUse::read) : -1;
    const std::int32_t dq = queries ? argument("dq", ArgumentUse::write) : -1;
    const ArgumentUse sum = gradient.adds ? ArgumentUse::read_write : ArgumentUse::write;
    const std::int32_t dk = keys ? argument("dk", sum) : -1;
    const std::int32_t dv = keys ? argument("dv", sum) : -1;
    TileValue q;
    if (!has_rows()) q = load(0, shape_.q, m_, {m_, d_});
    const TileValue k = load(1, shape_.k, n_, {n_, d_});
    const TileValue v = load(2, shape_.v, n_, {n_, e_});
    if (keys && (gradient.adds || has_rows())) {
      begin_sum(dv, shape_.dv, {n_, e_}, gradient.adds);
      begin_sum(dk, shape_.dk, {n_, d_}, gradient.adds);
    }
    if (has_rows()) {
      nodes_ = &kernel_.body;
      q = load(0, shape_.q, m_, {m_, d_});
    }
    const TileValue lse = scaled(load(3, shape_.lse, m_, {m_}), unit());
    const TileValue go = load(4, shape_.d_output, m_, {m_, e_});
    const TileValue scale = constant(shape_.scale * unit());
    const TileValue summed = gradient.streams ? load(4, shape_.d_output, m_, {m_, e_}) : go;
    const TileValue delta = queries ? row_sums(summed, output, !keys) : read_row_sums();
    // If the keys are in rows, the p and ds that tensor cores compute are operands of the next products, for
    // dv and dk.
    const auto scores = [&](TileValue of_queries, TileValue of_keys, std::int32_t over) {
      return n_ < m_ ? dot(of_keys, of_queries, over) : dot(of_queries, of_keys, over);
    };
    const TileValue p = power(op(Opcode::sub, {seen(op(Opcode::mul, {scores(q, k, d_), scale})), lse}));
    const TileValue dv_value = keys ? dot(narrow(p), go, m_) : TileValue{};
    if (keys) sum_up(dv, shape_.dv, dv_value);
    const TileValue dp = op(Opcode::sub, {scores(go, v, e_), delta});
    // Tensor cores multiply p (dp - D), which is scaled after that: there are fewer elements then.
    const double after = shape_.narrow ? shape_.scale : 1;
    const TileValue ds = narrow(op(Opcode::mul, {shape_.narrow ? p : op(Opcode::mul, {p, scale}), dp}));
    const TileValue dq_value = queries ? scaled(dot(ds, k, n_), after) : TileValue{};
    if (queries) store(dq, shape_.dq, m_, dq_value);
    const TileValue dk_value = keys ? scaled(dot(ds, q, m_), after) : TileValue{};
    if (keys) sum_up(dk, shape_.dk, dk_value);
    if (shape_.dq_sums) store_sums("dq_sums", *shape_.dq_sums, m_, dq_value);
    if (shape_.dk_sums) store_sums("dk_sums", *shape_.dk_sums, n_, dk_value);
    if (shape_.dv_sums) store_sums("dv_sums", *shape_.dv_sums, n_, dv_value);
    return std::move(kernel_);
  }
};

/// Returns the room of the sums over tokens, if there are any: in f32, a row of partial sums for 16 tokens.
std::int64_t token_sums(const AttentionShape& shape, std::int64_t tokens,
                        const std::optional<AttentionView>& sums) {
  return sums ? (tokens + 15) / 16 * 2 * row_of(shape.width) : 0;
}

/// Returns how many elements of 2 bytes a GPU may hold for each pair of a query and a key because of a bias or
/// documents.
std::int64_t held_by_mask(const AttentionShape& shape) {
  return (shape.bias ? 2 : 0) + (shape.documents ? 2 : 0);
}

/// Returns the most pairs of a tile whose kernel holds maps of them.
std::int64_t most_pairs(const AttentionShape& shape) {
  return shape.adds_in_memory ? shape.tile_elements : shape.tile_elements / (1 + held_by_mask(shape) / 2);
}

/// Returns whether the gradient of these queries and keys is one program per head.
bool fits_on_chip(const AttentionShape& shape, const Part& queries, const Part& keys) {
  if (!shape.narrow) return queries.size * keys.size <= most_pairs(shape);
  if (shape.groups > 1 || shape.value_width != shape.width) return false;
  const std::int64_t operands = 2 * (queries.size + keys.size) * row_of(shape.width);  // q, do; k, v
  const std::int64_t ds = (keys.size + 15) / 16 * 16 * row_of(queries.size);
  const std::int64_t sums = token_sums(shape, queries.size, shape.dq_sums) +
                            token_sums(shape, keys.size, shape.dk_sums) +
                            token_sums(shape, keys.size, shape.dv_sums);
  const std::int64_t masks = held_by_mask(shape) * keys.size * row_of(queries.size);
  return operands + ds + sums + masks + kRowSums * queries.size <= shape.tile_elements;
}

/// Returns whether one program can walk the queries of a head: k and v, two times q and do of a few queries,
/// their ds, and the row sums of all fit on chip. Which pairs are of one document would be held for all queries.
bool walks_queries(const AttentionShape& shape) {
  if (!shape.narrow || shape.groups > 1 || shape.value_width != shape.width || shape.window > 0 ||
      shape.documents)
    return false;
  const std::int64_t rows = 2 * shape.keys + 4 * kStreamed;
  const std::int64_t ds = (shape.keys + 15) / 16 * 16 * row_of(kStreamed);
  const std::int64_t sums = (shape.keys + 63) / 64 * 64 * ((shape.width + 7) / 8 * 8);
  return shape.keys <= shape.streamed_keys && shape.width <= shape.summed_width &&
         sums <= shape.streamed_sums &&
         rows * row_of(shape.width) + ds + token_sums(shape, shape.queries, shape.dq_sums) +
                 kRowSums * shape.queries <=
             shape.tile_elements;  // the sums of dk and dv take the place of q and do
}

}  // namespace

std::vector<Kernel> attention_forward(const AttentionShape& shape) {
  if (walks_tiles(shape)) return walked_forward(shape);
  std::vector<Kernel> kernels;
  for (const auto& [own, keys] : query_ranges(shape)) {
    for (const Part& queries : cut(own, most_pairs(shape) / keys.size, shape.narrow)) {
      kernels.push_back(AttentionWriter(shape, "attention", queries, keys).forward());
    }
  }
  return kernels;
}

bool sums_tokens(const AttentionShape& shape) {
  AttentionShape summed = shape;
  summed.dq_sums = summed.dk_sums = summed.dv_sums = AttentionView{};
  return shape.narrow &&
         (fits_on_chip(summed, {0, 1, shape.queries}, {0, 1, shape.keys}) || walks_queries(summed));
}

std::vector<Kernel> attention_backward(const AttentionShape& shape) {
  const auto write = [&](const char* what, const Part& queries, const Part& keys, const Gradient& gradient) {
    return AttentionWriter(shape, what, queries, keys, {shape.narrow && gradient.keys, gradient.keys})
        .backward(gradient);
  };
  std::vector<Kernel> kernels;
  const Part all_queries{0, 1, shape.queries}, all_keys{0, 1, shape.keys};
  if (shape.narrow && fits_on_chip(shape, all_queries, all_keys))
    return {write("attention_grad", all_queries, all_keys, {true, true})};
  if (walks_queries(shape))
    return {write("attention_grad", all_queries, all_keys, {true, true, false, true})};
  std::vector<Range> ranges = query_ranges(shape);
  const auto fits = [&](const Range& range) { return fits_on_chip(shape, range.own, range.others); };
  const bool one_pass =
      !shape.narrow && shape.window == 0 &&
      (shape.adds_in_memory ? std::ranges::all_of(ranges, fits) : fits_on_chip(shape, all_queries, all_keys));
  if (one_pass) {
    std::reverse(ranges.begin(), ranges.end());  // the first kernel writes dk and dv of all keys
    for (const auto& [queries, keys] : ranges)
      kernels.push_back(write("attention_grad", queries, keys, {true, true, !kernels.empty()}));
    return kernels;
  }
  // Returns the most tokens of one (queries or keys) that fit beside those tokens of the other. `scores`: of
  // ds and p, how many are held for them.
  const auto most = [&](std::int64_t queries, std::int64_t others, std::int64_t scores) {
    if (!shape.narrow) return most_pairs(shape) / others;
    const std::int64_t row = 2 * row_of(std::max(shape.width, shape.value_width));
    return (shape.tile_elements - kRowSums * queries - others * row) /
           (row + (scores + held_by_mask(shape)) * row_of(others));
  };
  const std::int64_t sums = (shape.width - 1) / shape.summed_width;  // 0: registers hold dk and dv
  const std::int64_t least = std::min(most(shape.queries, shape.keys, sums > 1 ? 1 : 0),
                                      most(shape.queries, shape.queries, std::min<std::int64_t>(sums, 2)));
  // With groups the sums of dk and dv would be on chip for all keys, from head to head.
  const bool sums_by_group = shape.narrow && shape.walked_tokens > 0 && shape.groups > 1;
  if (sums_by_group || (walks_tiles(shape) && (shape.causal || least < kLargeTile)))
    return walked_backward(shape);
  for (const auto& [own, keys] : ranges) {
    for (const Part& queries : cut(own, most(own.size, keys.size, sums > 1 ? 1 : 0), shape.narrow))
      kernels.push_back(write("attention_grad_q", queries, keys, {true, false}));
  }
  for (const auto& [own, queries] : key_ranges(shape)) {
    for (const Part& keys :
         cut(own, most(queries.size, queries.size, std::min<std::int64_t>(sums, 2)), shape.narrow))
      kernels.push_back(write("attention_grad_kv", queries, keys, {false, true}));
  }
  return kernels;
}

}  // namespace rewire::codegen::tile
