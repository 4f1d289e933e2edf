#include "formula/mathml.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace formula {
namespace {

// --- elements

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string element(std::string_view tag, std::string_view content) {
  return "<" + std::string(tag) + ">" + std::string(content) + "</" + std::string(tag) + ">";
}
std::string row(std::string_view content) {
  return element("mrow", content);
}
std::string identifier(std::string_view name) {
  return element("mi", escaped(name));
}
std::string number(std::string_view digits) {
  return element("mn", escaped(digits));
}
std::string sign(std::string_view text) {
  return element("mo", escaped(text));
}
std::string words(std::string_view text) {
  return element("mtext", escaped(text));
}
std::string accented(const std::string& base, std::string_view accent) {
  return "<mover accent=\"true\">" + base + "<mo stretchy=\"false\">" + std::string(accent) + "</mo></mover>";
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool contains(std::initializer_list<std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

// --- names

constexpr std::pair<std::string_view, std::string_view> kGreek[] = {
    {"alpha", "α"}, {"beta", "β"},   {"gamma", "γ"}, {"delta", "δ"}, {"epsilon", "ε"}, {"zeta", "ζ"},
    {"eta", "η"},   {"theta", "θ"},  {"iota", "ι"},  {"kappa", "κ"}, {"lambda", "λ"},  {"mu", "μ"},
    {"nu", "ν"},    {"xi", "ξ"},     {"pi", "π"},    {"rho", "ρ"},   {"sigma", "σ"},   {"tau", "τ"},
    {"phi", "φ"},   {"chi", "χ"},    {"psi", "ψ"},   {"omega", "ω"}, {"Gamma", "Γ"},   {"Delta", "Δ"},
    {"Theta", "Θ"}, {"Lambda", "Λ"}, {"Xi", "Ξ"},    {"Pi", "Π"},    {"Sigma", "Σ"},   {"Phi", "Φ"},
    {"Psi", "Ψ"},   {"Omega", "Ω"}};

std::string letter(std::string_view name) {
  const auto* found = std::ranges::find(kGreek, name, &std::pair<std::string_view, std::string_view>::first);
  return identifier(found == std::end(kGreek) ? name : found->second);
}

/// A letter or word, with indices below it.
struct Symbol {
  std::string base;
  std::vector<std::string> indices = {};

  /// With an exponent, if there is one.
  std::string math(const std::string& exponent = "") const {
    std::string below;
    for (const std::string& index : indices) below += (below.empty() ? "" : sign(",")) + index;
    if (indices.size() > 1) below = row(below);
    if (below.empty()) return exponent.empty() ? base : element("msup", base + exponent);
    return exponent.empty() ? element("msub", base + below) : element("msubsup", base + below + exponent);
  }
};

/// "alpha_0" as α with the index 0, "w1" as w with the index 1, "norm_weight" as norm with the index weight.
Symbol symbol_of(std::string_view name) {
  std::size_t end = name.find('_'), begin = end + 1;
  if (end == std::string_view::npos) {
    begin = name.size();
    while (begin > 0 && is_digit(name[begin - 1])) --begin;
    end = begin;
  }
  if (end == 0 || begin >= name.size()) return {letter(name)};
  const std::string_view index = name.substr(begin);
  if (std::ranges::all_of(index, is_digit)) return {letter(name.substr(0, end)), {number(index)}};
  return {letter(name.substr(0, end)), {index.size() == 1 ? identifier(index) : words(index)}};
}

// --- expressions

/// How tightly a part binds, as mathematics is written: a part that binds less than its place asks for has brackets. A
/// big sum ∑ ends before the next + or −, so it may be a term, or the last factor.
enum Binding : int { kChoice, kComparison, kSum, kBigSum, kProduct, kSign, kFraction, kPower, kAtom };

struct Written {
  std::string math;
  Binding binding = kAtom;
  bool has_sign = false;      // begins with −
  bool has_number = false;    // begins with a digit
  bool is_name = false;       // brackets after it would look like a call
  bool has_brackets = false;  // begins with a bracket
};

Written in_brackets(const Written& part) {
  return {.math = row(sign("(") + part.math + sign(")")), .has_brackets = true};
}
Written within(const Written& part, Binding least) {
  return part.binding < least ? in_brackets(part) : part;
}

Written product(const std::vector<Written>& factors) {
  if (factors.size() == 1) return factors[0];
  std::string math;
  Written before;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const bool ends_with_sum = i + 1 == factors.size() && factors[i].binding == kBigSum;
    const Written factor = within(factors[i], i == 0 ? kSign : ends_with_sum ? kBigSum : kFraction);
    const bool has_dot = factor.has_number || (factor.has_brackets && before.is_name);
    if (i > 0)
      math += has_dot ? sign("·") : "<mo lspace=\"0\" rspace=\"0.17em\">&#x2062;</mo>";  // an invisible times
    math += factor.math;
    before = factor;
  }
  return {.math = row(math),
          .binding = kProduct,
          .has_sign = factors[0].has_sign,
          .has_number = factors[0].has_number};
}

Written fraction(const Written& above, const Written& below) {
  return {.math = element("mfrac", above.math + below.math), .binding = kFraction};
}

/// A number: 0.5, or 1e-06 as a power of ten.
Written written_number(const Node& node) {
  const std::string text = to_text(node);
  const std::size_t cut = text.find('e');
  if (cut == std::string::npos) return {.math = number(text), .has_number = true};
  const int exponent = std::atoi(text.c_str() + cut + 1);
  const std::string digits = number(std::to_string(std::abs(exponent)));
  const std::string power = element("msup", number("10") + (exponent < 0 ? row(sign("−") + digits) : digits));
  const std::string mantissa = text.substr(0, cut);
  if (mantissa == "1") return {.math = power, .binding = kPower, .has_number = true};
  return {.math = row(number(mantissa) + sign("·") + power), .binding = kFraction, .has_number = true};
}

class Writer {
 public:
  /// `it` is what the formula calls so. With `has_index`, values of a join have the index l.
  explicit Writer(bool has_index = false, Symbol it = {identifier("it")})
      : has_index_(has_index), it_(std::move(it)) {}

  Written write(const Node& node) const {
    switch (node.kind) {
      case Node::Kind::number:
        return written_number(node);
      case Node::Kind::name:
      case Node::Kind::index:
        return {.math = symbol(node).math(), .is_name = true};
      case Node::Kind::negation: {
        const Written operand = write(node.children[0]);
        const Written positive = operand.has_sign ? in_brackets(operand) : within(operand, kBigSum);
        return {.math = row(sign("−") + positive.math), .binding = kSign, .has_sign = true};
      }
      case Node::Kind::power:
        return power(node.children[0], write(node.children[1]).math);
      case Node::Kind::product:
        return written_product(node);
      case Node::Kind::sum:
        return sum(node);
      case Node::Kind::comparison: {
        constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
            {"lt", "<"}, {"le", "≤"}, {"gt", ">"}, {"ge", "≥"}, {"eq", "="}, {"ne", "≠"}};
        const auto* found =
            std::ranges::find(kSigns, node.text, &std::pair<std::string_view, std::string_view>::first);
        return {.math = row(at_least(node.children[0], kSum) +
                            sign(found == std::end(kSigns) ? node.text : found->second) +
                            at_least(node.children[1], kSum)),
                .binding = kComparison};
      }
      case Node::Kind::choice:
        return cases(node);
      case Node::Kind::call:
        return call(node);
    }
    return {};
  }

  /// The symbol of a name, or of one term of a list.
  Symbol symbol(const Node& node) const {
    Symbol result = node.text == "it"                                    ? it_
                    : has_index_ && contains({"x", "f", "h"}, node.text) ? of_join(node.text)
                                                                         : symbol_of(node.text);
    if (node.kind == Node::Kind::index) result.indices.push_back(write(node.children[0]).math);
    return result;
  }
  static Symbol of_join(std::string_view name) { return {identifier(name), {identifier("l")}}; }

 private:
  std::string at_least(const Node& node, Binding least) const { return within(write(node), least).math; }

  Written power(const Node& base, const std::string& exponent) const {
    if (base.kind == Node::Kind::name || base.kind == Node::Kind::index)
      return {.math = symbol(base).math(exponent), .binding = kPower};
    const Written below = within(write(base), kAtom);
    return {.math = element("msup", below.math + exponent),
            .binding = kPower,
            .has_number = below.has_number,
            .has_brackets = below.has_brackets};
  }

  /// a * b / c / d * e as the fraction of a b and c d, times e.
  Written written_product(const Node& node) const {
    std::vector<Written> above, below;
    const auto divide = [&] {
      if (below.empty()) return;
      above = {fraction(product(above), product(below))};
      below.clear();
    };
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (node.text[i] == '/') {
        below.push_back(write(node.children[i]));
        continue;
      }
      divide();
      above.push_back(write(node.children[i]));
    }
    divide();
    return product(above);
  }

