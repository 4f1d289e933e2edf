#include "formula/cpp.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "formula/formulas.h"
#include "formula/language.h"

namespace formula {
namespace {

constexpr std::size_t kColumns = 100;

constexpr std::array kParameters = {
    "at",   "weights",         "let",           "norm_input", "input", "shortcut", "branch", "sum",
    "join", "change_shortcut", "change_branch", "change_sum", "exit",  "report",   "after",  "init"};

/// Breaks a line at spaces before the column; further lines begin with `head`. A text in quotes stays whole.
std::string wrapped(const std::string& line, const std::string& head) {
  std::string result, rest = line;
  while (rest.size() > kColumns) {
    std::size_t at = std::string::npos;
    bool quoted = false;
    for (std::size_t i = 0; i < rest.size() && (i <= kColumns || at == std::string::npos); ++i) {
      quoted ^= rest[i] == '"' && head.find("//") == std::string::npos;
      if (rest[i] == ' ' && !quoted && i > head.size()) at = i;
    }
    if (at == std::string::npos) break;
    result += rest.substr(0, at) + "\n";
    rest = head + rest.substr(at + 1);
  }
  return result + rest + "\n";
}

std::string in_one_line(std::string text) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) text.replace(at, 1, "; ");
  return text;
}

/// Whether C++, the SDK or the source itself already uses the name.
bool is_taken(const std::string& name) {
  static const std::set<std::string> names = {
      "alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
      "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char16_t",
      "char32_t",    "char8_t",  "class",      "co_await",  "co_return", "co_yield",     "compl",
      "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
      "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
      "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
      "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
      "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
      "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
      "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
      "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
      "true",        "try",      "typedef",    "typeid",    "typename",  "union",        "unsigned",
      "using",       "virtual",  "void",       "volatile",  "wchar_t",   "while",        "xor",
      "xor_eq",      "choose",   "errno",      "join",      "let",       "linux",        "pow",
      "rewire",      "std",      "stderr",     "stdin",     "stdout",    "unix"};
  return names.contains(name);
}

class Writer {
 public:
  Writer(std::string_view name, const std::vector<std::pair<std::string, std::string>>& values)
      : name_(name), values_(values), formulas_([&](const std::string& key) {
          const auto found = std::ranges::find(values, key, &std::pair<std::string, std::string>::first);
          return found != values.end() ? found->second : key == "at" ? "all" : "";
        }) {}

  std::string text() {
    const std::string body = this->body();
    std::string text = "// " + name_ + ": a strategy that began as formulas.\n";
    for (const char* key : kParameters)
      for (const auto& [given, value] : values_)
        if (given == key && !value.empty())
          text += wrapped("//   " + given + " = " + in_one_line(value), "//     ");
    text +=
        "#include <rewire_formula.hpp>\n\nnamespace {\n\nusing namespace rewire::formula;\n"
        "using namespace rewire::formula::names;\n\n"
        "// What each join computes. A Term is an expression; rewire_formula.hpp has all functions.\n"
        "Formulas formulas(const Call&) {\n  Formulas join;\n" +
        body + "  return join;\n}\n\nvoid rewrite(const Rewrite& call) {\n  formulas(call).apply(call);\n}\n";
    if (!formulas_.inits.empty())
      text += "\nvoid initialise(const Initialise& call) {\n  formulas(call).apply(call);\n}\n";
    return text + "\n}  // namespace\n\nREWIRE_PLUGIN(\"" + name_ +
           "\", \"0.1.0\", \"a strategy that began as formulas\", rewire::plugin::kNoParameters,\n           "
           "   rewrite" +
           (formulas_.inits.empty() ? ")\n" : ", initialise)\n");
  }

 private:
  void statement(std::string& body, const std::string& line) const {
    body += wrapped("  " + line + ";", "      ");
  }

