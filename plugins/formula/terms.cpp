#include "terms.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace formula {
namespace {

bool among(const std::vector<std::string>& list, const std::string& name) {
  return std::ranges::find(list, name) != list.end();
}

void take(const Source& source, const Node& node, std::size_t arguments, std::size_t wanted,
          const std::string& form) {
  if (arguments != wanted)
    fail(source, node.at,
         "expected " + form + ", not " + std::to_string(arguments) +
             (arguments == 1 ? " argument" : " arguments"));
}

std::optional<terms::Domain> domain_of(const Words& words) {
  if (words.domain.empty()) return std::nullopt;
  return static_cast<terms::Domain>(std::ranges::find(domains(), words.domain) - domains().begin());
}

}  // namespace

Builder::Builder(const Formulas& formulas) : formulas_(formulas), names_(join_names()) {
  namespace names = terms::names;
  for (const Term& term :
       {names::x, names::f, names::h, names::x0, names::out, names::branches, names::it, names::l, names::L,
        names::b, names::B, names::d, names::k, names::K, names::training, names::progress})
    known_.emplace(term.node().name, term);
  for (const auto& [name, part] : formulas.lets) names_.push_back(name);
  for (const WeightEntry& weight : formulas.weights) names_.push_back(weight.name);
}

const void* Builder::origin(const Source& source, std::size_t at) {
  return &origins_.emplace_back(Origin{source, at});
}

void Builder::fail_at(const terms::TermError& error) {
  const auto* origin = static_cast<const Origin*>(error.origin);
  if (!origin) throw Error(error.what());
  fail(origin->source, origin->at, error.what());
}

Term Builder::build(const Source& source, const Node& node) {
  return built(source, node).from(origin(source, node.at));
}

Term Builder::built(const Source& source, const Node& node) {
  const auto child = [&](std::size_t i) { return build(source, node.children[i]); };
  switch (node.kind) {
    case Node::Kind::number:
      return node.number;
    case Node::Kind::name:
      return name(source, node);
    case Node::Kind::index:
      return name(source, node)[child(0)];
    case Node::Kind::call:
      return call(source, node);
    case Node::Kind::negation:
      return -child(0);
    case Node::Kind::power: {
      const Term base = child(0);
      return terms::pow(base, child(1));
    }
    case Node::Kind::comparison:
      return terms::detail::binary(node.text, child(0), child(1));
    case Node::Kind::choice:
      return terms::choose(child(0), child(1), child(2));
    case Node::Kind::sum:
    case Node::Kind::product:
      break;
  }
  std::vector<Term> operands;
  for (std::size_t i = 0; i < node.children.size(); ++i) operands.push_back(child(i));
  return terms::chain(node.text, std::move(operands));
}

/// A name where it is read: errors in what it means name this place, if they have none of their own.
Term Builder::name(const Source& source, const Node& node) {
  const std::string& text = node.text;
  const auto found = known_.find(text);
  if (found == known_.end()) {
    const std::string close = did_you_mean(text, names_);
    fail(
        source, node.at,
        among(functions(), text) ? "'" + text + "' is a function: write " + text + "(...)"
        : among(domains(), text)
            ? "'" + text + "' is not a value: it is the last argument of a reduction or a draw"
            : "there is no name '" + text + "'" + (close.empty() ? "; weights and let define names" : close));
  }
  // What a name of let reads is computed first, in the order of definition, so that a chain of names nests no calls.
  std::vector<Term> earlier;
  if (const auto let = formulas_.lets.find(text); let != formulas_.lets.end())
    for (const std::string& other : formulas_.let_names)
      if (let->second.reads(other)) earlier.push_back(known_.at(other));
  const Term read(
      [earlier = std::move(earlier)](terms::Evaluation& at, const Term::Node& here) {
        try {
          for (const Term& term : earlier) at.of(term);
          return at.of(here.operands[0]);
        } catch (const terms::TermError& error) {
          if (error.origin) throw;
          throw terms::TermError(here.origin, error.what());
        }
      },
      {found->second});
  return read.named(text);
}

