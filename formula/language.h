// The language of formulas: text becomes a tree. What a tree means at a join is the plugin's to say.
//
//   expression  choice
//   choice      comparison [ "?" choice ":" choice ]
//   comparison  sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
//   sum         product { ("+" | "-") product }
//   product     sign { ("*" | "/") sign }
//   sign        [ "-" ] power
//   power       element [ "^" sign ]
//   element     number | name | name "(" [ choice { "," choice } ] ")" | name "[" choice "]" | "(" choice ")"
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace formula {

/// A text of the user's with the name of the parameter that holds it.
struct Source {
  std::string key, text;
};

/// A text that is no formula, or one that means nothing at a join. The message has three lines: what is wrong, the
/// text, and a caret under the character.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Throws Error with the message, the line of the source that has the character `at`, and the caret.
[[noreturn]] void fail(const Source& source, std::size_t at, const std::string& message);

struct Node {
  enum class Kind { number, name, call, index, negation, power, product, sum, comparison, choice };
  Kind kind = Kind::number;
  std::size_t at = 0;  // offset in the source's text
  double number = 0;   // of a number
  std::string text =
      {};  // a name; of a comparison lt le gt ge eq ne; of a sum or product an operator per child
  std::vector<Node> children = {};
};

/// Parses the whole of `source.text` from `begin` to `end` as one expression. Throws Error if it is none, nests deeper
/// than 64 or has more than 20,000 nodes.
Node parse(const Source& source, std::size_t begin, std::size_t end);
inline Node parse(const Source& source) {
  return parse(source, 0, source.text.size());
}

/// The text of a tree, which parses into the same tree.
std::string to_text(const Node& node);

/// One entry `name[shape] = value, option, option = value` of a list of entries.
struct Entry {
  struct Option {
    std::string name;
    std::size_t at = 0;
    std::vector<Node> value;  // none or one
  };
  std::string name;
  std::size_t at = 0;
  std::vector<Node> shape;  // the expressions in brackets
  bool has_shape = false;
  Node value;
  std::vector<Option> options;
};
/// Entries are separated by newlines or semicolons; empty ones count for nothing.
std::vector<Entry> parse_entries(const Source& source);

/// Returns " (did you mean 'mean'?)" with the nearest candidate; "" if none is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace formula
