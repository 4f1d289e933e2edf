// The parser of the text form (ir/text.h). It has one token of lookahead and no recursion, so it reads text
// of any depth. It checks each op and infers its types when it reads the op. At the end, the verifier finds
// the faults that only the whole module shows, and the parser adds line and column to them.
#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ir/error.h"
#include "ir/init.h"
#include "ir/init_text.h"
#include "ir/ops/op_info.h"
#include "ir/text.h"
#include "ir/text_lexer.h"
#include "ir/verify.h"

namespace rewire::ir {
namespace {

constexpr std::ptrdiff_t kMaxAttributes = 1000;
constexpr std::string_view kBatch = "batch";

std::string display(const Token& token) {
  return token.kind == TokenKind::end ? "the end of the text" : fmt::format("'{}'", token.text.substr(0, 60));
}

std::string join_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns a value's name as a key. %x and %"x" are the same value; %"0" is not the numbered %0.
std::string value_key(const Token& token) {
  const bool quoted = token.text.size() > 1 && token.text[1] == '"';
  return quoted && !is_plain_name(token.decoded) ? quote(token.decoded) : token.decoded;
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name, std::int64_t batch)
      : source_{text, file_name}, lexer_(source_), batch_(batch) {}

  ParsedModule parse() {
    expect("module");
    module_.name = take_symbol("the module's name").decoded;
    expect("{");
    while (!accept("}")) parse_module_item();
    if (peek().kind != TokenKind::end) fail(peek(), "{} follows the end of the module", display(peek()));
    mark_training_functions();
    if (std::optional<Violation> violation = find_violation(module_)) {
      source_.fail(offset_of(*violation), violation->message);
    }
    return {std::move(module_), any_batch_};
  }

 private:
  struct FunctionOffsets {
    std::size_t function = 0;
    std::vector<std::size_t> ops;
  };

  // --- tokens ---------------------------------------------------------------------------------------------
  const Token& peek() const { return lexer_.peek(); }
  Token take() { return lexer_.take(); }
  /// Names become C strings in plugins and libraries. A module's
  /// own attributes are text, which may have any bytes.
  Token take_without_nul() {
    if (peek().decoded.find('\0') != std::string::npos)
      fail(peek(), "a name must not contain a NUL character");
    return take();
  }

  template <class... Args>
  [[noreturn]] void fail(const Token& token, fmt::format_string<Args...> format, Args&&... args) const {
    source_.fail(token.offset, fmt::format(format, std::forward<Args>(args)...));
  }

  bool next_is(std::string_view text) const {
    const TokenKind kind = peek().kind;
    return (kind == TokenKind::punctuation || kind == TokenKind::arrow || kind == TokenKind::identifier) &&
           peek().text == text;
  }
  bool accept(std::string_view text) {
    if (!next_is(text)) return false;
    take();
    return true;
  }
  Token expect(std::string_view text) {
    if (!next_is(text)) fail(peek(), "expected '{}', found {}", text, display(peek()));
    return take();
  }

  Token take_kind(TokenKind kind, std::string_view what) {
    if (peek().kind != kind) fail(peek(), "expected {}, found {}", what, display(peek()));
    return take_without_nul();
  }
  Token take_symbol(std::string_view what) {
    return take_kind(TokenKind::symbol, fmt::format("{} (@name)", what));
  }
  /// name or "any name".
  Token take_name(std::string_view what) {
    if (peek().kind == TokenKind::string) return take_without_nul();
    return take_kind(TokenKind::identifier, what);
  }

  // --- module ---------------------------------------------------------------------------------------------
  void parse_module_item() {
    if (next_is("attribute")) return parse_module_attribute();
    if (next_is("param") || next_is("state")) return parse_parameter();
    if (next_is("func")) return parse_function();
    fail(peek(), "expected attribute, param, state, func or '}}', found {}", display(peek()));
  }

