// Every name is defined, and every function has the arguments that it takes. Shapes are known at a join only.
#include <algorithm>

#include "formula/formulas.h"

namespace formula {
namespace {

bool among(const std::vector<std::string>& list, const std::string& name) {
  return std::ranges::find(list, name) != list.end();
}

class Checker {
 public:
  explicit Checker(const Formulas& formulas) : names_(join_names()) {
    for (const std::string& name : formulas.let_names) names_.push_back(name);
    for (const WeightEntry& weight : formulas.weights) names_.push_back(weight.name);
  }

  void check(const Part& part) const { check(part.source, part.node); }
  void check(const Source& source, const Node& node) const {
    if (node.kind == Node::Kind::name || node.kind == Node::Kind::index) check_name(source, node);
    std::size_t arguments = node.children.size();
    if (node.kind == Node::Kind::call) arguments = check_call(source, node);
    for (std::size_t i = 0; i < arguments; ++i) check(source, node.children[i]);
  }

  /// An initial value is a draw, or a formula of numbers.
  void check_start(const Source& source, const Node& node) const {
    struct Form {
      const char *name, *text;
      std::size_t arguments;
    };
    constexpr Form kForms[] = {{"normal", "normal(std)", 1},
                               {"trunc_normal", "trunc_normal(std, cut)", 2},
                               {"uniform", "uniform(low, high)", 2},
                               {"xavier", "xavier()", 0}};
    for (const Form& form : kForms) {
      if (node.kind != Node::Kind::call || node.text != form.name) continue;
      if (node.children.size() != form.arguments) fail(source, node.at, std::string("expected ") + form.text);
      for (const Node& child : node.children) check(source, child);
      return;
    }
    check(source, node);
  }

 private:
  void check_name(const Source& source, const Node& node) const {
    const std::string& text = node.text;
    if (among(names_, text)) return;
    const std::string close = did_you_mean(text, names_);
    fail(
        source, node.at,
        among(functions(), text) ? "'" + text + "' is a function: write " + text + "(...)"
        : among(domains(), text)
            ? "'" + text + "' is not a value: it is the last argument of a reduction or a draw"
            : "there is no name '" + text + "'" + (close.empty() ? "; weights and let define names" : close));
  }

  static void take(const Source& source, const Node& node, std::size_t arguments, std::size_t wanted,
                   const std::string& form) {
    if (arguments != wanted)
      fail(source, node.at,
           "expected " + form + ", not " + std::to_string(arguments) +
               (arguments == 1 ? " argument" : " arguments"));
  }

  /// Refuses an argument too many. One that is a name nobody defined was meant as a word.
  void refuse_rest(const Source& source, const Node& node, std::size_t first, std::size_t end,
                   const std::vector<std::string>& words) const {
    std::string all;
    for (const std::string& word : words)
      all += (all.empty() ? "" : &word == &words.back() ? " or " : ", ") + word;
    for (std::size_t i = first; i < end; ++i) {
      const Node& child = node.children[i];
      if (child.kind != Node::Kind::name || among(names_, child.text)) continue;
      if (among(words, child.text)) fail(source, child.at, "only one of channels, tokens and sample, once");
      fail(source, child.at,
           "expected " + all + ", not '" + child.text + "'" + did_you_mean(child.text, words));
    }
  }

  /// Returns how many arguments there are before the words.
  std::size_t check_call(const Source& source, const Node& node) const {
    const std::string& name = node.text;
    if (!among(functions(), name)) {
      if (among(names_, name))
        fail(source, node.at, "'" + name + "' is not a function: write " + name + " * (...) for a product");
      fail(source, node.at, "there is no function '" + name + "'" + did_you_mean(name, functions()));
    }
    if (among({"sum", "mean", "max", "dot", "norm", "softmax"}, name)) return check_reduction(source, node);
    if (among({"drop", "uniform", "normal"}, name)) return check_draw(source, node);
    const std::size_t arguments = node.children.size();
    const auto takes = [&](std::size_t count, const std::string& form) {
      take(source, node, arguments, count, form);
    };
    if (name == "layer_norm") {
      if (arguments < 1 || arguments > 4)
        takes(1, "layer_norm(x) or layer_norm(x, weight, bias), with epsilon as a further number");
    } else if (name == "rms_norm") {
      if (arguments != 2) takes(1, "rms_norm(x) or rms_norm(x, epsilon)");
    } else if (name == "maximum" || name == "minimum") {
      takes(2, name + "(a, b)");
    } else if (name == "matmul") {
      takes(2, "matmul(x, w)");
    } else if (name == "weighted") {
      takes(2, "weighted(list, weights)");
    } else {
      takes(1, name + "(x)");
    }
    return arguments;
  }

  std::size_t check_reduction(const Source& source, const Node& node) const {
    const std::string& name = node.text;
    const Words words = words_of(node);
    const std::size_t wanted = name == "dot" ? 2 : 1;
    if (words.per_block) fail(source, node.at, "only draws have the word block");
    refuse_rest(source, node, wanted, words.arguments, domains());
    if (name == "max" && words.arguments == 2)
      fail(source, node.at, "max(x) is the largest over the channels; of two values write maximum(a, b)");
    take(source, node, words.arguments, wanted,
         name + (wanted == 2 ? "(a, b)" : "(x)") +
             ", or with channels, tokens or sample as the last argument");
    return words.arguments;
  }

  std::size_t check_draw(const Source& source, const Node& node) const {
    const bool drops = node.text == "drop";
    const Words words = words_of(node);
    std::vector<std::string> all = domains();
    all.emplace_back("block");
    refuse_rest(source, node, drops ? 1 : 0, words.arguments, all);
    take(source, node, words.arguments, drops ? 1 : 0,
         node.text + (drops ? "(p)" : "()") + ", then channels, tokens, sample or block if you want");
    return words.arguments;
  }

  std::vector<std::string> names_;  // all that may be read
};

}  // namespace

void check_names(const Formulas& formulas) {
  const Checker checker(formulas);
  for (const std::string& name : formulas.let_names) checker.check(formulas.lets.at(name));
  for (const WeightEntry& weight : formulas.weights) {
    checker.check_start(formulas.weights_source, weight.value);
    if (weight.shape == WeightShape::extents)
      for (const Node& extent : weight.extents) checker.check(formulas.weights_source, extent);
    for (const Entry::Option& hint : weight.hints) checker.check(formulas.weights_source, hint.value[0]);
  }
  for (const auto& [key, part] : formulas.slots) checker.check(part);
  for (const auto* parts : {&formulas.reports, &formulas.inits, &formulas.afters})
    for (const NamedPart& named : *parts) checker.check(named.part);
}

}  // namespace formula
