// Writes the values of a kernel that walks tiles; see walks_values.h.
#include "codegen/cuda/walks_values.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cuda {
namespace {

using ir::Opcode;
using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

constexpr const char* kElement = "e % 4 / 2";  // of the two rows of a thread, element e's

bool mentions(const std::string& text, const std::string& word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

}  // namespace

WalkValues::WalkValues(const WalkPlan& plan, const KernelText& text, Lines& lines)
    : plan_(plan),
      text_(text),
      lines_(lines),
      definitions_(text.kernel().values.size()),
      readers_(text.kernel().values.size()) {
  visit_nodes(text.kernel(), [&](const Node& node) {
    if (const TileValue result = tile::result_of(node))
      definitions_[static_cast<std::size_t>(result.id)] = &node;
    for (const TileValue operand : tile::operands_of(node))
      readers_[static_cast<std::size_t>(operand.id)].push_back(&node);
  });
}

// --- kinds of values

std::int32_t WalkValues::column_of(TileValue value) const {
  for (const std::int32_t lane : lanes(value)) {
    if (lane != plan_.rows) return lane;
  }
  return -1;
}

std::int64_t WalkValues::elements_of(TileValue value) const {
  return (text_.axis(column_of(value)).extent + 15) / 16 * 8;
}

bool WalkValues::is_text(TileValue value) const {
  const Node* node = definitions_[static_cast<std::size_t>(value.id)];
  if (node == nullptr) return false;
  if (std::holds_alternative<tile::Constant>(*node) || std::holds_alternative<tile::Index>(*node))
    return true;
  const bool columns = lanes(value).size() == 1 && lanes(value)[0] != plan_.rows;
  return std::holds_alternative<tile::Pointwise>(*node) &&
         (columns || !ir::is_float(text_.info(value).dtype));
}

/// Returns whether a value is an inequality that is linear in the indices, all such inequalities together, or
/// a term of one.
bool WalkValues::is_linear(TileValue value) const {
  const Node* node = definitions_[static_cast<std::size_t>(value.id)];
  if (node == nullptr) return false;
  if (std::holds_alternative<tile::Constant>(*node) || std::holds_alternative<tile::Index>(*node))
    return true;
  const auto* op = std::get_if<tile::Pointwise>(node);
  if (op == nullptr || !std::ranges::all_of(op->operands, [&](TileValue x) { return is_linear(x); }))
    return false;
  if (op->code == Opcode::compare) return op->direction != "eq" && op->direction != "ne";
  if (op->code == Opcode::mul)
    return std::ranges::any_of(op->operands, [&](TileValue x) { return lanes(x).empty(); });
  return op->code == Opcode::logical_and || op->code == Opcode::add || op->code == Opcode::sub;
}

/// Returns the sum that a product on a warp's own elements is added to in place, or nullptr.
const tile::Pointwise* WalkValues::adder_of(const tile::Dot& dot) const {
  const auto& readers = readers_[static_cast<std::size_t>(dot.result.id)];
  const auto* add = readers.size() == 1 ? std::get_if<tile::Pointwise>(readers[0]) : nullptr;
  if (add == nullptr || add->code != Opcode::add || plan_.tile_of(dot.a) != nullptr) return nullptr;
  return lanes(add->operands[0]) == lanes(add->operands[1]) ? add : nullptr;
}

/// Returns whether a node needs no text of its own.
bool WalkValues::is_skipped(const Node& node) const {
  if (const auto* dot = std::get_if<tile::Dot>(&node)) return adder_of(*dot) != nullptr;
  const TileValue result = tile::result_of(node);
  if (!result) return false;
  const WalkTile* tile = plan_.tile_of(result);
  return (tile != nullptr && tile->across >= 0) || is_text(result) || plan_.exact.contains(result.id);
}

// --- reading

std::string WalkValues::end_of(std::int32_t lane) const {
  for (const tile::ShortTile& tile : text_.kernel().short_tiles) {
    if (tile.lane == lane) return text_.axis(lane).name + "_end";
  }
  return std::to_string(text_.axis(lane).extent);
}

Expression WalkValues::read(TileValue value) const {
  return element(value);
}

/// Returns an element where the variables of its indices are in scope: e, or half for a value of rows.
Expression WalkValues::element(TileValue value) const {
  const Node* node = definitions_[static_cast<std::size_t>(value.id)];
  if (is_text(value)) return computed(*node);
  if (plan_.exact.contains(value.id)) return element(std::get<tile::Pointwise>(*node).operands[0]);
  const std::string& name = text_.name(value);
  if (is_tile(value)) return {name + "[e]"};
  if (lanes(value).empty()) return {name};
  if (lanes(value)[0] == plan_.rows) return {name + (in_tile_ ? fmt::format("[{}]", kElement) : "[half]")};
  return {fmt::format("{}[{}]", name, text_.axis(lanes(value)[0]).name)};
}

Expression WalkValues::computed(const Node& node) const {
  if (const auto* load = std::get_if<tile::Load>(&node)) {
    const Expression x = text_.loaded(*load, text_.element_index(load->access));
    const std::string guard = inside(load->result);
    if (guard.empty()) return x;
    return {fmt::format("{} ? {} : {}", guard, x.text, literal(0, text_.info(load->result).dtype)),
            Binding::condition};
  }
  const auto* op = std::get_if<tile::Pointwise>(&node);
  if (op == nullptr) return text_.immediate(node);
  std::vector<Expression> operands;
  std::vector<ir::DType> dtypes;
  for (const TileValue operand : op->operands) {
    operands.push_back(element(operand));
    dtypes.push_back(text_.info(operand).dtype);
  }
  return pointwise_expression(*op, operands, dtypes, text_.info(op->result).dtype);
}

/// Returns the condition that an element is one of the value's, "" if all are.
std::string WalkValues::inside(TileValue value) const {
  std::string text;
  for (const std::int32_t lane : lanes(value)) {
    const tile::Axis& axis = text_.axis(lane);
    const std::string end = end_of(lane);
    if (end != std::to_string(axis.extent) || axis.extent % 16 != 0)
      text = conjunction({text, fmt::format("{} < {}", axis.name, end)});
  }
  return text;
}

std::string WalkValues::matrix(const WalkTile& tile, const std::string& at, bool down) {
  return fmt::format("Narrow<{}, {}, {}, {}>{{reinterpret_cast<const bf16*>({})}}",
                     down ? tile.padded() : tile.rows, down ? tile.rows : tile.padded(), tile.pitch,
                     down ? "true" : "false", at);
}

// --- writing

void WalkValues::declare(TileValue value) {
  const std::string_view type = text_.type(value);
  if (is_tile(value)) {
    lines_.line("{} {}[{}];", type, text_.name(value), elements_of(value));
  } else {
    lines_.line("{} {}{};", type, text_.name(value), lanes(value).empty() ? "" : "[2]");
  }
}

/// Writes a loop over the elements of values with these lanes, or over the two rows of a thread; without
/// lanes only the statements, which `statements` returns.
void WalkValues::write_elements(const Lanes& of,
                                const std::function<std::vector<std::string>()>& statements) {
  in_tile_ = of.size() == 2;
  const std::vector<std::string> texts = statements();
  if (!of.empty()) {
    lines_.directive("#pragma unroll");
    std::int64_t count = 2;
    if (in_tile_) count = (text_.axis(of[0] == plan_.rows ? of[1] : of[0]).extent + 15) / 16 * 8;
    lines_.open("for (int {0} = 0; {0} < {1}; ++{0})", in_tile_ ? "e" : "half", count);
    for (const std::int32_t lane : of) {
      const std::string& name = text_.axis(lane).name;
      if (std::ranges::none_of(texts, [&](const std::string& text) { return mentions(text, name); }))
        continue;
      if (lane == plan_.rows) {
        lines_.line("const int {} = own_row + fragment_row({});", name, in_tile_ ? "e" : "2 * half");
      } else {
        lines_.line("const int {} = fragment_column(e);", name);
      }
    }
  }
  for (const std::string& text : texts) lines_.line("{}", text);
  if (!of.empty()) lines_.close();
  in_tile_ = false;
}

void WalkValues::write(const std::vector<Node>& nodes) {
  Nodes run;
  const auto flush = [&] {
    if (!run.empty()) write_values(std::exchange(run, {}));
  };
  for (const Node& node : nodes) {
    if (is_skipped(node)) continue;
    const TileValue result = tile::result_of(node);
    const auto* op = std::get_if<tile::Pointwise>(&node);
    const auto* load = std::get_if<tile::Load>(&node);
    const tile::Dot* added = nullptr;
    for (std::size_t i = 0; op != nullptr && i < op->operands.size(); ++i) {
      const Node* made = definitions_[static_cast<std::size_t>(op->operands[i].id)];
      const auto* dot = made == nullptr ? nullptr : std::get_if<tile::Dot>(made);
      if (dot != nullptr && adder_of(*dot) == op) added = dot;
    }
    const bool skips = op != nullptr && op->code == Opcode::select && is_tile(result) &&
                       lanes(op->operands[0]) == lanes(result) && is_linear(op->operands[0]);
    const WalkTile* column = load == nullptr ? nullptr : plan_.tile_of(result);
    if ((op != nullptr || load != nullptr) && added == nullptr && !skips && column == nullptr) {
      if (!run.empty() && lanes(tile::result_of(*run[0])) != lanes(result)) flush();
      run.push_back(&node);
      continue;
    }
    flush();
    if (column != nullptr) {
      lines_.line("const {0}* const {1} = reinterpret_cast<const {0}*>(stage + {2});", text_.type(result),
                  text_.name(result), column->offset);
    } else if (added != nullptr) {
      write_product(*added, op);
    } else if (skips) {
      write_select(*op);
    } else if (const auto* dot = std::get_if<tile::Dot>(&node)) {
      write_product(*dot, nullptr);
    } else if (const auto* reduce = std::get_if<tile::Reduce>(&node)) {
      write_reduce(*reduce);
    } else {
      write_store(std::get<tile::Store>(node));
    }
  }
  flush();
}

void WalkValues::write_values(const Nodes& nodes) {
  const Lanes& of = lanes(tile::result_of(*nodes[0]));
  for (const Node* node : nodes) declare(tile::result_of(*node));
  write_elements(of, [&] {
    std::vector<std::string> texts;
    for (const Node* node : nodes) {
      const TileValue result = tile::result_of(*node);
      texts.push_back(fmt::format("{} = {};", element(result).text, computed(*node).text));
    }
    return texts;
  });
}

/// Writes select(condition, x, other), which changes x only where the condition does not hold in all of the
/// warp's tile.
void WalkValues::write_select(const tile::Pointwise& select) {
  const TileValue result = select.result;
  const std::string& name = text_.name(result);
  declare(result);
  write_elements(lanes(result), [&] {
    return std::vector{fmt::format("{}[e] = {};", name, element(select.operands[1]).text)};
  });
  const tile::Axis& column = text_.axis(column_of(result));
  const std::string &row_name = text_.axis(plan_.rows).name, holds = name + "_holds";
  lines_.line("const auto {} = [&](int {}, int {}) {{ return {}; }};", holds, row_name, column.name,
              element(select.operands[0]).text);
  lines_.open(
      "if (!({0}(own_row, 0) && {0}(own_row + 15, 0) && {0}(own_row, {1}) && {0}(own_row + 15, {1})))", holds,
      column.extent - 1);
  write_elements(lanes(result), [&] {
    return std::vector{fmt::format("if (!{}(own_row + fragment_row(e), fragment_column(e))) {}[e] = {};",
                                   holds, name, element(select.operands[2]).text)};
  });
  lines_.close();
}

void WalkValues::write_reduce(const tile::Reduce& reduce) {
  const std::string& name = text_.name(reduce.result);
  const ir::DType dtype = text_.info(reduce.result).dtype;
  const std::string start = reduction_start(reduce.kind, dtype);
  lines_.line("{} {}[2] = {{{}, {}}};", text_.type(reduce.result), name, start, start);
  const tile::Axis& column = text_.axis(column_of(reduce.operand));
  write_elements(lanes(reduce.operand), [&] {
    const std::string guard =
        column.extent % 16 == 0 ? "" : fmt::format("if ({} < {}) ", column.name, column.extent);
    return std::vector{
        guard +
        accumulate(reduce.kind, dtype, fmt::format("{}[{}]", name, kElement), element(reduce.operand)) + ";"};
  });
  lines_.line("over_rows<{}>({});", reduction_functor(reduce.kind), name);
}

void WalkValues::write_product(const tile::Dot& dot, const tile::Pointwise* add) {
  const TileValue result = add != nullptr ? add->result : dot.result;
  const std::string& name = text_.name(result);
  const WalkTile& right = *plan_.tile_of(dot.b);
  const std::string at = fmt::format("stage + {}", right.offset);
  const std::int64_t wide = elements_of(result) / 4;
  declare(result);
  if (const WalkTile* left = plan_.tile_of(dot.a)) {
    const std::string b = matrix(right, at, false);
    if (plan_.held) {
      lines_.line("multiply_rows<{}, true>({}, {}_rows, {}, 0);", wide, name, text_.name(dot.a), b);
    } else {
      lines_.line("multiply<{}, true>({}, {}, {}, own_row, 0);", wide, name,
                  matrix(*left, fmt::format("shared + {}", left->offset), false), b);
    }
    return;
  }
  write_elements(lanes(result), [&] {
    std::string begins = "0.0f";
    if (add != nullptr) begins = element(add->operands[add->operands[0] == dot.result ? 1 : 0]).text;
    return std::vector{fmt::format("{}[e] = {};", name, begins)};
  });
  TileValue left = dot.a;
  while (plan_.exact.contains(left.id)) {
    left = std::get<tile::Pointwise>(*definitions_[static_cast<std::size_t>(left.id)]).operands[0];
  }
  lines_.line("multiply_tile<{}, {}, true>({}, {}, {}, 0);", wide, elements_of(left) / 4, name,
              text_.name(left), matrix(right, at, true));
}

void WalkValues::write_store(const tile::Store& store) {
  const Lanes& of = lanes(store.value);
  const std::int32_t column = column_of(store.value);
  if (of.size() == 2 && text_.stored_dtype(store.access) == ir::DType::bf16 &&
      text_.packet_of(store.access, column) == 8 && !is_text(store.value)) {
    const tile::Axis &rows = text_.axis(plan_.rows), &columns = text_.axis(column);
    lines_.line("store_tile<{}, {}, {}, {}>({}, {}, own_row, 0, {});", elements_of(store.value) / 4,
                rows.extent, columns.extent, store.access.strides[static_cast<std::size_t>(plan_.rows)],
                text_.pointer(store.access), text_.name(store.value), end_of(plan_.rows));
    return;
  }
  write_elements(of, [&] {
    const std::string first = of.empty()       ? "threadIdx.x == 0"
                              : of.size() == 1 ? "int(threadIdx.x) % 4 == 0"
                                               : "";
    return std::vector{text_.stored(store, element(store.value), conjunction({first, inside(store.value)}))};
  });
}

void WalkValues::start_carried() {
  for (const tile::Carried& carried : text_.kernel().carried) {
    declare(carried.entry);
    write_elements(lanes(carried.entry), [&] {
      return std::vector{fmt::format("{} = {};", element(carried.entry).text, element(carried.initial).text)};
    });
  }
}

void WalkValues::carry() {
  for (const tile::Carried& carried : text_.kernel().carried) {
    write_elements(lanes(carried.entry), [&] {
      return std::vector{fmt::format("{} = {};", element(carried.entry).text, element(carried.next).text)};
    });
  }
}

}  // namespace rewire::codegen::cuda