  void parse_module_attribute() {
    take();
    const Token name = take_name("the attribute's name");
    expect("=");
    Attribute value = parse_attribute_value();
    if (name.decoded == "training" && std::holds_alternative<std::string>(value)) {
      training_ = name;  // as an earlier Rewire wrote it
      training_names_ = std::get<std::string>(value);
    } else {
      add_attribute(module_.attributes, name, std::move(value));
    }
  }

  /// Marks the functions that an earlier Rewire listed in a module attribute, joined by '+'.
  void mark_training_functions() {
    std::string_view rest = training_names_;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('+'), rest.size());
      Function* function = module_.find_function(rest.substr(0, end));
      if (function == nullptr) fail(training_, "there is no function '{}' to train", rest.substr(0, end));
      function->trains = true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  void parse_parameter() {
    Parameter parameter;
    parameter.trainable = take().text == "param";
    const Token name = take_symbol("the parameter's name");
    parameter.name = name.decoded;
    if (!parameter_names_.insert(parameter.name).second) {
      fail(name, "parameter '{}' is declared twice", parameter.name);
    }
    expect(":");
    parameter.type = parse_type();
    const Token start = peek();
    const Attributes attributes = parse_attributes();
    for (const auto& [key, value] : attributes) set_parameter_attribute(start, parameter, key, value);
    if (const std::string fault = init_fault(parameter.init, parameter.type); !fault.empty())
      source_.fail(start.offset, fault);
    if (const std::string fault = hint_fault(parameter.hint); !fault.empty())
      source_.fail(start.offset, fault);
    module_.parameters.push_back(std::move(parameter));
  }

  void set_parameter_attribute(const Token& at, Parameter& parameter, const std::string& key,
                               const Attribute& value) const {
    static const std::vector<std::string> kKeys = {"average_of", "beta1", "beta2", "block",
                                                   "decay",      "init",  "kind",  "layer",
                                                   "lr_scale",   "role",  "site",  "weight_decay"};
    if (key == "average_of") {
      parameter.average_of = attribute_as<std::string>(at, key, value, "a string");
    } else if (key == "block" || key == "layer") {
      const auto index = attribute_as<std::int64_t>(at, key, value, "an integer");
      if (index < -1 || index > std::numeric_limits<std::int32_t>::max()) {
        fail(at, "{} = {} is not a {} index", key, index, key);
      }
      (key == "block" ? parameter.block : parameter.layer) = static_cast<std::int32_t>(index);
    } else if (key == "decay") {
      parameter.decay = attribute_as<bool>(at, key, value, "true or false");
    } else if (key == "init") {
      try {
        parameter.init = init_from_string(attribute_as<std::string>(at, key, value, "a string"));
      } catch (const UserError& error) {
        source_.fail(at.offset, error.what());
      }
    } else if (key == "kind") {
      parameter.kind = parse_state_kind(at, attribute_as<std::string>(at, key, value, "a string"));
    } else if (key == "role") {
      parameter.role = attribute_as<std::string>(at, key, value, "a string");
      if (parameter.role == "state") {  // as an earlier Rewire wrote it
        parameter.role.clear();
        parameter.kind = StateKind::counter;  // until the code that reads it sets the kind
      }
    } else if (key == "site") {
      parameter.site = attribute_as<std::string>(at, key, value, "a string");
    } else if (const auto field = std::ranges::find(kOptimizerHintFields, key, &OptimizerHintField::name);
               field != kOptimizerHintFields.end()) {
      const auto* integer = std::get_if<std::int64_t>(&value);
      parameter.hint.*field->value = integer != nullptr ? static_cast<double>(*integer)
                                                        : attribute_as<double>(at, key, value, "a number");
    } else {
      fail(at, "a parameter has no attribute '{}'{}; it takes {}", key, did_you_mean(key, kKeys),
           join_names(kKeys));
    }
  }