  std::string body() {
    std::string body;
    if (formulas_.at != "all")
      statement(body,
                std::string("join.at = Joins::") + (formulas_.at == "block" ? "ends_of_blocks" : "last"));
    // The numbers of weights may read names of let, and those may read weights.
    const auto lets = [&](bool for_weights) {
      for (const std::string& name : formulas_.let_names)
        if (formulas_.of_weights.contains(name) == for_weights && formulas_.any_reads(name))
          statement(body, "const Term " + cpp_name(name) + " = let(" + term(formulas_.lets.at(name)) + ")");
    };
    lets(true);
    for (const WeightEntry& weight : formulas_.weights)
      statement(body, "const Term " + cpp_name(weight.name) + " = " + added(weight));
    lets(false);
    for (const char* key : {"norm_input", "input", "shortcut", "branch", "sum", "join", "change_shortcut",
                            "change_branch", "change_sum", "exit"}) {
      const Part* part = formulas_.slot(key);
      if (!part) continue;
      const WholeJoin whole =
          std::string_view(key) == "join" ? split_join(part->node) : WholeJoin{key, part->node};
      if (!whole.slot.empty())
        statement(body, "join." + whole.slot + " = " + term(part->source, whole.formula));
    }
    const auto hooks = [&](const char* function, const std::vector<NamedPart>& parts) {
      for (const NamedPart& part : parts)
        statement(body, std::string("join.") + function + "(\"" + part.name + "\", " + term(part.part) + ")");
    };
    hooks("report", formulas_.reports);
    hooks("after", formulas_.afters);
    hooks("init", formulas_.inits);
    return body;
  }

  /// A name that C++ or the source uses gets underscores, until it is one that nobody uses.
  std::string cpp_name(const std::string& name) const {
    std::string other = name;
    while (is_taken(other) || (other != name && (formulas_.weight(other) || formulas_.lets.contains(other))))
      other += "_";
    return other;
  }

  std::string added(const WeightEntry& weight) {
    const Source& source = formulas_.weights_source;
    std::string shape;
    for (const Node& extent : weight.extents) shape += (shape.empty() ? "" : ", ") + term(source, extent);
    shape = weight.shape == WeightShape::channels   ? "Shape::channels()"
            : weight.shape == WeightShape::out      ? "Shape::out()"
            : weight.shape == WeightShape::branches ? "Shape::branches()"
                                                    : "{" + shape + "}";
    std::string options;
    const auto option = [&](const std::string& key, const std::string& value) {
      options += std::string(options.empty() ? "" : ", ") + "." + key + " = " + value;
    };
    if (!weight.group.empty()) option("group", "Group::" + weight.group);
    if (weight.per_block) option("per_block", "true");
    for (const char* key : {"lr_scale", "weight_decay", "beta1", "beta2"})  // in the order of Training
      for (const Entry::Option& hint : weight.hints)
        if (hint.name == key) option(key, term(source, hint.value[0]));
    const Node& value = weight.value;
    const std::array draws = {"normal", "trunc_normal", "uniform", "xavier"};
    const bool draws_it =
        value.kind == Node::Kind::call && std::ranges::find(draws, value.text) != draws.end();
    std::string start;
    if (draws_it)
      for (const Node& argument : value.children)
        start += (start.empty() ? "" : ", ") + term(source, argument);
    start = draws_it ? "Start::" + value.text + "(" + start + ")" : term(source, value);
    return "join.weight(\"" + weight.name + "\", " + shape + ", " + start +
           (options.empty() ? "" : ", {" + options + "}") + ")";
  }

  // --- expressions

  std::string term(const Part& part) { return term(part.source, part.node); }

  /// The tree in parentheses if it binds less than `least`: 0 a choice and all that is a call here, 2 a sum, 3 a
  /// product, 4 a sign, 5 an element.
  std::string term_at(const Source& source, const Node& node, int least) {
    const int binds = node.kind == Node::Kind::comparison ? 1
                      : node.kind == Node::Kind::sum      ? 2
                      : node.kind == Node::Kind::product  ? 3
                      : node.kind == Node::Kind::negation ? 4
                                                          : 5;
    return binds < least ? "(" + term(source, node) + ")" : term(source, node);
  }

