#include "runtime/explore/join_formula.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/residual.h"
#include "ir/side_results.h"
#include "runtime/explore/expression.h"
#include "runtime/explore/formula_parts.h"

namespace rewire::runtime {
namespace {

using ir::Op;
using ir::Opcode;
using ir::Value;

std::string leaf(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));
}

constexpr std::size_t kShort = 8;  // bytes: shorter expressions are repeated, not named

/// Names of lines, except those that symbols have; names of functions, and then of their arguments.
constexpr std::string_view kLetters = "abcdeghijklmnopqrstuvw", kFunctions = "FGHKLMNPQR";
constexpr std::array<const char*, 5> kParameters = {"u", "v", "w", "s", "t"};

/// Writes the formulas of one join of a function.
class FormulaWriter {
 public:
  FormulaWriter(const ir::Module& module, const std::vector<ir::Join>& joins, std::size_t join,
                const std::vector<std::string>& plugins)
      : module_(module),
        function_(module.function("forward")),
        joins_(joins),
        join_(joins[join]),
        index_(join),
        inside_(locations_of(join_, plugins)),
        parts_(function_, [this](const Op& op) { return inside_.contains(op.location); }) {
    find_residuals();
    find_patterns();
    count_uses();
  }

  void write(JoinFormulas& out) {
    if (residual_ != nullptr) {
      std::optional<Expression> sum;
      for (std::size_t i = ir::kFirstJoinTerm; i < residual_->operands.size(); ++i) {
        const Expression term = expression(residual_->operands[i]);
        sum = sum ? infix(*sum, " + ", "+", term, kSum, kSum) : term;
      }
      if (sum) define("y", *sum);
    }
    // Values of the plugin's ops that other ops read. If the plugin replaced the join, the
    // last is the join's result.
    const std::vector<Value> read = read_elsewhere();
    for (const Value value : read) {
      const auto line = memo_.find(value.id);
      if (residual_ == nullptr && value == read.back()) {
        define("y", line == memo_.end() ? written(value) : line->second);
        continue;
      }
      const std::string purpose = purpose_of(value);
      if (line == memo_.end())
        give_line(value, written(value), purpose.empty() ? next_name() : unused(leaf(purpose)));
      symbols_.push_back(
          {named_.at(value.id), purpose.empty() ? "what " + reader_of(value) + " reads" : purpose});
    }
    out.formulas = shortened(std::move(lines_));
    for (FormulaSymbol& symbol : symbols_) symbol.name = symbol_expression(symbol.name).text.text;
    out.symbols = std::move(symbols_);
  }

 private:
  std::string place() const { return join_.describe(); }

  static std::set<std::string> locations_of(const ir::Join& join, const std::vector<std::string>& plugins) {
    std::set<std::string> locations;
    for (const std::string& plugin : plugins) locations.insert(join.describe() + "." + plugin);
    return locations;
  }

  const Op* definition(Value value) const { return parts_.definition(value); }
  bool is_inside(const Op& op) const { return parts_.is_inside(op); }
  Value resolved(Value value) const { return parts_.resolved(value); }

  void find_residuals() {
    for (const std::size_t at : ir::find_joins(function_)) {
      const Op& op = function_.body[at];
      const ir::Join join = ir::read_join(op);
      behind_.emplace(op.results[0].id, join.describe());
      if (join.describe() == place()) residual_ = &op;
    }
    if (residual_ == nullptr) return;
    name(residual_->operands[0], "x", "the stream");
    name(residual_->operands[1], "f", "the branch's output");
    name(residual_->operands[2], "h", "the branch's input");
  }

  void name(Value value, const std::string& symbol, const std::string& meaning) {
    taken_.insert(symbol);
    names_.try_emplace(value.id, FormulaSymbol{symbol, meaning});
  }

