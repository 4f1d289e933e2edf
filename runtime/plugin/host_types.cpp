// Conversions at the boundary; everything that comes from a plugin is checked here.
#include "runtime/plugin/host_types.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/error.h"
#include "ir/ops/op_info.h"

namespace rewire::runtime {
namespace {

using ir::DType;

static_assert(static_cast<int>(DType::f64) == REWIRE_F64 && static_cast<int>(DType::f32) == REWIRE_F32 &&
              static_cast<int>(DType::bf16) == REWIRE_BF16 && static_cast<int>(DType::f16) == REWIRE_F16 &&
              static_cast<int>(DType::i64) == REWIRE_I64 && static_cast<int>(DType::i32) == REWIRE_I32 &&
              static_cast<int>(DType::u8) == REWIRE_U8 && static_cast<int>(DType::i1) == REWIRE_I1);
static_assert(static_cast<int>(ir::InitKind::zeros) == REWIRE_INIT_ZEROS &&
              static_cast<int>(ir::InitKind::xavier_uniform) == REWIRE_INIT_XAVIER_UNIFORM);

constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // the verifier's V9

std::string default_text(const ir::Attribute& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *text);
  return "[]";
}

std::string op_line(const ir::OpInfo& info) {
  constexpr std::array<std::string_view, 6> kKinds = {"bool", "int", "float", "str", "ints", "floats"};
  std::string operands = fmt::format("{}", info.min_operands);
  if (info.max_operands < 0) operands += "+";
  if (info.max_operands > info.min_operands) operands += fmt::format("-{}", info.max_operands);
  std::string line = fmt::format("{} operands={} results={}{}", info.name, operands, info.results,
                                 info.typed ? " typed" : "");
  for (const ir::AttributeSpec& attribute : info.attributes) {
    line += fmt::format(" {}:{}", attribute.name, kKinds[static_cast<std::size_t>(attribute.kind)]);
    if (attribute.default_value) line += "=" + default_text(*attribute.default_value);
  }
  return line;
}

ir::Attribute from_c_attribute(const rewire_attribute& attribute) {
  const auto array = [&](const auto* items) {
    if (items == nullptr && attribute.count > 0)
      user_error("its attribute '{}' lacks its list", attribute.name);
    return std::vector(items, items + attribute.count);
  };
  switch (attribute.kind) {
    case REWIRE_ATTRIBUTE_BOOL:
      return attribute.integer != 0;
    case REWIRE_ATTRIBUTE_INT:
      return attribute.integer;
    case REWIRE_ATTRIBUTE_FLOAT:
      return attribute.real;
    case REWIRE_ATTRIBUTE_STR:
      if (attribute.text == nullptr) user_error("its attribute '{}' lacks its text", attribute.name);
      return std::string(attribute.text);
    case REWIRE_ATTRIBUTE_INTS:
      return array(attribute.integers);
    case REWIRE_ATTRIBUTE_FLOATS:
      return array(attribute.reals);
    default:
      user_error("its attribute '{}' is of unknown kind {}", attribute.name, attribute.kind);
  }
}

}  // namespace

rewire_type to_c_type(const ir::TensorType& type) {
  if (type.shape.size() > REWIRE_MAX_RANK) {
    internal_error("{} has more axes than the plugin boundary carries", ir::to_string(type));
  }
  rewire_type c{};
  c.dtype = static_cast<std::uint32_t>(type.dtype);
  c.rank = static_cast<std::uint32_t>(type.shape.size());
  std::ranges::copy(type.shape, c.shape);
  return c;
}

ir::TensorType from_c_type(const rewire_type* type) {
  if (type == nullptr) user_error("it passed no type");
  if (type->dtype > REWIRE_I1) user_error("it passed a type of unknown dtype {}", type->dtype);
  if (type->rank > REWIRE_MAX_RANK) user_error("it passed a type of {} axes; the maximum is 8", type->rank);
  ir::TensorType result{static_cast<DType>(type->dtype), {type->shape, type->shape + type->rank}};
  std::int64_t elements = 1;
  for (std::int64_t extent : result.shape) {
    if (extent < 1 || extent > kMaxElements / elements) {
      user_error("it passed the type {}: extents must be >= 1, with at most 2^40 elements",
                 ir::to_string(result));
    }
    elements *= extent;
  }
  return result;
}

ir::Attributes from_c_attributes(const rewire_attribute* attributes, std::uint32_t count) {
  if (attributes == nullptr && count > 0) user_error("it passed {} attributes, but no list of them", count);
  ir::Attributes result;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (attributes[i].name == nullptr) user_error("it passed an attribute with no name");
    if (result.has(attributes[i].name)) user_error("it passed the attribute '{}' twice", attributes[i].name);
    result.set(attributes[i].name, from_c_attribute(attributes[i]));
  }
  return result;
}

ir::Init from_c_init(const rewire_new_weight& weight) {
  const double a = weight.a, b = weight.b;
  const bool valid = [&] {
    switch (weight.init) {
      case REWIRE_INIT_ZEROS:
      case REWIRE_INIT_ONES:
        return true;
      case REWIRE_INIT_CONSTANT:
        return std::isfinite(a);
      case REWIRE_INIT_NORMAL:
        return std::isfinite(a) && a >= 0;
      case REWIRE_INIT_TRUNC_NORMAL:
        return std::isfinite(a) && a > 0 && b > 0;
      case REWIRE_INIT_UNIFORM:
        return std::isfinite(a) && std::isfinite(b) && a <= b;
      case REWIRE_INIT_XAVIER_UNIFORM:
        return weight.type->rank >= 2;
      default:
        return false;
    }
  }();
  if (!valid) {
    user_error("its weight '{}' of {} axes has no valid init (kind {}, a {}, b {})", weight.name,
               weight.type->rank, weight.init, a, b);
  }
  return {static_cast<ir::InitKind>(weight.init), a, b};
}

ir::Opcode plugin_opcode(std::string_view name) {
  std::vector<std::string> known;
  for (const ir::OpInfo& info : ir::op_table()) {
    if (!info.open_to_plugins) continue;
    if (info.name == name) return info.code;
    known.emplace_back(info.name);
  }
  user_error("it emitted '{}', which is not an op that plugins may emit{}", name, did_you_mean(name, known));
}

std::vector<std::string> plugin_op_lines() {
  std::vector<std::string> lines;
  for (const ir::OpInfo& info : ir::op_table()) {
    if (info.open_to_plugins) lines.push_back(op_line(info));
  }
  return lines;
}

}  // namespace rewire::runtime
