// The printer of the text form (ir/text.h). It prints any
// module, even a broken one, so that it can be inspected.
#include <fmt/format.h>
#include <bit>
#include <iterator>
#include <type_traits>

#include "ir/init_text.h"
#include "ir/ops/op_info.h"
#include "ir/text.h"
#include "ir/text_lexer.h"

namespace rewire::ir {
namespace {

std::string spell_name(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : quote(name);
}

std::string spell(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return fmt::format("{}", value);
        } else if constexpr (std::is_same_v<T, double>) {
          return spell_double(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return quote(value);
        } else {
          std::string list = "[";
          for (const auto& item : value) {
            if (list.size() > 1) list += ", ";
            list += spell(Attribute(item));
          }
          return list + "]";
        }
      },
      attribute);
}

/// Compares bit for bit: -0.0 is not the default 0.0.
bool is_default(const Attribute& value, const std::optional<Attribute>& default_value) {
  if (!default_value) return false;
  if (std::holds_alternative<double>(value) && std::holds_alternative<double>(*default_value)) {
    return std::bit_cast<std::uint64_t>(std::get<double>(value)) ==
           std::bit_cast<std::uint64_t>(std::get<double>(*default_value));
  }
  return value == *default_value;
}

/// Returns " {a = 1, b = true}", or "" if there is nothing to print.
std::string spell_attributes(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) {
    text += text.empty() ? " {" : ", ";
    text += spell_name(name) + " = " + spell(value);
  }
  return text.empty() ? text : text + "}";
}

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void print_module(const Module& module) {
    write("module @{} {{\n", spell_name(module.name));
    for (const auto& [name, value] : module.attributes) {
      write("  attribute {} = {}\n", spell_name(name), spell(value));
    }
    for (const Parameter& parameter : module.parameters) print_parameter(parameter);
    bool first = module.attributes.empty() && module.parameters.empty();
    for (const Function& function : module.functions) {
      if (!first) out_ += '\n';
      first = false;
      print_function(function);
    }
    out_ += "}\n";
  }

  void print_function(const Function& function) {
    name_values(function);
    write("  func @{}(", spell_name(function.name));
    for (std::size_t i = 0; i < function.arguments.size(); ++i) {
      const Value value = function.arguments[i].value;
      write("{}{}: {}", i == 0 ? "" : ", ", name_of(value), type_of(function, value));
    }
    out_ += ") -> (";
    for (std::size_t i = 0; i < function.results.size(); ++i) {
      const Argument& result = function.results[i];
      write("{}{}: {}", i == 0 ? "" : ", ", spell_name(result.name), type_of(function, result.value));
    }
    out_ += function.trains ? ") training {\n" : ") {\n";
    for (const Op& op : function.body) print_op(function, op);
    print_return(function);
    out_ += "  }\n";
  }

 private:
  template <class... Args>
  void write(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void print_parameter(const Parameter& parameter) {
    Attributes attributes{{"init", to_string(parameter.init)}};
    if (!parameter.average_of.empty()) attributes.set("average_of", parameter.average_of);
    if (parameter.block != -1) attributes.set("block", std::int64_t{parameter.block});
    if (!parameter.decay) attributes.set("decay", false);
    for (const OptimizerHintField& field : kOptimizerHintFields) {
      if (const std::optional<double>& value = parameter.hint.*field.value)
        attributes.set(std::string(field.name), *value);
    }
    if (parameter.layer != -1) attributes.set("layer", std::int64_t{parameter.layer});
    if (parameter.kind != StateKind::weight)
      attributes.set("kind", std::string(state_kind_name(parameter.kind)));
    if (!parameter.role.empty()) attributes.set("role", parameter.role);
    if (!parameter.site.empty()) attributes.set("site", parameter.site);
    write("  {} @{} : {}{}\n", parameter.trainable ? "param" : "state", spell_name(parameter.name),
          to_string(parameter.type), spell_attributes(attributes));
  }

  void print_op(const Function& function, const Op& op) {
    const OpInfo& info = op_info(op.code);
    out_ += "    ";
    for (std::size_t i = 0; i < op.results.size(); ++i)
      write("{}{}", i == 0 ? "" : ", ", name_of(op.results[i]));
    write("{}{}", op.results.empty() ? "" : " = ", info.name);
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      write("{}{}", i == 0 ? " " : ", ", name_of(op.operands[i]));
    }
    Attributes attributes;
    for (const auto& [name, value] : op.attributes) {
      const AttributeSpec* spec = info.find_attribute(name);
      if (spec == nullptr || !is_default(value, spec->default_value)) attributes.set(name, value);
    }
    out_ += spell_attributes(attributes);
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      write("{}{}", i == 0 ? " : " : ", ", type_of(function, op.results[i]));
    }
    if (!op.location.empty()) write(" loc({})", quote(op.location));
    out_ += '\n';
  }

  void print_return(const Function& function) {
    out_ += "    return";
    for (std::size_t i = 0; i < function.results.size(); ++i) {
      const Argument& result = function.results[i];
      write("{}{} = {}", i == 0 ? " " : ", ", spell_name(result.name), name_of(result.value));
    }
    out_ += '\n';
  }

  void name_values(const Function& function) {
    names_.assign(function.types.size(), "");
    for (const Argument& argument : function.arguments) name(argument.value, spell_name(argument.name));
    std::size_t next = 0;
    for (const Op& op : function.body) {
      for (Value result : op.results) name(result, fmt::format("{}", next++));
    }
  }

  void name(Value value, std::string_view text) {
    if (in_range(value)) names_[static_cast<std::size_t>(value.id)] = fmt::format("%{}", text);
  }
  bool in_range(Value value) const {
    return value.id >= 0 && static_cast<std::size_t>(value.id) < names_.size();
  }
  /// Returns "%?17" for a value that nothing defines. Only broken IR has one.
  std::string name_of(Value value) const {
    if (!in_range(value) || names_[static_cast<std::size_t>(value.id)].empty()) {
      return fmt::format("%?{}", value.id);
    }
    return names_[static_cast<std::size_t>(value.id)];
  }
  std::string type_of(const Function& function, Value value) const {
    return in_range(value) ? to_string(function.type(value)) : "?";
  }

  std::string out_;
  std::vector<std::string> names_;  // by Value::id, with the %
};

}  // namespace

std::string print(const Module& module) {
  Printer printer;
  printer.print_module(module);
  return printer.take();
}

std::string print(const Module&, const Function& function) {
  Printer printer;
  printer.print_function(function);
  return printer.take();
}

}  // namespace rewire::ir
