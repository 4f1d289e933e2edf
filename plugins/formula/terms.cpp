#include "terms.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace formula {
namespace {

std::optional<terms::Domain> domain_of(const Words& words) {
  if (words.domain.empty()) return std::nullopt;
  return static_cast<terms::Domain>(std::ranges::find(domains(), words.domain) - domains().begin());
}

}  // namespace

Builder::Builder(const Formulas& formulas) : formulas_(formulas) {
  namespace names = terms::names;
  for (const Term& term :
       {names::x, names::f, names::h, names::x0, names::out, names::branches, names::it, names::l, names::L,
        names::b, names::B, names::d, names::k, names::K, names::training, names::progress})
    known_.emplace(term.node().name, term);
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
  const Term read(
      [](terms::Evaluation& at, const Term::Node& here) {
        try {
          return at.of(here.operands[0]);
        } catch (const terms::TermError& error) {
          if (error.origin) throw;
          throw terms::TermError(here.origin, error.what());
        }
      },
      {known_.at(node.text)});
  return read.named(node.text).from(origin(source, node.at));
}

std::vector<Term> Builder::arguments(const Source& source, const Node& node) {
  std::vector<Term> all;
  for (std::size_t i = 0; i < words_of(node).arguments; ++i) all.push_back(build(source, node.children[i]));
  return all;
}

Term Builder::call(const Source& source, const Node& node) {
  const std::string& name = node.text;
  const bool draws = name == "drop" || name == "uniform" || name == "normal";
  const bool reduces = name == "sum" || name == "mean" || name == "max" || name == "dot" || name == "norm" ||
                       name == "softmax";
  if (draws || reduces) {
    const Words words = words_of(node);
    std::vector<Term> given = arguments(source, node);
    if (name == "softmax") return terms::softmax(given[0], domain_of(words));
    if (reduces) return terms::detail::reduce(name, std::move(given), domain_of(words));
    const std::string stream = formulas_.stream_of(source, node);
    const terms::Draw each{domain_of(words), words.per_block};
    if (name == "drop") return terms::drop(stream, given[0], each);
    return name == "normal" ? terms::normal(stream, each) : terms::uniform(stream, each);
  }
  std::vector<Term> given;
  for (const Node& child : node.children) given.push_back(build(source, child));
  if (name == "layer_norm" || name == "rms_norm") {
    if (given.size() % 2 != 0) given.emplace_back(terms::detail::kNormEpsilon);
    return name == "layer_norm" ? terms::detail::layer_norm_of(std::move(given))
                                : terms::rms_norm(given[0], given[1]);
  }
  if (name == "branch_norm") return terms::branch_norm(given[0]);
  if (name == "matmul") return terms::matmul(given[0], given[1]);
  if (name == "weighted") return terms::weighted(given[0], given[1]);
  if (given.size() == 2) return terms::detail::binary(name, given[0], given[1]);
  return terms::detail::unary(name, given[0]);
}

}  // namespace formula