  /// Finds the patterns. No line and no symbol has the name of one of their arguments.
  void find_patterns() {
    std::set<std::int32_t> roots;
    for (const Value value : read_elsewhere()) roots.insert(value.id);
    if (residual_ != nullptr) {
      for (std::size_t i = ir::kFirstJoinTerm; i < residual_->operands.size(); ++i)
        roots.insert(resolved(residual_->operands[i]).id);
    }
    parts_.find_patterns(std::move(roots));
    if (!parts_.patterns().empty()) taken_.insert(kParameters.begin(), kParameters.end());
  }

  void count_uses() {
    for (const Op& op : function_.body) {
      if (!parts_.is_written(op) && &op != residual_) continue;
      const std::size_t first = &op == residual_ ? ir::kFirstJoinTerm : 0;
      for (std::size_t i = first; i < op.operands.size(); ++i) ++uses_[resolved(op.operands[i]).id];
    }
    for (const Value value : read_elsewhere()) ++uses_[value.id];
  }

  /// Returns the values of inside ops that other ops read, in order.
  std::vector<Value> read_elsewhere() const {
    std::set<std::int32_t> read;
    for (const Op& op : function_.body) {
      if (is_inside(op) || &op == residual_) continue;
      for (const Value operand : op.operands) {
        const Op* source = definition(operand);
        if (source != nullptr && is_inside(*source) && source->code != Opcode::param)
          read.insert(resolved(operand).id);
      }
    }
    for (const ir::Argument& result : function_.results) read.insert(resolved(result.value).id);
    std::vector<Value> values;
    std::vector<std::int32_t> in_order(read.begin(), read.end());
    std::ranges::sort(in_order, std::less<>(), [&](std::int32_t id) { return definition({id}); });
    for (const std::int32_t id : in_order) {
      const Op* source = definition({id});
      if (source != nullptr && is_inside(*source) && source->code != Opcode::constant &&
          source->code != Opcode::param)
        values.push_back({id});
    }
    return values;
  }

  /// Returns what a training step does with a value that no op reads: "the report blocks.0.attn.mine.gate".
  std::string purpose_of(Value value) const {
    static const std::pair<std::string_view, const char*> kPurposes[] = {
        {ir::kReportPrefix, "the report "},
        {ir::kLossPrefix, "a term of the loss, "},
        {ir::kUpdatePrefix, "the next value of "},
        {ir::kAfterStepPrefix, "the value after a step of "}};
    for (const ir::Argument& result : function_.results) {
      if (resolved(result.value) != value) continue;
      for (const auto& [prefix, words] : kPurposes)
        if (result.name.starts_with(prefix)) return words + result.name.substr(prefix.size());
    }
    return "";
  }

  std::string reader_of(Value value) const {
    for (const Op& op : function_.body) {
      if (is_inside(op) || &op == residual_) continue;
      for (const Value operand : op.operands) {
        if (resolved(operand) == value) return op.location.empty() ? "another op" : op.location;
      }
    }
    return "the network's result";
  }

  void define(const std::string& symbol, const Expression& e) {
    define(symbol, symbol_expression(symbol), e);
  }
  void define(const std::string& symbol, const Expression& left, const Expression& e) {
    lines_.push_back({symbol, left.text.text + " = " + e.text.text,
                      fmt::format("<math display=\"block\">{}</math>",
                                  left.math.text + operator_element("=") + e.math.text)});
  }

  /// Returns the next of a, b, …, a_1, b_1, … that is not yet a name.
  std::string next_name() {
    for (;;) {
      const std::size_t round = next_ / kLetters.size();
      std::string candidate(1, kLetters[next_++ % kLetters.size()]);
      if (round > 0) candidate += fmt::format("_{}", round);
      if (candidate != "h" && taken_.insert(candidate).second) return candidate;
    }
  }

  std::string next_function() {
    for (const char letter : kFunctions) {
      std::string candidate(1, letter);
      if (taken_.insert(candidate).second) return candidate;
    }
    return unused("F");
  }

  Expression symbol(Value value) {
    const auto known = names_.find(value.id);
    const FormulaSymbol found = known != names_.end() ? known->second : describe_outside(value);
    if (std::ranges::find(symbols_, found.name, &FormulaSymbol::name) == symbols_.end())
      symbols_.push_back(found);
    names_.try_emplace(value.id, found);
    return symbol_expression(found.name);
  }

