#include "formula/language.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace formula {
namespace {

constexpr int kDeepest = 64;
constexpr int kMostNodes = 20000;
constexpr std::size_t kMostEntries = 200;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct Token {
  enum class Kind { end, number, name, sign };
  Kind kind = Kind::end;
  std::size_t at = 0;
  std::string_view text;
  double number = 0;
};

std::string described(const Token& token) {
  return token.kind == Token::Kind::end ? "the end" : "'" + std::string(token.text) + "'";
}

class Parser {
 public:
  Parser(const Source& source, std::size_t begin, std::size_t end)
      : source_(source), next_(begin), end_(end) {
    advance();
  }

  Node whole() {
    Node node = choice();
    if (token_.kind != Token::Kind::end) {
      const bool is_decimal = is(",") && token_.at > 0 && is_digit(source_.text[token_.at - 1]);
      fail_here("expected an operator or the end, not " + described(token_) +
                (is_decimal ? " (a decimal point is '.')" : ""));
    }
    return node;
  }

  Node choice() {
    const Deeper deeper(*this);
    Node condition = comparison();
    if (!is("?")) return condition;
    Node node = made(Node::Kind::choice);
    advance();
    Node if_true = choice();
    expect(":", "between the two values of '?'");
    node.children = {std::move(condition), std::move(if_true), choice()};
    return node;
  }

  // The lists of entries read these too.
  const Token& token() const { return token_; }
  bool is(std::string_view sign) const { return token_.kind == Token::Kind::sign && token_.text == sign; }
  void expect(std::string_view sign, const std::string& why) {
    if (!is(sign)) fail_here("expected '" + std::string(sign) + "' " + why + ", not " + described(token_));
    advance();
  }
  [[noreturn]] void fail_here(const std::string& message) const { fail(source_, token_.at, message); }

