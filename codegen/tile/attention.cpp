// Writes the kernels of attention.h node by node.
#include "codegen/tile/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "ir/opcodes.h"

namespace rewire::codegen::tile {
namespace {

using ir::DType;
using ir::Opcode;
using Lanes = std::vector<std::int32_t>;

/// A part of the queries or keys: `tiles` tiles of `size` from token `first` on.
struct Part {
  std::int64_t first = 0, tiles = 1, size = 1;
};

/// Cuts `count` tokens into tiles of at most `most`, in one or two parts. Sizes are as even as possible.
/// With `squares`, products go in squares of 16, so sizes are multiples of 16 and a rest.
std::vector<Part> cut(std::int64_t count, std::int64_t most, bool squares) {
  const std::int64_t whole = squares ? most / 16 * 16 : most;
  const std::int64_t largest = std::clamp<std::int64_t>(whole, std::min<std::int64_t>(count, 16), count);
  const std::int64_t tiles = (count + largest - 1) / largest;
  std::int64_t size = (count + tiles - 1) / tiles;
  if (squares && tiles > 1) {
    size = (size + 15) / 16 * 16;
    if (count % size == 0) return {{0, count / size, size}};
    return {{0, count / size, size}, {count / size * size, 1, count % size}};
  }
  const std::int64_t large = count - tiles * (size - 1);
  std::vector<Part> parts = {{0, large, size}};
  if (large < tiles) parts.push_back({large * size, tiles - large, size - 1});
  return parts;
}

/// Returns the elements that a row of bf16 takes on chip: whole packets of 8, and one packet more, which
/// keeps rows in different banks.
constexpr std::int64_t row_of(std::int64_t elements) {
  return (elements + 7) / 8 * 8 + 8;
}

constexpr std::int64_t kRowSums = 4;  // elements on chip per query: lse and D in f32

class AttentionWriter {
 public:
  /// Query tokens are the lanes m, key tokens the lanes n; each is a tile of its part. With `keys_first`,
  /// values that have both lanes have the keys n as rows.
  AttentionWriter(const AttentionShape& shape, std::string name, const Part& queries, const Part& keys,
                  bool keys_first = false)
      : shape_(shape), queries_(queries), keys_(keys) {
    kernel_.name = std::move(name);
    batch_ = axis("b", shape.batch, AxisUse::outer);
    head_ = axis("h", shape.heads, AxisUse::outer);
    query_tile_ = axis("i", queries.tiles, AxisUse::outer);
    key_tile_ = axis("j", keys.tiles, AxisUse::outer);
    if (keys_first) n_ = axis("n", keys.size, AxisUse::lane);
    m_ = axis("m", queries.size, AxisUse::lane);
    if (!keys_first) n_ = axis("n", keys.size, AxisUse::lane);
    d_ = axis("d", shape.width, AxisUse::lane);
  }