  FormulaSymbol describe_outside(Value value) {
    const Op* op = definition(value);
    if (op == nullptr) return {unused("z"), "an argument of the network"};
    if (op->code == Opcode::param) {
      const std::string& full = op->attributes.get_string("name");
      const ir::Parameter* parameter = module_.find_parameter(full);
      const bool weight = parameter == nullptr || parameter->kind == ir::StateKind::weight;
      return {unused(leaf(full)), (weight ? "the weight " : "the state ") + full};
    }
    if (residual_ == nullptr && op->location + ".weight" == join_.last_weight)
      return {"f", "the branch's output"};
    const auto stream = behind_.find(value.id);
    const bool previous =
        index_ > 0 &&
        (stream != behind_.end() ? stream->second : op->location).starts_with(joins_[index_ - 1].describe());
    if (previous && residual_ == nullptr) return {"x", "the stream"};
    if (stream != behind_.end())
      return {unused("x_" + join_number(stream->second)), "the stream after " + stream->second};
    const std::string where = op->location.empty() ? "the stem" : op->location;
    return {unused(fmt::format("z_{}", ++outside_)),
            fmt::format("%{}, computed by {}", printed_number(value), where)};
  }

  /// Returns the value's number in the module's text.
  std::size_t printed_number(Value value) const {
    std::size_t number = 0;
    for (const Op& op : function_.body) {
      for (const Value result : op.results) {
        if (result == value) return number;
        ++number;
      }
    }
    return number;
  }

  /// Returns the join's number among the joins, from 1 on.
  std::string join_number(const std::string& join_place) const {
    const auto found =
        std::ranges::find_if(joins_, [&](const ir::Join& join) { return join.describe() == join_place; });
    return std::to_string(found - joins_.begin() + 1);
  }