  StateKind parse_state_kind(const Token& at, const std::string& name) const {
    std::vector<std::string> names;
    for (int kind = 0; kind <= static_cast<int>(StateKind::partial); ++kind) {
      names.emplace_back(state_kind_name(static_cast<StateKind>(kind)));
      if (names.back() == name) return static_cast<StateKind>(kind);
    }
    fail(at, "kind = '{}' is unknown{}; it is {}", name.substr(0, 60), did_you_mean(name, names),
         join_names(names));
  }

  template <class T>
  T attribute_as(const Token& at, const std::string& key, const Attribute& value,
                 std::string_view kind) const {
    if (!std::holds_alternative<T>(value)) fail(at, "attribute '{}' must be {}", key, kind);
    return std::get<T>(value);
  }

  // --- types and attributes -------------------------------------------------------------------------------
  TensorType parse_type() {
    const Token name = take_kind(TokenKind::identifier, "a type such as f32[8,3]");
    const std::optional<DType> dtype = dtype_from_name(name.text);
    if (!dtype) {
      fail(name, "'{}' is not an element type; choose from f64, f32, bf16, f16, i64, i32, u8, i1",
           name.text.substr(0, 60));
    }
    TensorType type{*dtype, {}};
    expect("[");
    while (!accept("]")) {
      if (!type.shape.empty()) expect(",");
      const Token number = peek();
      if (number.kind != TokenKind::number && !next_is(kBatch))
        fail(number, "expected an extent, found {}", display(number));
      const Attribute extent = parse_number();
      if (!std::holds_alternative<std::int64_t>(extent)) fail(number, "{} is not an extent", display(number));
      type.shape.push_back(std::get<std::int64_t>(extent));
      if (type.rank() > kMaxRank) fail(number, "a tensor has at most {} axes", kMaxRank);
    }
    const std::string fault = type_fault(type);
    if (!fault.empty()) source_.fail(name.offset, fault);
    return type;
  }

  /// {name = value, …}, or nothing.
  Attributes parse_attributes() {
    Attributes attributes;
    if (!accept("{")) return attributes;
    while (!accept("}")) {
      if (!attributes.empty()) expect(",");
      const Token name = take_name("an attribute's name");
      expect("=");
      const bool text = peek().kind == TokenKind::string;
      add_attribute(attributes, name, text ? Attribute(take_without_nul().decoded) : parse_attribute_value());
    }
    return attributes;
  }

  /// The count is limited because inserting into the sorted list is linear.
  void add_attribute(Attributes& attributes, const Token& name, Attribute value) const {
    if (attributes.has(name.decoded)) fail(name, "attribute '{}' is given twice", name.decoded);
    if (attributes.end() - attributes.begin() >= kMaxAttributes) {
      fail(name, "more than {} attributes in one place", kMaxAttributes);
    }
    attributes.set(name.decoded, std::move(value));
  }

  Attribute parse_attribute_value() {
    if (peek().kind == TokenKind::string) return take().decoded;
    if (accept("true")) return true;
    if (accept("false")) return false;
    if (!accept("[")) return parse_number();
    Ints ints;
    Doubles doubles;
    bool all_ints = true;
    while (!accept("]")) {
      if (!doubles.empty()) expect(",");
      const Attribute item = parse_number();
      if (const auto* integer = std::get_if<std::int64_t>(&item)) {
        ints.push_back(*integer);
        doubles.push_back(static_cast<double>(*integer));
      } else {
        all_ints = false;
        doubles.push_back(std::get<double>(item));
      }
    }
    if (all_ints) return ints;
    return doubles;
  }

  /// Returns so many batches; the next token is `batch`.
  std::int64_t take_batches(std::int64_t times) {
    const Token token = expect(kBatch);
    any_batch_ = true;
    std::int64_t extent = 0;
    if (__builtin_mul_overflow(times, batch_, &extent)) fail(token, "{} batches are too many", times);
    return extent;
  }

