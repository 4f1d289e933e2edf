// The op table: the rows of ops.def. Their operand and attribute specs are parsed once, at first use.
#include <cctype>
#include <charconv>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

int parse_count(std::string_view text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) {
    internal_error("op table: '{}' is not an operand count", text);
  }
  return count;
}

/// "2", "1-3" or "1+".
void parse_operands(std::string_view spec, OpInfo& info) {
  const std::size_t dash = spec.find('-');
  if (spec.ends_with('+')) {
    info.min_operands = parse_count(spec.substr(0, spec.size() - 1));
    info.max_operands = -1;
  } else if (dash != std::string_view::npos) {
    info.min_operands = parse_count(spec.substr(0, dash));
    info.max_operands = parse_count(spec.substr(dash + 1));
  } else {
    info.min_operands = info.max_operands = parse_count(spec);
  }
}

AttributeKind parse_kind(std::string_view kind) {
  if (kind == "bool") return AttributeKind::boolean;
  if (kind == "int") return AttributeKind::integer;
  if (kind == "float") return AttributeKind::floating;
  if (kind == "str") return AttributeKind::string;
  if (kind == "ints") return AttributeKind::integers;
  if (kind == "floats") return AttributeKind::floats;
  internal_error("op table: unknown attribute kind '{}'", kind);
}

Attribute parse_default(AttributeKind kind, std::string_view text) {
  const std::string copy(text);
  switch (kind) {
    case AttributeKind::boolean:
      return text == "true";
    case AttributeKind::integer:
      return static_cast<std::int64_t>(std::stoll(copy));
    case AttributeKind::floating:
      return std::stod(copy);
    case AttributeKind::string:
      return copy.substr(1, copy.size() - 2);
    case AttributeKind::integers:
      if (text == "[]") return Ints{};
      break;
    case AttributeKind::floats:
      if (text == "[]") return Doubles{};
      break;
  }
  internal_error("op table: a list's default can only be [], not '{}'", text);
}

/// "name:kind,name:kind=default,…"; no default contains a comma.
std::vector<AttributeSpec> parse_attributes(std::string_view spec) {
  std::vector<AttributeSpec> attributes;
  while (!spec.empty()) {
    const std::size_t comma = spec.find(',');
    const std::string_view item = spec.substr(0, comma);
    spec = comma == std::string_view::npos ? std::string_view() : spec.substr(comma + 1);

    const std::size_t colon = item.find(':');
    const std::size_t equals = item.find('=');
    AttributeSpec attribute;
    attribute.name = item.substr(0, colon);
    attribute.kind = parse_kind(item.substr(colon + 1, equals - colon - 1));
    if (equals != std::string_view::npos) {
      attribute.default_value = parse_default(attribute.kind, item.substr(equals + 1));
    }
    attributes.push_back(std::move(attribute));
  }
  return attributes;
}

OpInfo make_row(Opcode code, OpClass op_class, std::string_view operands, int results, bool typed,
                std::string_view attributes, InferFunction infer, EvalFunction evaluate, VjpFunction vjp,
                DecomposeFunction decompose, double tolerance, WorkFunction work, Arithmetic arithmetic,
                bool open_to_plugins, std::string_view doc) {
  OpInfo info;
  info.code = code;
  info.name = opcode_name(code);
  info.op_class = op_class;
  info.results = results;
  info.typed = typed;
  info.infer = infer;
  info.evaluate = evaluate;
  info.vjp = vjp;
  info.decompose = decompose;
  info.tolerance = tolerance;
  info.work = work;
  info.arithmetic = arithmetic;
  info.open_to_plugins = open_to_plugins;
  info.doc = doc;
  parse_operands(operands, info);
  info.attributes = parse_attributes(attributes);
  return info;
}

std::vector<OpInfo> make_table() {
  constexpr bool yes = true;
  constexpr bool no = false;
  constexpr bool open = true;
  constexpr bool closed = false;
  std::vector<OpInfo> table;
  table.reserve(kOpcodeCount);
#define no_vjp nullptr
#define no_decompose nullptr
#define no_work nullptr
#define REWIRE_OP(name, op_class, operands, results, typed, attributes, infer, evaluate, vjp, decompose, \
                  tolerance, work, arithmetic, plugins, doc)                                             \
  table.push_back(make_row(Opcode::name, OpClass::op_class, operands, results, typed, attributes, infer, \
                           evaluate, vjp, decompose, tolerance, work, Arithmetic::arithmetic, plugins,   \
                           doc));
#include "ir/ops/ops.def"
#undef REWIRE_OP
#undef no_vjp
#undef no_decompose
#undef no_work
  return table;
}

}  // namespace

std::span<const OpInfo> op_table() {
  static const std::vector<OpInfo> table = make_table();
  return table;
}

double operations_each(Opcode code) {
  static const std::vector<double> operations = [] {
    std::vector<double> each;
    const Attributes none;
    for (const OpInfo& info : op_table()) {
      const bool is_counted = info.op_class == OpClass::pointwise && info.work != nullptr;
      each.push_back(is_counted ? info.work({none, {}, {{DType::f32, {1}}}}).flops : 0);
    }
    return each;
  }();
  return operations[static_cast<std::size_t>(code)];
}

const OpInfo& op_info(Opcode code) {
  return op_table()[static_cast<std::size_t>(code)];
}

}  // namespace rewire::ir