  void advance() {
    while (next_ < end_ && is_space(source_.text[next_])) ++next_;
    token_ = {Token::Kind::end, next_, {}, 0};
    if (next_ == end_) return;
    const std::string_view rest = std::string_view(source_.text).substr(next_, end_ - next_);
    std::size_t length = 1;
    if (is_digit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && is_digit(rest[1]))) {
      token_.kind = Token::Kind::number;
      const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), token_.number);
      length = static_cast<std::size_t>(stop - rest.data());
      if (error != std::errc() || !std::isfinite(token_.number)) fail_here("this number is too large");
      if (length < rest.size() && is_letter(rest[length])) {
        fail(source_, next_ + length, "expected an operator after a number (write 2 * x for 2x)");
      }
    } else if (is_letter(rest[0])) {
      token_.kind = Token::Kind::name;
      while (length < rest.size() && (is_letter(rest[length]) || is_digit(rest[length]))) ++length;
    } else {
      token_.kind = Token::Kind::sign;
      if (rest.size() > 1 && rest[1] == '=' &&
          std::string_view("<>=!").find(rest[0]) != std::string_view::npos)
        length = 2;
      if (length == 1 && std::string_view("+-*/^()[],?:<>=").find(rest[0]) == std::string_view::npos) {
        const auto byte = static_cast<unsigned char>(rest[0]);
        fail_here(byte < 0x20 || byte > 0x7e         ? "unexpected character: names and operators are ASCII"
                  : rest[0] == '&' || rest[0] == '|' ? "unexpected character: join conditions as a ? b : c"
                                                     : "unexpected character");
      }
    }
    token_.text = rest.substr(0, length);
    next_ += length;
  }

 private:
  struct Deeper {
    explicit Deeper(Parser& p) : parser(p) {
      if (++parser.depth_ > kDeepest)
        parser.fail_here("nested deeper than " + std::to_string(kDeepest) + " levels; name parts by let");
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  Node made(Node::Kind kind) {
    if (++nodes_ > kMostNodes) fail_here("longer than " + std::to_string(kMostNodes) + " terms");
    Node node;
    node.kind = kind;
    node.at = token_.at;
    return node;
  }

  Node comparison() {
    Node left = sum();
    constexpr std::pair<std::string_view, const char*> kOperators[] = {
        {"<", "lt"}, {"<=", "le"}, {">", "gt"}, {">=", "ge"}, {"==", "eq"}, {"!=", "ne"}};
    const auto* found = std::ranges::find_if(kOperators, [&](const auto& one) { return is(one.first); });
    if (found == std::end(kOperators)) {
      if (is("=")) fail_here("expected an expression; equality is '=='");
      return left;
    }
    Node node = made(Node::Kind::comparison);
    node.text = found->second;
    advance();
    node.children = {std::move(left), sum()};
    return node;
  }

  /// A chain of one level of operators: one node, with the operator before each child.
  template <class Child>
  Node chain(Node::Kind kind, std::string_view operators, char first, const Child& child) {
    Node left = child();
    if (token_.kind != Token::Kind::sign || operators.find(token_.text) == std::string_view::npos)
      return left;
    Node node = made(kind);
    node.at = left.at;
    node.text = first;
    node.children.push_back(std::move(left));
    while (token_.kind == Token::Kind::sign && operators.find(token_.text) != std::string_view::npos) {
      node.text += token_.text;
      advance();
      node.children.push_back(child());
    }
    return node;
  }
  Node sum() {
    return chain(Node::Kind::sum, "+-", '+', [this] { return product(); });
  }
  Node product() {
    return chain(Node::Kind::product, "*/", '*', [this] { return sign(); });
  }

  Node sign() {
    if (!is("-")) return power();
    const Deeper deeper(*this);
    Node node = made(Node::Kind::negation);
    advance();
    node.children.push_back(sign());
    return node;
  }

  Node power() {
    Node base = element();
    if (!is("^")) return base;
    const Deeper deeper(*this);
    Node node = made(Node::Kind::power);
    advance();
    node.children = {std::move(base), sign()};
    return node;
  }

  Node element() {
    if (token_.kind == Token::Kind::number) {
      Node node = made(Node::Kind::number);
      node.number = token_.number;
      advance();
      return node;
    }
    if (is("(")) {
      advance();
      Node node = choice();
      expect(")", "to close the bracket");
      return node;
    }
    if (token_.kind != Token::Kind::name)
      fail_here("expected a number, a name or '(', not " + described(token_));
    Node node = made(Node::Kind::name);
    node.text = token_.text;
    advance();
    if (is("(")) {
      node.kind = Node::Kind::call;
      advance();
      if (!is(")")) {
        node.children.push_back(choice());
        while (is(",")) {
          advance();
          node.children.push_back(choice());
        }
      }
      expect(")", "to close the arguments of " + node.text);
    } else if (is("[")) {
      node.kind = Node::Kind::index;
      advance();
      node.children.push_back(choice());
      expect("]", "to close the index of " + node.text);
    }
    return node;
  }

  const Source& source_;
  std::size_t next_, end_;
  Token token_;
  int depth_ = 0, nodes_ = 0;
};

/// The text of a number that is read as the same number.
std::string number_text(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  return {text, end};
}

/// How tightly a node binds: a child that binds less than its place asks for needs brackets.
int binding(const Node& node) {
  switch (node.kind) {
    case Node::Kind::choice:
      return 0;
    case Node::Kind::comparison:
      return 1;
    case Node::Kind::sum:
      return 2;
    case Node::Kind::product:
      return 3;
    case Node::Kind::negation:
      return 4;
    case Node::Kind::power:
      return 5;
    default:
      return 6;
  }
}

std::string text_at(const Node& node, int least) {
  const std::string text = to_text(node);
  return binding(node) < least ? "(" + text + ")" : text;
}

/// The entry at `begin`: where it ends, and the places of the commas and of the '=' outside brackets in it. Within
/// brackets a line may end.
struct Split {
  std::size_t end = 0, equals = std::string::npos,
              open = std::string::npos;  // open: a bracket that is not closed
  std::vector<std::size_t> commas;
};
Split split(const std::string& text, std::size_t begin) {
  Split result;
  std::vector<std::size_t> open;
  std::size_t i = begin;
  for (; i < text.size() && !(open.empty() && (text[i] == '\n' || text[i] == ';')); ++i) {
    const char c = text[i];
    if (c == ';') break;  // no formula has one
    if (c == '(' || c == '[') open.push_back(i);
    if ((c == ')' || c == ']') && !open.empty()) open.pop_back();
    if (!open.empty()) continue;
    if (c == ',') result.commas.push_back(i);
    const bool compares = (i + 1 < text.size() && text[i + 1] == '=') ||
                          (i > 0 && std::string_view("<>=!").find(text[i - 1]) != std::string_view::npos);
    if (c == '=' && !compares && result.equals == std::string::npos) result.equals = i;
  }
  result.end = i;
  if (!open.empty()) result.open = open.back();
  return result;
}

Entry::Option option(const Source& source, std::size_t begin, std::size_t end) {
  Parser parser(source, begin, end);
  Entry::Option result;
  result.at = parser.token().at;
  while (parser.token().kind == Token::Kind::name) {  // "per block" is two words
    result.name += (result.name.empty() ? "" : " ") + std::string(parser.token().text);
    parser.advance();
  }
  if (result.name.empty())
    parser.fail_here("expected an option of the weight, not " + described(parser.token()));
  if (parser.is("="))
    result.value.push_back(parse(source, parser.token().at + 1, end));
  else if (parser.token().kind != Token::Kind::end)
    parser.fail_here("expected '=' or ',' after an option, not " + described(parser.token()));
  return result;
}

}  // namespace