  /// An integer, unless it is spelled with '.', 'e', inf or nan.
  Attribute parse_number() {
    if (next_is(kBatch)) return take_batches(1);
    if (accept("inf")) return std::numeric_limits<double>::infinity();
    if (accept("nan")) return std::numeric_limits<double>::quiet_NaN();
    if (peek().kind != TokenKind::number) fail(peek(), "expected a value, found {}", display(peek()));
    const Token token = take();
    if (token.text.find_first_of(".eEn") == std::string_view::npos) {
      std::int64_t integer = 0;
      if (!read_number(token.text, integer)) fail(token, "{} is not a 64-bit integer", display(token));
      return accept("*") ? take_batches(integer) : integer;
    }
    double number = 0;
    if (!read_number(token.text, number)) fail(token, "{} does not fit a double", display(token));
    return number;
  }

  // --- functions ------------------------------------------------------------------------------------------
  void parse_function() {
    take();
    const Token name = take_symbol("the function's name");
    if (!function_names_.insert(name.decoded).second)
      fail(name, "function '{}' is defined twice", name.decoded);
    values_.clear();
    offsets_.push_back({name.offset, {}});
    Function function;
    function.name = name.decoded;
    parse_arguments(function);
    expect("->");
    parse_signature_results();
    function.trains = accept("training");
    expect("{");
    while (!next_is("return")) parse_op(function);
    parse_return(function);
    expect("}");
    module_.functions.push_back(std::move(function));
  }

  void parse_arguments(Function& function) {
    expect("(");
    while (!accept(")")) {
      if (!function.arguments.empty()) expect(",");
      const Token name = take_kind(TokenKind::value, "an argument (%name: type)");
      expect(":");
      const Value value = function.new_value(parse_type());
      define(name, value);
      function.arguments.push_back({name.decoded, value});
    }
  }

  void parse_signature_results() {
    signature_.clear();
    std::unordered_set<std::string> names;
    expect("(");
    while (!accept(")")) {
      if (!signature_.empty()) expect(",");
      const Token name = take_name("a result's name");
      if (!names.insert(name.decoded).second) fail(name, "result '{}' appears twice", name.decoded);
      expect(":");
      signature_.emplace_back(name.decoded, parse_type());
    }
  }

  void parse_return(Function& function) {
    take();
    for (const auto& [name, type] : signature_) {
      if (!function.results.empty()) expect(",");
      if (peek().kind != TokenKind::identifier && peek().kind != TokenKind::string) {
        fail(peek(), "expected result '{}' of the signature, found {}", name, display(peek()));
      }
      const Token given = take();
      if (given.decoded != name) {
        fail(given, "the signature's result here is '{}', not '{}'", name, given.decoded);
      }
      expect("=");
      const Token operand = take_kind(TokenKind::value, "a value");
      const Value value = use(operand);
      if (function.type(value) != type) {
        fail(operand, "result '{}' is {}, not {} as the signature says", name,
             to_string(function.type(value)), to_string(type));
      }
      function.results.push_back({name, value});
    }
    if (!next_is("}")) {
      fail(peek(), "expected '}}' after return{}, found {}",
           signature_.empty() ? ": the signature has no results" : "", display(peek()));
    }
  }

  void define(const Token& name, Value value) {
    if (!values_.emplace(value_key(name), value).second) fail(name, "{} is defined twice", name.text);
  }
  Value use(const Token& name) const {
    auto it = values_.find(value_key(name));
    if (it == values_.end()) fail(name, "{} is not defined before this use", name.text);
    return it->second;
  }