  static bool has_names(const Node& node) {
    return node.kind == Node::Kind::name || node.kind == Node::Kind::index || node.text == "uniform" ||
           node.text == "normal" || std::ranges::any_of(node.children, has_names);
  }

  std::string term(const Source& source, const Node& node) {
    const auto child = [&](std::size_t i, int least) { return term_at(source, node.children[i], least); };
    const auto call = [&](const std::string& function) {
      std::string arguments;
      for (std::size_t i = 0; i < node.children.size(); ++i) arguments += (i == 0 ? "" : ", ") + child(i, 0);
      return function + "(" + arguments + ")";
    };
    switch (node.kind) {
      case Node::Kind::number: {
        const std::string text = to_text(node);
        return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
      }
      case Node::Kind::name:
        return cpp_name(node.text);
      case Node::Kind::index:
        return cpp_name(node.text) + "[" + child(0, 0) + "]";
      case Node::Kind::call:
        return function(source, node);
      case Node::Kind::negation:
        return "-" + child(0, 5);
      case Node::Kind::power:
        return has_names(node) ? call("pow") : "pow(Term(" + child(0, 0) + "), " + child(1, 0) + ")";
      case Node::Kind::choice:
        return call("choose");
      case Node::Kind::comparison: {
        const std::map<std::string, std::string> signs = {{"lt", " < "},  {"le", " <= "}, {"gt", " > "},
                                                          {"ge", " >= "}, {"eq", " == "}, {"ne", " != "}};
        // C++ compares two numbers to a bool, and adds and divides bools as integers.
        const std::string left = has_names(node) ? child(0, 2) : "Term(" + child(0, 0) + ")";
        return left + signs.at(node.text) + child(1, 2);
      }
      case Node::Kind::sum:
      case Node::Kind::product:
        break;
    }
    const int least = node.kind == Node::Kind::sum ? 3 : 4;
    // C++ folds numbers alone in double, too.
    std::string text = child(0, least);
    for (std::size_t i = 1; i < node.children.size(); ++i)
      text += std::string(" ") + node.text[i] + " " + child(i, least);
    return text;
  }

  std::string function(const Source& source, const Node& node) {
    const std::string& name = node.text;
    const Words words = words_of(node);
    const bool draws = name == "drop" || name == "normal" || name == "uniform";
    std::vector<std::string> arguments;
    if (draws) arguments.push_back("\"" + stream(source, node) + "\"");
    for (std::size_t i = 0; i < words.arguments; ++i) arguments.push_back(term(source, node.children[i]));
    // A function of numbers alone must be this function, not that of the C library.
    if (!arguments.empty() && !draws && !has_names(node)) arguments[0] = "Term(" + arguments[0] + ")";
    if (draws && words.per_block)
      arguments.push_back(words.domain.empty() ? "{.per_block = true}"
                                               : "{.each = " + words.domain + ", .per_block = true}");
    else if (!words.domain.empty())
      arguments.push_back(draws ? "{" + words.domain + "}" : words.domain);
    std::string all;
    for (const std::string& argument : arguments) all += (all.empty() ? "" : ", ") + argument;
    return name + "(" + all + ")";
  }

  /// A name of the draw's own for its stream: draws of one name would be equal.
  std::string stream(const Source& source, const Node& node) {
    const auto [found, is_new] = streams_.try_emplace(formulas_.stream_of(source, node));
    if (is_new) found->second = node.text + "_" + std::to_string(streams_.size());
    return found->second;
  }

  std::string name_;
  const std::vector<std::pair<std::string, std::string>>& values_;
  Formulas formulas_;
  std::map<std::string, std::string> streams_;
};

}  // namespace

std::string plugin_source(std::string_view name,
                          const std::vector<std::pair<std::string, std::string>>& values) {
  return Writer(name, values).text();
}

bool is_parameter(std::string_view key) {
  return std::ranges::find(kParameters, key) != kParameters.end();
}

}  // namespace formula