  Kernel forward() {
    argument("q", ArgumentUse::read);
    argument("k", ArgumentUse::read);
    argument("v", ArgumentUse::read);
    argument("output", ArgumentUse::write);
    argument("lse", ArgumentUse::write, DType::f32);
    const TileValue q = load(0, shape_.q, m_, {m_, d_});
    const TileValue k = load(1, shape_.k, n_, {n_, d_});
    const TileValue v = load(2, shape_.v, n_, {n_, d_});
    const TileValue s = op(Opcode::mul, {dot(q, k, d_), constant(shape_.scale * unit())});
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
  Kernel backward(bool queries, bool keys) {
    for (const char* name : {"q", "k", "v"}) argument(name, ArgumentUse::read);
    argument("lse", ArgumentUse::read, DType::f32);
    argument("d_output", ArgumentUse::read);
    const std::int32_t output = queries ? argument("output", ArgumentUse::read) : -1;
    const std::int32_t dq = queries ? argument("dq", ArgumentUse::write) : -1;
    const std::int32_t dk = keys ? argument("dk", ArgumentUse::write) : -1;
    const std::int32_t dv = keys ? argument("dv", ArgumentUse::write) : -1;
    const TileValue q = load(0, shape_.q, m_, {m_, d_});
    const TileValue k = load(1, shape_.k, n_, {n_, d_});
    const TileValue v = load(2, shape_.v, n_, {n_, d_});
    const TileValue lse = scaled(load(3, shape_.lse, m_, {m_}), unit());
    const TileValue go = load(4, shape_.d_output, m_, {m_, d_});
    const TileValue scale = constant(shape_.scale * unit());
    const TileValue delta = queries ? row_sums(go, output, !keys) : read_row_sums();
    // If the keys are in rows, the p and ds that tensor cores compute are operands of the next products, for
    // dv and dk.
    const auto scores = [&](TileValue of_queries, TileValue of_keys) {
      return n_ < m_ ? dot(of_keys, of_queries, d_) : dot(of_queries, of_keys, d_);
    };
    const TileValue p = power(op(Opcode::sub, {op(Opcode::mul, {scores(q, k), scale}), lse}));
    if (keys) store(dv, shape_.dv, n_, dot(narrow(p), go, m_));
    const TileValue dp = op(Opcode::sub, {scores(go, v), delta});
    // Tensor cores multiply p (dp - D), which is scaled after that: there are fewer elements then.
    const double after = shape_.narrow ? shape_.scale : 1;
    const TileValue ds = narrow(op(Opcode::mul, {shape_.narrow ? p : op(Opcode::mul, {p, scale}), dp}));
    if (queries) store(dq, shape_.dq, m_, scaled(dot(ds, k, n_), after));
    if (keys) store(dk, shape_.dk, n_, scaled(dot(ds, q, m_), after));
    return std::move(kernel_);
  }

 private:
  std::int32_t axis(std::string name, std::int64_t extent, AxisUse use) {
    kernel_.axes.push_back({std::move(name), extent, use});
    return static_cast<std::int32_t>(kernel_.axes.size()) - 1;
  }

  std::int32_t argument(std::string name, ArgumentUse use) {
    return argument(std::move(name), use, shape_.dtype);
  }
  std::int32_t argument(std::string name, ArgumentUse use, DType dtype) {
    kernel_.arguments.push_back({std::move(name), dtype, use});
    return static_cast<std::int32_t>(kernel_.arguments.size()) - 1;
  }

  TileValue value(Lanes lanes) {
    kernel_.values.push_back({DType::f32, std::move(lanes)});
    return {static_cast<std::int32_t>(kernel_.values.size()) - 1};
  }
  const Lanes& lanes(TileValue of) const { return kernel_.values[static_cast<std::size_t>(of.id)].lanes; }

  /// Returns an access along the token axis `token` (m or n) of its tile.
  Access access(std::int32_t argument, const AttentionView& view, std::int32_t token, bool channels) const {
    const Part& part = token == m_ ? queries_ : keys_;
    Access result{argument, view.offset + part.first * view.token,
                  std::vector<std::int64_t>(kernel_.axes.size()), 0};
    const auto stride = [&](std::int32_t axis) -> std::int64_t& {
      return result.strides[static_cast<std::size_t>(axis)];
    };
    stride(batch_) = view.batch;
    stride(head_) = view.head;
    stride(token == m_ ? query_tile_ : key_tile_) = part.size * view.token;
    stride(token) = view.token;
    if (channels) stride(d_) = view.channel;
    return result;
  }

  TileValue load(std::int32_t argument, const AttentionView& view, std::int32_t token, Lanes of) {
    const Access from = access(argument, view, token, of.size() == 2);
    const TileValue result = value(std::move(of));
    kernel_.prologue.push_back(Load{result, from, {}, 0, 0});
    return result;
  }

  void store(std::int32_t argument, const AttentionView& view, std::int32_t token, TileValue what) {
    kernel_.prologue.push_back(Store{what, access(argument, view, token, lanes(what).size() == 2), {}});
  }

  /// Computes D for the tile's queries. `kept`: stores it too.
  TileValue row_sums(TileValue go, std::int32_t output, bool kept) {
    const TileValue o = load(output, shape_.output, m_, {m_, d_});
    const TileValue delta = reduce(ReduceKind::sum, op(Opcode::mul, {go, o}), d_);
    if (kept) store(argument("delta", ArgumentUse::write, DType::f32), dense_rows(), m_, delta);
    return delta;
  }
  TileValue read_row_sums() {
    return load(argument("delta", ArgumentUse::read, DType::f32), dense_rows(), m_, {m_});
  }
  /// Returns the layout of D in memory: a dense [batch, heads, queries].
  AttentionView dense_rows() const { return {0, shape_.heads * shape_.queries, shape_.queries, 1, 0}; }

  TileValue constant(double number) {
    const TileValue result = value({});
    kernel_.prologue.push_back(Constant{result, number});
    return result;
  }

  TileValue op(Opcode code, std::vector<TileValue> operands) {
    Lanes all;
    for (TileValue operand : operands) {
      for (std::int32_t lane : lanes(operand)) {
        if (std::find(all.begin(), all.end(), lane) == all.end()) all.push_back(lane);
      }
    }
    std::sort(all.begin(), all.end());
    const TileValue result = value(std::move(all));
    kernel_.prologue.push_back(Pointwise{result, code, std::move(operands), ""});
    return result;
  }

  TileValue scaled(TileValue operand, double by) {
    return by == 1 ? operand : op(Opcode::mul, {operand, constant(by)});
  }

  /// A narrow kernel's exponents are those of two, which a GPU computes in one instruction. unit() is what
  /// they are multiplied by for that, and power() returns the power.
  double unit() const { return shape_.narrow ? std::numbers::log2e : 1; }
  TileValue power(TileValue exponent) {
    return shape_.narrow ? op(Opcode::pow, {constant(2), exponent}) : op(Opcode::exp, {exponent});
  }

  /// Rounds a value to bf16, if tensor cores are to multiply it.
  TileValue narrow(TileValue operand) {
    if (!shape_.narrow) return operand;
    for (const DType dtype : {DType::bf16, DType::f32}) {
      kernel_.values.push_back({dtype, lanes(operand)});
      const TileValue rounded{static_cast<std::int32_t>(kernel_.values.size()) - 1};
      kernel_.prologue.push_back(Pointwise{rounded, Opcode::cast, {operand}, ""});
      operand = rounded;
    }
    return operand;
  }

  TileValue reduce(ReduceKind kind, TileValue operand, std::int32_t over) {
    Lanes rest = lanes(operand);
    std::erase(rest, over);
    const TileValue result = value(std::move(rest));
    kernel_.prologue.push_back(Reduce{result, kind, operand, {over}});
    return result;
  }

  TileValue dot(TileValue a, TileValue b, std::int32_t contract) {
    Lanes rest = lanes(a);
    rest.insert(rest.end(), lanes(b).begin(), lanes(b).end());
    std::erase(rest, contract);
    std::sort(rest.begin(), rest.end());
    const TileValue result = value(std::move(rest));
    kernel_.prologue.push_back(Dot{result, a, b, contract});
    return result;
  }

  const AttentionShape& shape_;
  const Part queries_, keys_;
  Kernel kernel_;
  std::int32_t batch_ = 0, head_ = 0, query_tile_ = 0, key_tile_ = 0, m_ = 0, n_ = 0, d_ = 0;
};

std::string name_of(const char* what, const AttentionShape& shape, const Part& queries, const Part& keys) {
  return fmt::format("{}_{}x{}_{}x{}x{}", what, shape.batch, shape.heads, queries.size, keys.size,
                     shape.width);
}

}  // namespace

std::vector<Kernel> attention_forward(const AttentionShape& shape) {
  const Part keys{0, 1, shape.keys};
  std::vector<Kernel> kernels;
  for (const Part& queries : cut(shape.queries, shape.tile_elements / shape.keys, shape.narrow)) {
    kernels.push_back(
        AttentionWriter(shape, name_of("attention", shape, queries, keys), queries, keys).forward());
  }
  return kernels;
}

std::vector<Kernel> attention_backward(const AttentionShape& shape) {
  const Part all_queries{0, 1, shape.queries}, all_keys{0, 1, shape.keys};
  const auto write = [&](const char* what, const Part& queries, const Part& keys, bool dq, bool dk) {
    return AttentionWriter(shape, name_of(what, shape, queries, keys), queries, keys, shape.narrow && dk)
        .backward(dq, dk);
  };
  const std::int64_t operands = 2 * (shape.queries + shape.keys) * row_of(shape.width);  // q, do; k, v
  const std::int64_t ds = (shape.keys + 15) / 16 * 16 * row_of(shape.queries);
  const std::int64_t held =
      shape.narrow ? operands + ds + kRowSums * shape.queries : shape.queries * shape.keys;
  if (held <= shape.tile_elements) return {write("attention_grad", all_queries, all_keys, true, true)};
  // Returns the most tokens of one (queries or keys) that fit beside all tokens of the other. `scores`: of ds
  // and p, how many are held for them.
  const auto most = [&](std::int64_t others, std::int64_t scores) {
    if (!shape.narrow) return shape.tile_elements / others;
    const std::int64_t row = 2 * row_of(shape.width);
    return (shape.tile_elements - kRowSums * shape.queries - others * row) / (row + scores * row_of(others));
  };
  const std::int64_t sums = (shape.width - 1) / shape.summed_width;  // 0: registers hold dk and dv
  std::vector<Kernel> kernels;
  for (const Part& queries : cut(shape.queries, most(shape.keys, sums > 1 ? 1 : 0), shape.narrow))
    kernels.push_back(write("attention_grad_q", queries, all_keys, true, false));
  for (const Part& keys : cut(shape.keys, most(shape.queries, std::min<std::int64_t>(sums, 2)), shape.narrow))
    kernels.push_back(write("attention_grad_kv", all_queries, keys, false, true));
  return kernels;
}

}  // namespace rewire::codegen::tile
