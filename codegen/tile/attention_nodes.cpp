// Nodes of attention's kernels; see attention_nodes.h.
#include "codegen/tile/attention_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <utility>

#include "ir/opcodes.h"

namespace rewire::codegen::tile {

using ir::DType;
using ir::Opcode;

AttentionNodes::AttentionNodes(const AttentionShape& shape, std::string name, const Part& queries,
                               const Part& keys, const AttentionWalk& walk)
    : shape_(shape), queries_(queries), keys_(keys), walk_(walk) {
  const auto use = [](bool walked) { return walked ? AxisUse::row : AxisUse::outer; };
  kernel_.name = std::move(name);
  batch_ = axis("b", shape.batch, AxisUse::outer);
  head_ = axis("h", shape.heads, AxisUse::outer);
  if (shape.groups > 1) group_ = axis("g", shape.groups, use(walk.groups));
  query_tile_ = axis("i", queries.tiles, use(walk.queries));
  key_tile_ = axis("j", keys.tiles, use(walk.keys));
  if (walk.keys_first) n_ = axis("n", keys.size, AxisUse::lane);
  m_ = axis("m", queries.size, AxisUse::lane);
  if (!walk.keys_first) n_ = axis("n", keys.size, AxisUse::lane);
  d_ = axis("d", shape.width, AxisUse::lane);
  e_ = shape.value_width == shape.width ? d_ : axis("dv", shape.value_width, AxisUse::lane);
  if (queries.end() > shape.queries) kernel_.short_tiles.push_back({query_tile_, m_, shape.queries});
  if (keys.end() > shape.keys) kernel_.short_tiles.push_back({key_tile_, n_, shape.keys});
}

std::int32_t AttentionNodes::axis(std::string name, std::int64_t extent, AxisUse use) {
  kernel_.axes.push_back({std::move(name), extent, use});
  return static_cast<std::int32_t>(kernel_.axes.size()) - 1;
}

std::int32_t AttentionNodes::argument(std::string name, ArgumentUse use) {
  return argument(std::move(name), use, shape_.dtype);
}

std::int32_t AttentionNodes::argument(std::string name, ArgumentUse use, DType dtype) {
  kernel_.arguments.push_back({std::move(name), dtype, use});
  return static_cast<std::int32_t>(kernel_.arguments.size()) - 1;
}

TileValue AttentionNodes::value(Lanes lanes, DType dtype) {
  kernel_.values.push_back({dtype, std::move(lanes)});
  return {static_cast<std::int32_t>(kernel_.values.size()) - 1};
}

const AttentionNodes::Lanes& AttentionNodes::lanes(TileValue of) const {
  return kernel_.values[static_cast<std::size_t>(of.id)].lanes;
}

bool AttentionNodes::has_rows() const {
  return std::ranges::any_of(kernel_.axes, [](const Axis& axis) { return axis.use == AxisUse::row; });
}

std::vector<Node>& AttentionNodes::section_of(std::int32_t token) {
  if (!walk_.keys && !walk_.queries) return *nodes_;
  return (token == m_ ? walk_.queries : walk_.keys) ? kernel_.body : kernel_.prologue;
}

std::int64_t& AttentionNodes::stride(Access& access, std::int32_t axis) {
  return access.strides[static_cast<std::size_t>(axis)];
}

void AttentionNodes::walk(Access& access, std::int32_t token, std::int64_t by) const {
  const Part& part = token == m_ ? queries_ : keys_;
  access.offset += part.first * by;
  stride(access, token == m_ ? query_tile_ : key_tile_) = part.size * by;
  stride(access, token) = by;
}

void AttentionNodes::walk_heads(Access& access, const AttentionView& view, bool of_queries) const {
  const bool grouped = of_queries && group_ >= 0;
  stride(access, batch_) = view.batch;
  stride(access, head_) = grouped ? shape_.groups * view.head : view.head;
  if (grouped) stride(access, group_) = view.head;
}

Access AttentionNodes::start(std::int32_t argument, const AttentionView& view) const {
  return {argument, view.offset, std::vector<std::int64_t>(kernel_.axes.size()), 0};
}

Access AttentionNodes::access(std::int32_t argument, const AttentionView& view, std::int32_t token,
                              const Lanes& of) const {
  Access result = start(argument, view);
  walk_heads(result, view, token == m_);
  walk(result, token, view.token);
  for (const std::int32_t lane : of)
    if (lane != token) stride(result, lane) = view.channel;
  return result;
}

TileValue AttentionNodes::load(const Access& from, Lanes of, DType dtype) {
  const TileValue result = value(std::move(of), dtype);
  nodes_->push_back(Load{result, from, {}, 0, 0});
  return result;
}

TileValue AttentionNodes::load(std::int32_t argument, const AttentionView& view, std::int32_t token,
                               const Lanes& of) {
  return load(access(argument, view, token, of), of);
}

void AttentionNodes::store(std::int32_t argument, const AttentionView& view, std::int32_t token,
                           TileValue what) {
  nodes_->push_back(Store{what, access(argument, view, token, lanes(what)), {}});
}

void AttentionNodes::store_sums(const char* name, const AttentionView& view, std::int32_t token,
                                TileValue what) {
  const TileValue sums = reduce(ReduceKind::sum, narrow(what), token);
  Access to = start(argument(name, ArgumentUse::write, DType::f32), view);
  walk_heads(to, view, false);
  stride(to, lanes(sums)[0]) = view.channel;
  nodes_->push_back(Store{sums, to, {}});
}

void AttentionNodes::begin_sum(std::int32_t argument, const AttentionView& view, const Lanes& of,
                               bool loads) {
  TileValue initial = loads ? load(argument, view, n_, of) : constant(0, of);
  if (has_rows()) {
    kernel_.carried.push_back({initial, value(of), {}, {}});
    initial = kernel_.carried.back().entry;
  }
  sums_[argument] = initial;
}

void AttentionNodes::sum_up(std::int32_t argument, const AttentionView& view, TileValue what) {
  const auto sum = sums_.find(argument);
  if (sum == sums_.end()) return store(argument, view, n_, what);
  const TileValue total = op(Opcode::add, {sum->second, what});
  if (!has_rows()) return store(argument, view, n_, total);
  const auto carried = std::ranges::find(kernel_.carried, sum->second, &Carried::entry);
  carried->next = total;
  carried->last = value(lanes(total));
  kernel_.epilogue.push_back(Store{carried->last, access(argument, view, n_, lanes(total)), {}});
}

TileValue AttentionNodes::seen(TileValue s) {
  const Lanes both = {std::min(m_, n_), std::max(m_, n_)};
  if (shape_.bias) {
    Access from = start(argument("bias", ArgumentUse::read, DType::f32), *shape_.bias);
    walk_heads(from, *shape_.bias, true);
    walk(from, m_, shape_.bias->token);
    walk(from, n_, shape_.bias->channel);
    s = op(Opcode::add, {s, scaled(load(from, both), unit())});
  }
  TileValue sees;
  const auto require = [&](TileValue a, TileValue b, const char* direction) {
    const TileValue holds = op(Opcode::compare, {a, b}, DType::i1, direction);
    sees = sees ? op(Opcode::logical_and, {sees, holds}, DType::i1) : holds;
  };
  if (shape_.causal) {
    const TileValue query = token_number(m_), key = token_number(n_);
    require(query, key, "ge");
    if (shape_.window > 0) {
      const TileValue behind = op(Opcode::sub, {query, key}, DType::i32);
      require(behind, constant(static_cast<double>(shape_.window), {}, DType::i32), "lt");
    }
  }
  // What is loaded beyond the keys is 0, which is not unseen.
  if (keys_.end() > shape_.keys && !(shape_.causal && shape_.queries <= shape_.keys)) {
    const auto count = static_cast<double>(shape_.keys);
    require(token_number(n_), constant(count, {}, DType::i32), "lt");
  }
  if (shape_.documents) {
    const std::int32_t numbers = argument("documents", ArgumentUse::read, DType::i32);
    const auto numbers_of = [&](std::int32_t token) {
      Access from = start(numbers, *shape_.documents);
      stride(from, batch_) = shape_.documents->batch;
      walk(from, token, shape_.documents->token);
      std::vector<Node>* const section = std::exchange(nodes_, &section_of(token));
      const TileValue result = load(from, {token}, DType::i32);
      nodes_ = section;
      return result;
    };
    require(numbers_of(m_), numbers_of(n_), "eq");
  }
  return sees ? op(Opcode::select, {sees, s, constant(kUnseen)}) : s;
}

TileValue AttentionNodes::token_number(std::int32_t token) {
  const Part& part = token == m_ ? queries_ : keys_;
  std::vector<Node>* const section = std::exchange(nodes_, &section_of(token));
  const auto index = [&](std::int32_t axis, Lanes of) {
    const TileValue result = value(std::move(of), DType::i32);
    nodes_->push_back(Index{result, axis});
    return result;
  };
  const auto whole = [&](std::int64_t number) {
    return constant(static_cast<double>(number), {}, DType::i32);
  };
  TileValue first = whole(part.first);
  if (part.tiles > 1) {
    const TileValue tile = index(token == m_ ? query_tile_ : key_tile_, {});
    first = op(Opcode::add, {first, op(Opcode::mul, {tile, whole(part.size)}, DType::i32)}, DType::i32);
  }
  const TileValue number = op(Opcode::add, {index(token, {token}), first}, DType::i32);
  nodes_ = section;
  return number;
}

TileValue AttentionNodes::row_sums(TileValue go, std::int32_t output, bool kept) {
  const TileValue o = load(output, shape_.output, m_, {m_, e_});
  const TileValue delta = reduce(ReduceKind::sum, op(Opcode::mul, {go, o}), e_);
  if (kept) store(argument("delta", ArgumentUse::write, DType::f32), dense_rows(), m_, delta);
  return delta;
}

TileValue AttentionNodes::read_row_sums() {
  return load(argument("delta", ArgumentUse::read, DType::f32), dense_rows(), m_, {m_});
}

AttentionView AttentionNodes::dense_rows() const {
  return {0, shape_.heads * shape_.groups * shape_.queries, shape_.queries, 1, 0};
}

TileValue AttentionNodes::constant(double number, Lanes of, DType dtype) {
  const TileValue result = value(std::move(of), dtype);
  nodes_->push_back(Constant{result, number});
  return result;
}

TileValue AttentionNodes::op(Opcode code, std::vector<TileValue> operands, DType dtype,
                             std::string direction) {
  Lanes all;
  for (TileValue operand : operands) {
    for (std::int32_t lane : lanes(operand)) {
      if (std::find(all.begin(), all.end(), lane) == all.end()) all.push_back(lane);
    }
  }
  std::sort(all.begin(), all.end());
  const TileValue result = value(std::move(all), dtype);
  nodes_->push_back(Pointwise{result, code, std::move(operands), std::move(direction)});
  return result;
}

TileValue AttentionNodes::scaled(TileValue operand, double by) {
  return by == 1 ? operand : op(Opcode::mul, {operand, constant(by)});
}

double AttentionNodes::unit() const {
  return shape_.narrow ? std::numbers::log2e : 1;
}

TileValue AttentionNodes::power(TileValue exponent) {
  return shape_.narrow ? op(Opcode::pow, {constant(2), exponent}) : op(Opcode::exp, {exponent});
}

TileValue AttentionNodes::narrow(TileValue operand) {
  if (!shape_.narrow) return operand;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const TileValue rounded = value(lanes(operand), dtype);
    nodes_->push_back(Pointwise{rounded, Opcode::cast, {operand}, ""});
    operand = rounded;
  }
  return operand;
}

TileValue AttentionNodes::reduce(ReduceKind kind, TileValue operand, std::int32_t over) {
  Lanes rest = lanes(operand);
  std::erase(rest, over);
  const TileValue result = value(std::move(rest));
  nodes_->push_back(Reduce{result, kind, operand, {over}});
  return result;
}

TileValue AttentionNodes::dot(TileValue a, TileValue b, std::int32_t contract) {
  Lanes rest = lanes(a);
  rest.insert(rest.end(), lanes(b).begin(), lanes(b).end());
  std::erase(rest, contract);
  std::sort(rest.begin(), rest.end());
  const TileValue result = value(std::move(rest));
  nodes_->push_back(Dot{result, a, b, contract});
  return result;
}

std::string attention_name(const char* what, const AttentionShape& shape, const Part& queries,
                           const Part& keys) {
  return fmt::format("{}_{}x{}_{}x{}x{}", what, shape.batch, shape.heads * shape.groups, queries.size,
                     keys.size, shape.width);
}

}  // namespace rewire::codegen::tile