  std::string unused(const std::string& wanted) {
    std::string candidate = wanted;
    for (int i = 2; !taken_.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", wanted, i);
    return candidate;
  }

  Expression expression(Value unresolved) {
    const Value value = resolved(unresolved);
    if (pattern_ != nullptr) {
      if (const auto argument = arguments_.find(value.id); argument != arguments_.end())
        return argument->second;
      if (pattern_->interior.contains(value.id)) return built(value);
    }
    if (const auto known = memo_.find(value.id); known != memo_.end()) return known->second;
    const Op* op = definition(value);
    if (op == nullptr || !is_inside(*op) || op->code == Opcode::param) return symbol(value);
    const Expression e = written(value);
    const bool is_short = e.text.binding == kAtom && e.text.text.size() < kShort;
    if (op->code == Opcode::constant || uses_[value.id] < 2 || is_short || is_part_of_weight(value)) return e;
    return give_line(value, e);
  }

  bool is_part_of_weight(Value value) const {
    const Op* op = definition(value);
    while (op != nullptr && is_inside(*op) && op->code == Opcode::slice)
      op = definition(resolved(op->operands[0]));
    return op != nullptr && op->code == Opcode::param;
  }

  /// Returns F(a, b) if a pattern computes the value.
  Expression written(Value value) {
    const FormulaParts::Use* use = parts_.use_of(value);
    if (use == nullptr) return built(value);
    std::vector<Expression> arguments;
    for (const Value argument : use->arguments) arguments.push_back(expression(argument));
    return called(function_name(use->pattern), arguments);
  }

  /// Returns the function's name. A line of its own defines the function before its first use.
  std::string function_name(std::size_t number) {
    if (const auto known = functions_.find(number); known != functions_.end()) return known->second;
    const FormulaParts::Pattern& pattern = parts_.patterns()[number];
    for (const Value fixed : pattern.fixed) expression(fixed);  // these may define lines
    std::vector<Expression> names;
    for (std::size_t i = 0; i < pattern.parameters.size(); ++i) {
      names.push_back(symbol_expression(kParameters[i]));
      arguments_.emplace(pattern.parameters[i].id, names.back());
    }
    pattern_ = &pattern;
    const Expression body = built(pattern.first);
    pattern_ = nullptr;
    arguments_.clear();
    const std::string name = next_function();
    define(name, called(name, names), body);
    return functions_.emplace(number, name).first->second;
  }

  /// Gives the value a line. From here on, it is written by its name.
  Expression give_line(Value value, const Expression& e) { return give_line(value, e, next_name()); }
  const Expression& give_line(Value value, const Expression& e, const std::string& line_name) {
    define(line_name, e);
    named_.emplace(value.id, line_name);
    return memo_.emplace(value.id, symbol_expression(line_name)).first->second;
  }

  Expression built(Value value) {
    const Op& op = *definition(value);
    const auto in = [&](std::size_t i) { return expression(op.operands[i]); };
    const auto of_two = [&](const auto& write) {
      const Expression a = in(0), b = in(1);  // in this order: each may define lines
      return write(a, b);
    };
    switch (op.code) {
      case Opcode::constant:
        return constant(op);
      case Opcode::add:
        return of_two([](const auto& a, const auto& b) { return infix(a, " + ", "+", b, kSum, kSum); });
      case Opcode::sub:
        return of_two([](const auto& a, const auto& b) { return infix(a, " − ", "−", b, kSum, kQuotient); });
      case Opcode::mul:
        if (resolved(op.operands[0]) == resolved(op.operands[1])) return square(in(0));
        return product(op);
      case Opcode::div:
        if (const auto mean = mean_of(op)) return *mean;
        return of_two([](const auto& a, const auto& b) { return fraction(a, b); });
      case Opcode::neg: {
        const Expression a = in(0);
        return {{"−" + a.text.within(kProduct), kSum},
                {element("mrow", operator_element("−") + math_in(a, kProduct)), kSum}};
      }
      case Opcode::sqrt:
        return root(in(0));
      case Opcode::rsqrt:
        return fraction(number_expression(1), root(in(0)));
      case Opcode::sum:
        return summed(op);
      case Opcode::matmul:
        return matrix_product(op);
      case Opcode::compare:
        return comparison(op);
      case Opcode::slice:
        if (function_.type(op.operands[0]).shape == function_.type(value).shape) return in(0);
        return indexed(in(0), window(op));
      default:
        return other(op);
    }
  }

  /// A number is written before the factor that it multiplies; a factor of 1 is left out.
  Expression product(const Op& op) {
    Value first = op.operands[0], second = op.operands[1];
    if (number_of(second)) std::swap(first, second);
    if (number_of(first) == 1.0) return expression(second);
    const Expression a = expression(first), b = expression(second);
    return infix(a, " ", "&#x2062;", b, kProduct, kProduct);
  }

  /// Elementwise products inside it, and matrix products inside those, get parentheses.
  Expression matrix_product(const Op& op) {
    const Expression a = transposed(op, 0), b = transposed(op, 1);
    Expression e = infix(a, " ", "&#x2062;", b, kPower, kPower);
    e.text.binding = e.math.binding = kMatrixProduct;
    return e;
  }

  Expression comparison(const Op& op) {
    static const std::map<std::string, std::pair<const char*, const char*>> kSigns = {
        {"eq", {" = ", "="}}, {"ne", {" ≠ ", "≠"}},    {"lt", {" < ", "&lt;"}},
        {"le", {" ≤ ", "≤"}}, {"gt", {" > ", "&gt;"}}, {"ge", {" ≥ ", "≥"}}};
    const auto sign = kSigns.find(op.attributes.get_string("direction"));
    if (sign == kSigns.end()) return other(op);
    const Expression a = expression(op.operands[0]), b = expression(op.operands[1]);
    return infix(a, sign->second.first, sign->second.second, b, kSum, kSum);
  }

  std::optional<double> number_of(Value value) const {
    const Op* op = definition(resolved(value));
    if (op == nullptr || !is_inside(*op) || op->code != Opcode::constant) return std::nullopt;
    const ir::Attribute* number = op->attributes.find("value");
    if (number == nullptr || !std::holds_alternative<double>(*number)) return std::nullopt;
    return std::get<double>(*number);
  }

  static Expression constant(const Op& op) {
    const ir::Attribute* value = op.attributes.find("value");
    if (value != nullptr && std::holds_alternative<double>(*value))
      return number_expression(std::get<double>(*value));
    if (value != nullptr && std::holds_alternative<std::int64_t>(*value))
      return number_expression(static_cast<double>(std::get<std::int64_t>(*value)));
    return called("constant", {});
  }

  /// Writes an op with its attributes, which distinguish ops of the same name.
  Expression other(const Op& op) {
    std::vector<Expression> arguments;
    for (const Value operand : op.operands) arguments.push_back(expression(operand));
    for (const auto& [name, value] : op.attributes) {
      const std::string text = name + "=" + attribute_text(value);
      arguments.push_back({{text, kAtom}, {element("mtext", escaped(text)), kAtom}});
    }
    return called(std::string(ir::op_info(op.code).name), arguments);
  }

  static std::string attribute_text(const ir::Attribute& attribute) {
    return std::visit(
        [](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, ir::Ints> || std::is_same_v<T, ir::Doubles>) {
            return fmt::format("[{}]", fmt::join(value.begin(), value.end(), ", "));
          } else {
            return fmt::format("{}", value);
          }
        },
        attribute);
  }

