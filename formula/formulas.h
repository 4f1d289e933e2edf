// The parameters of the plugin `formula` as trees: the formulas of a join's parts, and the lists of weights, names,
// reports, initial values and values after a step. What can be checked without a join is checked here.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formula/language.h"

namespace formula {

/// The names that a formula may read at any join.
const std::vector<std::string>& join_names();
/// The functions of one argument that are ops; all functions; the words for axes that end a reduction's or a draw's
/// arguments.
const std::vector<std::string>& pointwise_functions();
const std::vector<std::string>& functions();
const std::vector<std::string>& domains();

/// A formula, its text, and all names that it reads, also through the names of let.
struct Part {
  Source source;
  Node node;
  std::set<std::string> names = {};

  bool reads(const std::string& name) const { return names.contains(name); }
  bool reads_any(std::initializer_list<const char*> any) const;
};

/// An entry of report, init or after: its name and its formula.
struct NamedPart {
  std::string name;
  std::size_t at = 0;
  Part part;
};

/// The axes that a weight's shape names: one number for each term of a list, one per channel, or extents.
enum class WeightShape { number, channels, per_channel, out, branches, extents };

struct WeightEntry {
  std::string name;
  std::size_t at = 0;
  WeightShape shape = WeightShape::number;
  std::vector<Node> extents;
  Node value;
  std::string group;  // decay, no_decay, frozen, or "" for the rule: matrices decay
  bool per_block = false;
  std::vector<Entry::Option> hints;  // lr_scale, weight_decay, beta1, beta2, each with a value

  bool is_list() const { return shape == WeightShape::out || shape == WeightShape::branches; }
};

struct Formulas {
  /// `text` returns a parameter's text: "" if it is not given. Throws Error, with a caret, at what it cannot read.
  explicit Formulas(const std::function<std::string(const std::string& key)>& text);

  /// The formula of a part of the join ("join", "change_sum", ...), or nullptr.
  const Part* slot(std::string_view key) const;
  const WeightEntry* weight(std::string_view name) const;
  /// Whether any formula reads the name.
  bool any_reads(const std::string& name) const;
  /// Whether a formula that gives the network its values reads it; reports do not.
  bool any_slot_reads(const std::string& name) const;
  /// All names that this tree reads, by itself or through names of let.
  std::set<std::string> names_of(const Node& node) const;
  /// Names the random stream of the draw at `node`: by the text of its source and its place among the draws there, so
  /// that blanks count for nothing and another formula has other numbers.
  std::string stream_of(const Source& source, const Node& node) const;
  /// What formulas ignore, each as a sentence: a branch that is not read, a name of let that nobody reads.
  std::vector<std::string> remarks() const;

  std::map<std::string, Part, std::less<>> slots, lets;
  std::vector<std::string> let_names;  // in the order in which they are defined: each reads earlier ones only
  Source weights_source;
  std::vector<WeightEntry> weights;
  std::vector<NamedPart> reports, inits, afters;
  std::set<std::string>
      of_weights;  // the names of let that initial values, extents and options of weights read
  std::string at;  // all, block or last

 private:
  /// The draws of a source, by their places in its text, and the text with all spaces alike.
  struct Draws {
    std::set<std::size_t> places;
    std::string text;
  };
  std::map<std::string, Draws> draws_;  // by the source's key

  void note_draws(const Part& part, const std::string& name);
  WeightEntry weight_entry(Entry entry) const;
  std::vector<NamedPart> named_parts(Source source) const;
  void own_name(const Source& source, const std::string& name, std::size_t at_name) const;
  void check_weights() const;
  void check_slots() const;
  void check_after(const NamedPart& after) const;
};

/// Throws Error if a formula reads a name that nobody defines, or a function has other arguments than it takes.
/// Formulas calls it.
void check_names(const Formulas& formulas);

/// What a formula of the whole join sets: its branch if it is x + REST, its shortcut if it is REST + f, else its sum;
/// and the rest. Of x + f itself, nothing: the slot is "".
struct WholeJoin {
  std::string slot;
  Node formula;
};
WholeJoin split_join(const Node& node);

/// The words that end a call's arguments: over which axes, and whether a block's joins share a draw.
struct Words {
  std::string domain;  // one of domains(), or ""
  bool per_block = false;
  std::size_t arguments = 0;  // how many there are without the words
};
Words words_of(const Node& call);

/// The first place in the tree, from the left, that reads the name by itself or through let; the tree's own if none.
std::size_t place_of(const Node& node, const std::string& name, const Formulas& formulas);

}  // namespace formula
