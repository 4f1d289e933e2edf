// The checks that every op must pass, whatever code built it: operand count, attributes, shape rule, type
// limits. A message is one line: op, place, what is wrong, operand types.
#include "ir/ops/op_info.h"

#include <array>

#include "ir/error.h"
#include "ir/verify.h"

namespace rewire::ir {
namespace {

std::string_view kind_name(AttributeKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {
      "true or false", "an integer", "a number", "a string", "a list of integers", "a list of numbers"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Returns the kind of an attribute's value. The variant's alternatives are in AttributeKind's order.
AttributeKind kind_of(const Attribute& attribute) {
  static_assert(std::variant_size_v<Attribute> == 6);
  return static_cast<AttributeKind>(attribute.index());
}

/// Returns the value converted to `kind`, or nothing if that loses something. It converts an integer to a
/// number, integers to numbers, and [] to either kind of list.
std::optional<Attribute> as_kind(const Attribute& attribute, AttributeKind kind) {
  if (kind_of(attribute) == kind) return attribute;
  if (kind == AttributeKind::floating && std::holds_alternative<std::int64_t>(attribute)) {
    return static_cast<double>(std::get<std::int64_t>(attribute));
  }
  if (kind == AttributeKind::floats && std::holds_alternative<Ints>(attribute)) {
    const Ints& ints = std::get<Ints>(attribute);
    return Doubles(ints.begin(), ints.end());
  }
  if (kind == AttributeKind::integers && std::holds_alternative<Doubles>(attribute) &&
      std::get<Doubles>(attribute).empty()) {
    return Ints{};
  }
  return std::nullopt;
}

void check_known(const OpInfo& info, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    if (info.find_attribute(name) != nullptr) continue;
    if (info.attributes.empty()) user_error("unknown attribute '{}': the op takes none", name);
    std::vector<std::string> known;
    for (const AttributeSpec& spec : info.attributes) known.push_back(spec.name);
    const std::string hint = did_you_mean(name, known);
    if (!hint.empty()) user_error("unknown attribute '{}'{}", name, hint);
    user_error("unknown attribute '{}': the op takes {}", name, fmt::join(known, ", "));
  }
}

void complete_attributes(const OpInfo& info, Attributes& attributes) {
  check_known(info, attributes);
  for (const AttributeSpec& spec : info.attributes) {
    const Attribute* given = attributes.find(spec.name);
    if (given == nullptr) {
      if (!spec.default_value) user_error("attribute '{}' is missing ({})", spec.name, kind_name(spec.kind));
      attributes.set(spec.name, *spec.default_value);
      continue;
    }
    if (kind_of(*given) == spec.kind) continue;
    std::optional<Attribute> converted = as_kind(*given, spec.kind);
    if (!converted) {
      user_error("attribute '{}' must be {}, not {}", spec.name, kind_name(spec.kind),
                 kind_name(kind_of(*given)));
    }
    attributes.set(spec.name, *std::move(converted));
  }
}

void check_operand_count(const OpInfo& info, std::size_t given) {
  const auto minimum = static_cast<std::size_t>(info.min_operands);
  if (given >= minimum && (info.max_operands < 0 || given <= static_cast<std::size_t>(info.max_operands)))
    return;
  if (info.max_operands < 0)
    user_error("takes at least {} operand{}, got {}", minimum, minimum == 1 ? "" : "s", given);
  if (info.max_operands == info.min_operands) {
    user_error("takes {} operand{}, got {}", minimum, minimum == 1 ? "" : "s", given);
  }
  user_error("takes {} to {} operands, got {}", minimum, info.max_operands, given);
}

/// Keeps element counts below kMaxElements (ir/verify.h), so that computing with sizes is safe.
void check_limits(const TensorType& type) {
  std::int64_t count = 1;
  for (std::int64_t extent : type.shape) {
    if (extent < 1) user_error("result type {} has an extent below 1", to_string(type));
    if (extent > (kMaxElements - 1) / count) {
      user_error("result type {} has 2^40 elements or more", to_string(type));
    }
    count *= extent;
  }
}

std::vector<TensorType> operand_types(const Function& function, const Op& op) {
  std::vector<TensorType> types;
  types.reserve(op.operands.size());
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::int32_t id = op.operands[i].id;
    if (id < 0 || static_cast<std::size_t>(id) >= function.types.size()) {
      user_error("{}: operand {} is not a value of function '{}'", describe(op), i, function.name);
    }
    types.push_back(function.types[static_cast<std::size_t>(id)]);
  }
  return types;
}

std::vector<TensorType> infer(const OpInfo& info, const InferContext& context) {
  if (info.typed) {
    if (!context.requested) user_error("the result type must be given");
    check_limits(*context.requested);
  }
  std::vector<TensorType> results = info.infer(context);
  for (const TensorType& type : results) check_limits(type);
  if (!info.typed && context.requested && results.size() == 1 && results[0] != *context.requested) {
    user_error("the result is {}, not {} as stated", to_string(results[0]), to_string(*context.requested));
  }
  return results;
}

std::string join_types(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : " x ") + to_string(type);
  return text;
}

}  // namespace

std::string_view op_class_name(OpClass op_class) {
  constexpr std::array<std::string_view, 10> kNames = {"pointwise", "reduce", "contract",  "shape",
                                                       "spectral",  "random", "composite", "residual",
                                                       "state",     "comm"};
  return kNames[static_cast<std::size_t>(op_class)];
}

const AttributeSpec* OpInfo::find_attribute(std::string_view attribute_name) const {
  for (const AttributeSpec& spec : attributes) {
    if (spec.name == attribute_name) return &spec;
  }
  return nullptr;
}

std::vector<TensorType> check_and_infer(const Module& module, const Function& function, Op& op,
                                        const std::optional<TensorType>& requested) {
  const OpInfo& info = op_info(op.code);
  const std::vector<TensorType> types = operand_types(function, op);
  try {
    check_operand_count(info, types.size());
    complete_attributes(info, op.attributes);
    return infer(info, InferContext{module, op.attributes, types, requested});
  } catch (const UserError& error) {
    user_error("{}: {}{}{}", describe(op), error.what(), types.empty() ? "" : ": ", join_types(types));
  }
}

std::string describe(const Op& op) {
  std::string text(opcode_name(op.code));
  if (!op.location.empty()) text += " at " + op.location;
  if (op.line > 0) text += fmt::format(" (line {})", op.line);
  return text;
}

}  // namespace rewire::ir