  void parse_op(Function& function) {
    std::vector<Token> results;
    if (peek().kind == TokenKind::value) {
      results.push_back(take());
      while (accept(",")) results.push_back(take_kind(TokenKind::value, "a result (%name)"));
      expect("=");
    }
    const Token name = take_kind(TokenKind::identifier, "an op, return or a result (%name)");
    const std::optional<Opcode> code = opcode_from_name(name.text);
    if (!code) fail(name, "there is no op '{}'{}", name.text.substr(0, 60), suggest_op(name.text));
    Op op;
    op.code = *code;
    parse_operands(op, name.line);
    op.attributes = parse_attributes();
    const std::vector<TensorType> stated = parse_stated_types();
    if (accept("loc")) {
      expect("(");
      op.location = take_kind(TokenKind::string, "a location in quotes").decoded;
      expect(")");
    }
    infer_results(function, op, name, results, stated);
    op.line = name.line;
    offsets_.back().ops.push_back(name.offset);
    function.body.push_back(std::move(op));
  }

  /// The first operand is on the op's own line, so that an
  /// op without operands is not confused with the next.
  void parse_operands(Op& op, std::int32_t line) {
    if (peek().kind != TokenKind::value || peek().line != line) return;
    do {
      op.operands.push_back(use(take_kind(TokenKind::value, "an operand (%name)")));
    } while (accept(","));
  }

  std::vector<TensorType> parse_stated_types() {
    std::vector<TensorType> types;
    if (!accept(":")) return types;
    do {
      types.push_back(parse_type());
    } while (accept(","));
    return types;
  }

  void infer_results(Function& function, Op& op, const Token& name, const std::vector<Token>& results,
                     const std::vector<TensorType>& stated) {
    const OpInfo& info = op_info(op.code);
    if (results.size() != static_cast<std::size_t>(info.results)) {
      fail(name, "{} has {} result{}, not {}", info.name, info.results, info.results == 1 ? "" : "s",
           results.size());
    }
    if (!stated.empty() && stated.size() != results.size()) {
      fail(name, "{} states {} type{} for {} result{}", info.name, stated.size(),
           stated.size() == 1 ? "" : "s", results.size(), results.size() == 1 ? "" : "s");
    }
    std::optional<TensorType> requested;
    if (info.typed && !stated.empty()) requested = stated[0];
    if (info.typed && stated.empty()) fail(name, "{} needs its result type: ': f32[8,3]'", info.name);
    std::vector<TensorType> types;
    try {
      types = check_and_infer(module_, function, op, requested);
    } catch (const UserError& error) {
      source_.fail(name.offset, error.what());
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string fault = type_fault(types[i]);
      if (!fault.empty()) source_.fail(name.offset, fault);
      if (!stated.empty() && stated[i] != types[i]) {
        fail(name, "{} gives {}, not {} as stated", describe(op), to_string(types[i]), to_string(stated[i]));
      }
      const Value value = function.new_value(std::move(types[i]));
      define(results[i], value);
      op.results.push_back(value);
    }
  }

  static std::string suggest_op(std::string_view name) {
    std::vector<std::string> names;
    for (const OpInfo& info : op_table()) names.emplace_back(info.name);
    return did_you_mean(name.substr(0, 60), names);
  }

  std::size_t offset_of(const Violation& violation) const {
    if (violation.function < 0) return 0;
    const FunctionOffsets& offsets = offsets_[static_cast<std::size_t>(violation.function)];
    return violation.op < 0 ? offsets.function : offsets.ops[static_cast<std::size_t>(violation.op)];
  }

  SourceText source_;
  Lexer lexer_;
  const std::int64_t batch_;
  bool any_batch_ = false;
  Module module_;
  std::unordered_set<std::string> parameter_names_;
  std::unordered_set<std::string> function_names_;
  std::unordered_map<std::string, Value> values_;  // of the function that is being read
  std::vector<std::pair<std::string, TensorType>> signature_;
  std::vector<FunctionOffsets> offsets_;
  Token training_;  // the module attribute that lists the training functions
  std::string training_names_;
};

}  // namespace

ParsedModule parse_for_batch(std::string_view text, std::string_view file_name, std::int64_t batch) {
  return Parser(text, file_name, batch).parse();
}

Module parse(std::string_view text, std::string_view file_name) {
  return parse_for_batch(text, file_name, 1).module;
}

}  // namespace rewire::ir