  bool is_over_channels(const Op& op) const {
    const auto rank = static_cast<int>(function_.type(op.operands[0]).shape.size());
    const int channels = join_.channel_axis < rank ? join_.channel_axis : rank - 1;
    return op.attributes.get_ints("axes") == ir::Ints{channels};
  }

  /// Writes a sum over the channels of a product of two as their inner product.
  Expression summed(const Op& op) {
    const Value inner = resolved(op.operands[0]);
    const Op* product = definition(inner);
    if (!is_over_channels(op))
      return called(fmt::format("sum over axes {}", fmt::join(op.attributes.get_ints("axes"), ", ")),
                    {expression(op.operands[0])});
    const bool of_product = product != nullptr && is_inside(*product) && product->code == Opcode::mul &&
                            uses_[inner.id] < 2 && !memo_.contains(inner.id);
    if (!of_product) return called("sum", {expression(op.operands[0])});
    const Expression a = expression(product->operands[0]);
    if (resolved(product->operands[0]) == resolved(product->operands[1])) {
      const Expression norm = between("‖", a, nullptr, "‖");
      return square(norm);
    }
    const Expression b = expression(product->operands[1]);
    return between("⟨", a, &b, "⟩");
  }

  /// Returns a mean if the quotient is the sum over the channels divided by their number.
  std::optional<Expression> mean_of(const Op& quotient) {
    const Value over = resolved(quotient.operands[0]);
    const Op* sum = definition(over);
    const Op* count = definition(resolved(quotient.operands[1]));
    if (sum == nullptr || count == nullptr || !is_inside(*sum) || sum->code != Opcode::sum ||
        count->code != Opcode::constant || uses_[over.id] > 1 || !is_over_channels(*sum))
      return std::nullopt;
    const ir::Attribute* value = count->attributes.find("value");
    const auto axis = static_cast<std::size_t>(sum->attributes.get_ints("axes").front());
    const auto extent = static_cast<double>(function_.type(sum->operands[0]).shape[axis]);
    if (value == nullptr || !std::holds_alternative<double>(*value) || std::get<double>(*value) != extent)
      return std::nullopt;
    return called("mean", {expression(sum->operands[0])});
  }

  Expression transposed(const Op& product, std::size_t operand) {
    const Expression e = expression(product.operands[operand]);
    if (!product.attributes.get_bool(operand == 0 ? "transpose_a" : "transpose_b")) return e;
    return {{e.text.within(kAtom) + "ᵀ", kPower},
            {element("msup", math_in(e, kAtom) + element("mi", "T")), kPower}};
  }