/// Refuses an argument too many. One that is a name nobody defined was meant as a word.
void Builder::refuse_rest(const Source& source, const Node& node, std::size_t first, std::size_t end,
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

Term Builder::reduction(const Source& source, const Node& node) {
  const Words words = words_of(node);
  const std::size_t wanted = node.text == "dot" ? 2 : 1;
  if (words.per_block) fail(source, node.at, "only draws have the word block");
  refuse_rest(source, node, wanted, words.arguments, domains());
  if (node.text == "max" && words.arguments == 2)
    fail(source, node.at, "max(x) is the largest over the channels; of two values write maximum(a, b)");
  take(source, node, words.arguments, wanted,
       node.text + (wanted == 2 ? "(a, b)" : "(x)") +
           ", or with channels, tokens or sample as the last argument");
  std::vector<Term> operands;
  for (std::size_t i = 0; i < wanted; ++i) operands.push_back(build(source, node.children[i]));
  return terms::detail::reduce(node.text, std::move(operands), domain_of(words));
}

Term Builder::norm(const Source& source, const Node& node) {
  const bool layer = node.text == "layer_norm";
  std::vector<Term> operands;
  for (const Node& child : node.children) operands.push_back(build(source, child));
  // A last argument that is a number is epsilon.
  const bool has_epsilon = operands.size() > 1 && (operands.back().node().reads & Term::tensors) == 0;
  const std::size_t arguments = operands.size() - (has_epsilon ? 1 : 0);
  take(source, node, arguments == 3 && layer ? 1 : arguments, 1,
       layer ? "layer_norm(x) or layer_norm(x, weight, bias), with epsilon as a further number"
             : "rms_norm(x) or rms_norm(x, epsilon)");
  if (!has_epsilon) operands.emplace_back(terms::detail::kNormEpsilon);
  return layer ? terms::detail::layer_norm_of(std::move(operands))
               : terms::rms_norm(operands[0], operands[1]);
}

Term Builder::draw(const Source& source, const Node& node) {
  const bool drops = node.text == "drop";
  const std::size_t wanted = drops ? 1 : 0;
  const Words words = words_of(node);
  std::vector<std::string> all = domains();
  all.emplace_back("block");
  refuse_rest(source, node, wanted, words.arguments, all);
  take(source, node, words.arguments, wanted,
       node.text + (drops ? "(p)" : "()") + ", then channels, tokens, sample or block if you want");
  const std::string stream = formulas_.stream_of(source, node);
  const terms::Draw each{domain_of(words), words.per_block};
  if (drops) return terms::drop(stream, build(source, node.children[0]), each);
  return node.text == "normal" ? terms::normal(stream, each) : terms::uniform(stream, each);
}

Term Builder::call(const Source& source, const Node& node) {
  const std::string& name = node.text;
  const auto takes = [&](std::size_t count, const std::string& form) {
    take(source, node, node.children.size(), count, form);
  };
  const auto child = [&](std::size_t i) { return build(source, node.children[i]); };
  if (among(pointwise_functions(), name)) {
    takes(1, name + "(x)");
    return terms::detail::unary(name, child(0));
  }
  if (name == "maximum" || name == "minimum") {
    takes(2, name + "(a, b)");
    return terms::detail::binary(name, child(0), child(1));
  }
  if (name == "sum" || name == "mean" || name == "max" || name == "dot" || name == "norm")
    return reduction(source, node);
  if (name == "softmax") {
    const Words words = words_of(node);
    refuse_rest(source, node, 1, words.arguments, domains());
    take(source, node, words.arguments, 1,
         "softmax(x), or with channels, tokens or sample as the last argument");
    if (words.per_block) fail(source, node.at, "only draws have the word block");
    return terms::softmax(child(0), domain_of(words));
  }
  if (name == "layer_norm" || name == "rms_norm") return norm(source, node);
  if (name == "branch_norm") {
    takes(1, "branch_norm(x)");
    return terms::branch_norm(child(0));
  }
  if (name == "matmul") {
    takes(2, "matmul(x, w)");
    return terms::matmul(child(0), child(1));
  }
  if (name == "weighted") {
    takes(2, "weighted(list, weights)");
    return terms::weighted(child(0), child(1));
  }
  if (name == "drop" || name == "uniform" || name == "normal") return draw(source, node);
  if (among(names_, name))
    fail(source, node.at, "'" + name + "' is not a function: write " + name + " * (...) for a product");
  fail(source, node.at, "there is no function '" + name + "'" + did_you_mean(name, functions()));
}

}  // namespace formula
