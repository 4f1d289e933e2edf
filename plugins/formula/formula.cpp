// A strategy that is a formula: what each join computes is a text of the user's.
//   join = "a * x + gamma * s * f"
// The language is in formula/language.h and the parameters are in formula/formulas.h; rewire_formula.hpp says what they
// compute. This file turns one into the other.
#include <rewire_formula.hpp>
#include <rewire_plugin.hpp>
#include <string>
#include <utility>
#include <vector>

#include "formula/formulas.h"
#include "formula/language.h"
#include "terms.h"

namespace formula {
namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    text_parameter("join", "",
                   "the whole join, as 'x + 0.5 * f'. x + REST sets the branch to REST; REST + f sets the "
                   "shortcut to REST; any other formula sets the sum"),
    text_parameter("shortcut", "", "formula of the shortcut, at first x"),
    text_parameter("branch", "", "formula of the branch's term, at first f"),
    text_parameter("sum", "", "formula of the whole sum, at first x + f"),
    text_parameter("change_shortcut", "",
                   "formula of the shortcut from 'it', what it is after earlier plugins"),
    text_parameter("change_branch", "", "formula of the branch's term from 'it'"),
    text_parameter("change_sum", "", "formula of the sum from 'it'"),
    text_parameter("input", "", "formula of what the branch reads, at first h, the norm's result"),
    text_parameter("norm_input", "", "formula of what the branch's norm reads, at first x"),
    text_parameter("exit", "", "formula of the sum of the last join, instead of the others'"),
    text_parameter("let", "", "names for parts of formulas: 's = sigmoid(mean(h)); t = 1 - s'"),
    text_parameter("weights", "",
                   "weights, 'name[shape] = initial value, options'; shape: 1, channels, out (one for each "
                   "term of out), or extents as "
                   "[d, 16]; initial value: a number, normal(std), trunc_normal(std, cut), uniform(low, "
                   "high), xavier(); options: "
                   "decay, no_decay, frozen, per block, lr_scale=, weight_decay=, beta1=, beta2="),
    text_parameter("report", "", "numbers for metrics.jsonl: 'gate = mean(s)'; the mean over all elements"),
    text_parameter("init", "",
                   "initial values of the branch's own weights: 'last = 0; proj = 0.5 * it'; by role, last "
                   "is the last layer"),
    text_parameter("after", "", "weights after each step of the optimizer: 'a = minimum(a, 1)'"),
    enum_parameter("at", "all", "all|block|last",
                   "joins that change; block: the last of each block; last: the last of the network"),
};

/// The shape of a weight; its extents are terms.
terms::Shape shape_of(const WeightEntry& entry, const Source& source, Builder& builder) {
  using Kind = terms::Shape::Kind;
  switch (entry.shape) {
    case WeightShape::channels:
      return Kind::channels;
    case WeightShape::out:
      return Kind::out;
    case WeightShape::branches:
      return Kind::branches;
    case WeightShape::number:
    case WeightShape::per_channel:
    case WeightShape::extents:
      break;
  }
  std::vector<Term> extents;
  for (const Node& extent : entry.extents) extents.push_back(builder.build(source, extent));
  return {Kind::extents, std::move(extents)};
}

terms::Start start_of(const Node& node, const Source& source, Builder& builder) {
  using Kind = terms::Start::Kind;
  constexpr std::pair<const char*, Kind> kDraws[] = {{"normal", Kind::normal},
                                                     {"trunc_normal", Kind::trunc_normal},
                                                     {"uniform", Kind::uniform},
                                                     {"xavier", Kind::xavier}};
  for (const auto& [name, kind] : kDraws) {
    if (node.kind != Node::Kind::call || node.text != name) continue;
    std::vector<Term> arguments;
    for (const Node& child : node.children) arguments.push_back(builder.build(source, child));
    arguments.resize(2, 0.0);
    return {kind, arguments[0], arguments[1], builder.origin(source, node.at)};
  }
  return builder.build(source, node);
}

terms::Training training_of(const WeightEntry& entry, const Source& source, Builder& builder) {
  terms::Training training;
  if (!entry.group.empty())
    training.group = entry.group == "decay"      ? Group::decay
                     : entry.group == "no_decay" ? Group::no_decay
                                                 : Group::frozen;
  training.per_block = entry.per_block;
  for (const Entry::Option& hint : entry.hints)
    (hint.name == "lr_scale"       ? training.lr_scale
     : hint.name == "weight_decay" ? training.weight_decay
     : hint.name == "beta1"        ? training.beta1
                                   : training.beta2) = builder.build(source, hint.value[0]);
  return training;
}

terms::Formulas built(const Formulas& formulas, Builder& builder) {
  terms::Formulas all;
  all.at = formulas.at == "block"  ? terms::Joins::ends_of_blocks
           : formulas.at == "last" ? terms::Joins::last
                                   : terms::Joins::all;
  const Source& source = formulas.weights_source;
  // The numbers of weights may read names of let, and those may read weights.
  const auto define = [&](bool for_weights) {
    for (const std::string& name : formulas.let_names)
      if (formulas.of_weights.contains(name) == for_weights)
        builder.define(name, terms::let(builder.build(formulas.lets.at(name))));
  };
  define(true);
  for (const WeightEntry& entry : formulas.weights)
    builder.define(entry.name,
                   all.weight(entry.name, shape_of(entry, source, builder),
                              start_of(entry.value, source, builder), training_of(entry, source, builder)));
  define(false);
  for (const auto& [key, part] : formulas.slots) {
    std::optional<Term>* slots[] = {&all.norm_input,    &all.input,      &all.shortcut,
                                    &all.branch,        &all.sum,        &all.change_shortcut,
                                    &all.change_branch, &all.change_sum, &all.exit};
    constexpr const char* kKeys[] = {"norm_input",      "input",         "shortcut",   "branch", "sum",
                                     "change_shortcut", "change_branch", "change_sum", "exit"};
    const WholeJoin whole = key == "join" ? split_join(part.node) : WholeJoin{key, part.node};
    for (std::size_t i = 0; i < std::size(slots); ++i)
      if (whole.slot == kKeys[i]) *slots[i] = builder.build(part.source, whole.formula);
  }
  for (const NamedPart& report : formulas.reports) all.report(report.name, builder.build(report.part));
  for (const NamedPart& after : formulas.afters) all.after(after.name, builder.build(after.part));
  for (const NamedPart& init : formulas.inits)
    all.init(init.name, builder.build(init.part), builder.origin(init.part.source, init.at));
  return all;
}

/// Applies the formulas of the call's parameters; an error in one of them is a refusal of this plugin.
template <class CallType>
void apply(const CallType& call) {
  try {
    const Formulas formulas([&](const std::string& key) { return call.get_text(key.c_str()); });
    Builder builder(formulas);
    try {
      built(formulas, builder).apply(call);
    } catch (const terms::TermError& error) {
      Builder::fail_at(error);
    }
    if constexpr (std::is_same_v<CallType, Rewrite>)
      for (const std::string& remark : formulas.remarks()) call.log(REWIRE_LOG_WARNING, remark);
  } catch (const formula::Error& error) {
    throw rewire::plugin::Error(error.what());
  }
}

void rewrite(const Rewrite& call) {
  apply(call);
}
void initialise(const Initialise& call) {
  apply(call);
}

}  // namespace
}  // namespace formula

REWIRE_PLUGIN("formula", "1.0.0", "computes at each join what a formula says", formula::kParameters,
              formula::rewrite, formula::initialise)