  Written sum(const Node& node) const {
    std::string math;
    bool has_sign = false;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      Written term = within(write(node.children[i]), kBigSum);
      if (i == 0)
        has_sign = term.has_sign;
      else if (term.has_sign)
        term = in_brackets(term);
      if (i > 0) math += sign(node.text[i] == '-' ? "−" : "+");
      math += term.math;
    }
    return {.math = row(math), .binding = kSum, .has_sign = has_sign};
  }

  /// a ? b : c ? d : e as one brace with three lines.
  Written cases(const Node& node) const {
    const auto line = [](const std::string& value, const std::string& condition) {
      return element("mtr", element("mtd", value) + element("mtd", condition));
    };
    std::string lines;
    const Node* rest = &node;
    for (; rest->kind == Node::Kind::choice; rest = &rest->children[2])
      lines += line(write(rest->children[1]).math, words("if\u00a0") + write(rest->children[0]).math);
    lines += line(write(*rest).math, words("otherwise"));
    return {.math = row(sign("{") + element("mtable", lines)), .binding = kChoice};
  }

  static std::string around(std::string_view open, const std::string& content, std::string_view close) {
    return row(sign(open) + content + sign(close));
  }
  std::string list(const Node& call, std::size_t count) const {
    std::string result;
    for (std::size_t i = 0; i < count; ++i)
      result += (i == 0 ? "" : sign(",")) + write(call.children[i]).math;
    return result;
  }

  /// The words at the end of a call that say over what it goes: "tokens", or "sample, block".
  static std::string domain_of(const Node& node, std::size_t& arguments) {
    std::string domain;
    while (arguments > 0 && node.children[arguments - 1].kind == Node::Kind::name &&
           contains({"channels", "tokens", "sample", "block"}, node.children[arguments - 1].text)) {
      --arguments;
      domain = node.children[arguments].text + (domain.empty() ? "" : ", " + domain);
    }
    return domain;
  }
  static std::string below(const std::string& math, const std::string& domain) {
    return domain.empty() ? math : element("msub", math + words(domain));
  }

  /// A term of a list: a_k of the name a.
  Written term(const Node& node) const {
    if (node.kind == Node::Kind::number) return write(node);
    if (node.kind != Node::Kind::name)
      return {.math = element("msub", at_least(node, kAtom) + identifier("k"))};
    Symbol result = symbol(node);
    result.indices.push_back(identifier("k"));
    return {.math = result.math(), .is_name = true};
  }

  static Written big_sum(const std::string& domain, const Written& summand) {
    const Written body = summand.has_sign ? in_brackets(summand) : within(summand, kProduct);
    return {.math = row(element("munder", sign("∑") + domain) + body.math), .binding = kBigSum};
  }

  Written call(const Node& node) const {
    const std::string& name = node.text;
    const auto argument = [&](std::size_t i) { return write(node.children[i]); };
    if (node.children.size() == 1) {
      if (name == "sqrt") return {.math = element("msqrt", argument(0).math), .binding = kPower};
      if (name == "rsqrt")
        return fraction({.math = number("1")}, {.math = element("msqrt", argument(0).math)});
      if (name == "abs") return {.math = around("|", argument(0).math, "|")};
      if (name == "floor") return {.math = around("⌊", argument(0).math, "⌋")};
    }
    if (node.children.size() == 2) {
      if (name == "matmul") return product({within(argument(0), kFraction), within(argument(1), kFraction)});
      if (name == "weighted")
        return big_sum(identifier("k"), product({term(node.children[1]), term(node.children[0])}));
    }
    std::size_t count = node.children.size();
    const std::string domain = domain_of(node, count);
    const std::string over = domain == "channels" ? "" : domain;  // where the channels go without saying
    if (name == "norm" && count == 1) return {.math = below(around("‖", argument(0).math, "‖"), over)};
    if (name == "dot" && count == 2) return {.math = below(around("⟨", list(node, 2), "⟩"), over)};
    if (name == "sum" && count == 1) return big_sum(words(domain.empty() ? "channels" : domain), argument(0));
    if ((name == "mean" || name == "max") && count == 1)
      return {.math = row(below(identifier(name), domain.empty() ? "channels" : domain) +
                          around("(", argument(0).math, ")"))};
    if ((name == "uniform" || name == "normal") && count == 0)
      return {.math = row(below(identifier(name == "normal" ? "N" : "U"), domain) + sign("(") + number("0") +
                          sign(",") + number("1") + sign(")"))};
    constexpr std::pair<std::string_view, std::string_view> kFunctions[] = {{"sigmoid", "σ"},
                                                                            {"maximum", "max"},
                                                                            {"minimum", "min"},
                                                                            {"relu", "ReLU"},
                                                                            {"gelu", "GELU"},
                                                                            {"silu", "SiLU"},
                                                                            {"layer_norm", "LayerNorm"},
                                                                            {"rms_norm", "RMSNorm"},
                                                                            {"branch_norm", "BranchNorm"},
                                                                            {"stop_gradient", "sg"}};
    const auto* found =
        std::ranges::find(kFunctions, name, &std::pair<std::string_view, std::string_view>::first);
    return {.math = row(below(identifier(found == std::end(kFunctions) ? name : found->second), over) +
                        around("(", list(node, count), ")"))};
  }

  bool has_index_;
  Symbol it_;
};