void fail(const Source& source, std::size_t at, const std::string& message) {
  // The line of the text that has the character; of a long line what is around it.
  constexpr std::size_t kAround = 60;
  const std::string& text = source.text;
  const std::size_t place = std::min(at, text.size());
  const auto continues = [&](std::size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  const std::size_t newline = place == 0 ? std::string::npos : text.rfind('\n', place - 1);
  std::size_t begin = newline == std::string::npos ? 0 : newline + 1,
              end = std::min(text.find('\n', begin), text.size());
  std::string before, after;
  if (place - begin > kAround) begin = place - kAround, before = "... ";
  if (end - place > kAround) end = place + kAround, after = " ...";
  while (continues(begin)) ++begin;
  while (continues(end)) --end;
  std::string line = text.substr(begin, end - begin);
  std::ranges::replace_if(line, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  std::size_t columns = 0;
  for (std::size_t i = begin; i < place; ++i) columns += continues(i) ? 0 : 1;
  const std::string head = "  " + source.key + " = " + before;
  throw Error(source.key + ": " + message + "\n" + head + line + after + "\n" +
              std::string(head.size() + columns, ' ') + "^");
}

Node parse(const Source& source, std::size_t begin, std::size_t end) {
  return Parser(source, begin, end).whole();
}

std::string to_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::number:
      return number_text(node.number);
    case Node::Kind::name:
      return node.text;
    case Node::Kind::index:
      return node.text + "[" + to_text(node.children[0]) + "]";
    case Node::Kind::negation:
      return "-" + text_at(node.children[0], 4);
    case Node::Kind::power:
      return text_at(node.children[0], 6) + "^" + text_at(node.children[1], 4);
    case Node::Kind::choice:
      return text_at(node.children[0], 1) + " ? " + to_text(node.children[1]) + " : " +
             to_text(node.children[2]);
    case Node::Kind::comparison: {
      constexpr std::pair<std::string_view, const char*> kSigns[] = {
          {"lt", "<"}, {"le", "<="}, {"gt", ">"}, {"ge", ">="}, {"eq", "=="}, {"ne", "!="}};
      const auto* found = std::ranges::find(kSigns, std::string_view(node.text),
                                            &std::pair<std::string_view, const char*>::first);
      return text_at(node.children[0], 2) + " " + found->second + " " + text_at(node.children[1], 2);
    }
    case Node::Kind::call: {
      std::string text = node.text + "(";
      for (const Node& child : node.children)
        text += (&child == node.children.data() ? "" : ", ") + to_text(child);
      return text + ")";
    }
    case Node::Kind::sum:
    case Node::Kind::product:
      break;
  }
  const int least = binding(node) + 1;
  std::string text = text_at(node.children[0], least);
  for (std::size_t i = 1; i < node.children.size(); ++i)
    text += std::string(" ") + node.text[i] + " " + text_at(node.children[i], least);
  return text;
}