  /// Returns "…, 0:192", the window of the last axes that the op slices.
  std::string window(const Op& op) const {
    const ir::Shape& shape = function_.type(op.operands[0]).shape;
    const ir::Ints &starts = op.attributes.get_ints("starts"), &limits = op.attributes.get_ints("limits");
    std::vector<std::string> axes;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool whole = starts[d] == 0 && limits[d] == shape[d];
      axes.push_back(whole                        ? ":"
                     : limits[d] == starts[d] + 1 ? std::to_string(starts[d])
                                                  : fmt::format("{}:{}", starts[d], limits[d]));
    }
    std::size_t first = 0;
    while (first + 1 < axes.size() && axes[first] == ":") ++first;
    return fmt::format("{}{}", first > 0 ? "…, " : "",
                       fmt::join(axes.begin() + static_cast<std::ptrdiff_t>(first), axes.end(), ", "));
  }

  /// Leaves out lines in the middle if there are too many, but keeps y.
  static std::vector<Formula> shortened(std::vector<Formula> lines) {
    if (lines.size() <= kMostFormulas) return lines;
    const std::size_t half = kMostFormulas / 2, left_out = lines.size() - kMostFormulas + 2;
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(half),
               last = first + static_cast<std::ptrdiff_t>(left_out);
    std::vector<Formula> kept;
    for (auto line = first; line != last; ++line) {
      if (line->name == "y") kept.push_back(*line);
    }
    const std::string text = fmt::format("… {} more lines", left_out - kept.size());
    kept.insert(kept.begin(), {"…", text, "<math display=\"block\">" + element("mtext", text) + "</math>"});
    const auto at = lines.erase(first, last);
    lines.insert(at, kept.begin(), kept.end());
    return lines;
  }

  const ir::Module& module_;
  const ir::Function& function_;
  const std::vector<ir::Join>& joins_;
  const ir::Join& join_;
  std::size_t index_;
  const std::set<std::string> inside_;
  FormulaParts parts_;
  const Op* residual_ = nullptr;
  std::map<std::int32_t, std::string> behind_;  // the results of joins, by value
  std::map<std::int32_t, int> uses_;
  std::map<std::int32_t, FormulaSymbol> names_;
  std::map<std::int32_t, Expression> memo_;         // values that have a line
  std::map<std::int32_t, std::string> named_;       // and its name
  std::map<std::size_t, std::string> functions_;    // those that have a line, by the number of the pattern
  const FormulaParts::Pattern* pattern_ = nullptr;  // whose function is being written
  std::map<std::int32_t, Expression> arguments_;    // and the expressions of its arguments
  std::vector<FormulaSymbol> symbols_;
  std::set<std::string> taken_ = {"x", "f", "h", "y"};  // names
  std::vector<Formula> lines_;
  std::size_t next_ = 0;
  int outside_ = 0;
};

std::vector<ir::Join> joins_of(const ir::Function& function) {
  std::vector<ir::Join> joins;
  for (const std::size_t at : ir::find_joins(function)) joins.push_back(ir::read_join(function.body[at]));
  return joins;
}

}  // namespace

std::vector<JoinFormulas> join_formulas(const ir::Module& original, const ir::Module& rewritten,
                                        const std::vector<std::string>& plugins) {
  const std::vector<ir::Join> joins = joins_of(original.function("forward"));
  std::vector<JoinFormulas> all;
  for (std::size_t i = 0; i < joins.size(); ++i) {
    JoinFormulas plain, now;
    FormulaWriter(original, joins, i, {}).write(plain);
    now.at = joins[i].describe();
    now.block = joins[i].block;
    now.site = joins[i].site;
    FormulaWriter(rewritten, joins, i, plugins).write(now);
    now.plain = plain.formulas.back();
    now.rewritten = now.formulas.size() != 1 || now.formulas.front().text != now.plain.text;
    for (const FormulaSymbol& symbol : plain.symbols) {
      if (std::ranges::find(now.symbols, symbol.name, &FormulaSymbol::name) == now.symbols.end())
        now.symbols.push_back(symbol);
    }
    all.push_back(std::move(now));
  }
  return all;
}

}  // namespace rewire::runtime