// --- parameters

bool is_slot(std::string_view key) {
  return contains({"join", "shortcut", "branch", "sum", "change_shortcut", "change_branch", "change_sum",
                   "input", "norm_input", "exit"},
                  key);
}
bool is_list(std::string_view key) {
  return contains({"let", "weights", "report", "init", "after"}, key);
}

/// One formula of a parameter. Of a list, the entry; of other parameters, the entry has a value alone.
struct Line {
  std::string key, text;
  Entry entry;
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::vector<Line> lines_of(const std::vector<std::pair<std::string, std::string>>& values) {
  std::vector<Line> lines;
  for (const auto& [key, text] : values) {
    const Source source{key, text};
    if (is_slot(key) && !trimmed(text).empty()) {
      lines.push_back({key, trimmed(text), {}});
      lines.back().entry.value = parse(source);
    }
    if (!is_list(key)) continue;
    for (Entry& entry : parse_entries(source)) {
      const std::size_t end = text.find_first_of(";\n", entry.at);
      lines.push_back({key, trimmed(text.substr(entry.at, end - entry.at)), std::move(entry)});
    }
  }
  return lines;
}

bool reads(const Node& node, std::initializer_list<std::string_view> names) {
  if ((node.kind == Node::Kind::name || node.kind == Node::Kind::index) && contains(names, node.text))
    return true;
  return std::ranges::any_of(node.children, [&](const Node& child) { return reads(child, names); });
}

/// What a slot's formula defines, and what it calls `it`.
struct Names {
  Symbol defined, it;
  bool is_replaced = true;  // the formula may read what it defines
};
Names names_of(std::string_view key, bool has_index) {
  const auto of_stream = [&](std::string_view name, std::string_view accent = "") -> Symbol {
    const std::string base = accent.empty() ? identifier(name) : accented(identifier(name), accent);
    return has_index ? Symbol{base, {identifier("l")}} : Symbol{base};
  };
  if (key == "shortcut" || key == "change_shortcut") return {of_stream("x"), of_stream("x", "~")};
  if (key == "branch" || key == "change_branch") return {of_stream("f"), of_stream("f", "~")};
  if (key == "input") return {of_stream("h"), of_stream("h", "~")};
  Symbol sum = {element("msup", identifier("x") + sign("′"))};
  if (key == "norm_input")
    sum = of_stream("x", "^");
  else if (key == "exit")
    sum = {identifier("x"), {identifier("L")}};
  else if (has_index)
    sum = {identifier("x"), {row(identifier("l") + sign("+") + number("1"))}};
  return {sum, sum, false};
}

std::string slot(const Line& line, bool has_index) {
  const Node& value = line.entry.value;
  const auto [defined, it, is_replaced] = names_of(line.key, has_index);
  const bool changes = line.key.starts_with("change_") || reads(value, {"it"});
  return (changes ? it : defined).math() + sign(changes || is_replaced ? "↦" : "=") +
         Writer(has_index, it).write(value).math;
}

/// What a weight is at first: "= 0", or "∼ N(0, 0.02²)".
std::string initial(const Writer& writer, const Node& value) {
  const auto argument = [&](std::size_t i) { return writer.write(value.children[i]).math; };
  const auto drawn = [&](const char* name, const std::string& a, const std::string& b) {
    return sign("∼") + row(identifier(name) + sign("(") + a + sign(",") + b + sign(")"));
  };
  const bool is_call = value.kind == Node::Kind::call;
  const std::size_t count = value.children.size();
  if (is_call && ((value.text == "normal" && count == 1) || (value.text == "trunc_normal" && count == 2))) {
    const std::string normal = drawn(
        "N", number("0"), element("msup", within(writer.write(value.children[0]), kAtom).math + number("2")));
    return count == 1 ? normal : normal + words(",\u00a0cut at\u00a0") + row(sign("±") + argument(1));
  }
  if (is_call && value.text == "uniform" && count == 2) return drawn("U", argument(0), argument(1));
  if (is_call && value.text == "xavier" && count == 0) return sign("∼") + identifier("Xavier");
  return sign("=") + writer.write(value).math;
}

/// A weight's shape and initial value; its options are no mathematics.
std::string weight(const Entry& entry) {
  const Writer writer;
  Symbol name = symbol_of(entry.name);
  const auto has_shape = [&](std::initializer_list<std::string_view> any) {
    return entry.shape.size() == 1 && entry.shape[0].kind == Node::Kind::name &&
           contains(any, entry.shape[0].text);
  };
  const bool is_list = has_shape({"out", "branches"});
  if (is_list) name.indices.push_back(identifier("k"));
  std::string extents;
  for (const Node& extent : entry.shape) {
    if (is_list || (entry.shape.size() == 1 && to_text(extent) == "1")) continue;
    extents += (extents.empty() ? "" : sign("×")) +
               (has_shape({"channels"}) ? identifier("d") : within(writer.write(extent), kProduct).math);
  }
  std::string math = name.math() + sign("∈") +
                     (extents.empty() ? identifier("ℝ") : element("msup", identifier("ℝ") + row(extents)));
  math += words(",\u00a0initially\u00a0") + name.math() + initial(writer, entry.value);
  if (is_list)
    math += words(",\u00a0") + identifier("k") + sign("=") + number("0") + sign(",") + sign("…") + sign(",") +
            identifier("K");
  return math;
}

std::string equation(const Line& line, bool has_index) {
  const Entry& entry = line.entry;
  if (is_slot(line.key)) return slot(line, has_index);
  if (line.key == "weights") return weight(entry);
  const Symbol name =
      line.key == "init" ? Symbol{identifier("W"), {words(entry.name)}} : symbol_of(entry.name);
  const bool is_replaced = line.key == "after" || (line.key == "init" && reads(entry.value, {"it"}));
  // In a formula of init, `it` is the weight; a name of let may read it, too, as whatever its formula changes.
  const Writer writer = line.key == "init" ? Writer(has_index, name) : Writer(has_index);
  return name.math() + sign(is_replaced ? "↦" : "=") + writer.write(entry.value).math;
}

}  // namespace

std::string to_mathml(const Node& node) {
  return Writer().write(node).math;
}

std::vector<Equation> equations(const std::vector<std::pair<std::string, std::string>>& values) {
  const std::vector<Line> lines = lines_of(values);
  const bool has_index = std::ranges::any_of(lines, [](const Line& line) {
    return line.key == "exit" || (line.key != "weights" && line.key != "init" &&
                                  reads(line.entry.value, {"l", "x0", "out", "branches"}));
  });
  std::vector<Equation> result;
  for (const Line& line : lines)
    result.push_back(
        {line.key, line.text, "<math display=\"block\">" + row(equation(line, has_index)) + "</math>"});
  return result;
}

}  // namespace formula