std::vector<Entry> parse_entries(const Source& source) {
  std::vector<Entry> entries;
  for (std::size_t begin = 0; begin <= source.text.size();) {
    const Split parts = split(source.text, begin);
    const std::size_t first = begin;
    begin = parts.end + 1;
    if (std::all_of(source.text.begin() + static_cast<std::ptrdiff_t>(first),
                    source.text.begin() + static_cast<std::ptrdiff_t>(parts.end), is_space))
      continue;
    if (parts.open != std::string::npos) fail(source, parts.open, "this bracket is not closed");
    if (entries.size() == kMostEntries)
      fail(source, first, "more than " + std::to_string(kMostEntries) + " entries");
    Entry entry;
    Parser name(source, first, std::min(parts.equals, parts.end));
    entry.at = name.token().at;
    if (name.token().kind != Token::Kind::name) name.fail_here("expected a name before '='");
    entry.name = name.token().text;
    name.advance();
    if (name.is("[")) {
      entry.has_shape = true;
      do {
        name.advance();
        if (name.is("]") && entry.shape.empty()) break;
        entry.shape.push_back(name.choice());
      } while (name.is(","));
      name.expect("]", "to close the shape of " + entry.name);
    }
    if (name.token().kind != Token::Kind::end || parts.equals == std::string::npos)
      name.fail_here("expected '=' after the name " + entry.name + ", not " + described(name.token()));
    if (!('a' <= entry.name[0] && entry.name[0] <= 'z') && entry.name[0] != '_')
      fail(source, entry.at, "a name begins with a small letter: '" + entry.name + "'");
    std::vector<std::size_t> ends;
    for (const std::size_t comma : parts.commas)
      if (comma > parts.equals) ends.push_back(comma);
    ends.push_back(parts.end);
    entry.value = parse(source, parts.equals + 1, ends[0]);
    for (std::size_t i = 1; i < ends.size(); ++i)
      entry.options.push_back(option(source, ends[i - 1] + 1, ends[i]));
    if (std::ranges::any_of(entries, [&](const Entry& other) { return other.name == entry.name; }))
      fail(source, entry.at, "'" + entry.name + "' appears twice");
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Returns the candidate with the fewest edits from `name`, if they are few; "" otherwise.
static std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const auto lower = [](std::string_view text) {
    std::string result(text);
    for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return result;
  };
  for (const std::string& candidate : candidates)
    if (lower(candidate) == lower(name)) return candidate;
  if (name.size() < 2) return "";  // any other letter is one edit away
  // A beginning means the word that has it: min, minimum.
  for (const std::string& candidate : candidates)
    if (name.size() >= 3 && candidate.starts_with(name)) return candidate;
  std::string best;
  std::size_t fewest = 1 + name.size() / 3;  // of a short name one edit, of a long one a few
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t changed = diagonal + (name[i] != candidate[j] ? 1 : 0);
        diagonal = row[j + 1];
        row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() > fewest || (row.back() == fewest && !best.empty())) continue;
    fewest = row.back();
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string close = nearest(name, candidates);
  return close.empty() ? "" : " (did you mean '" + close + "'?)";
}

}  // namespace formula
