#include "formula/formulas.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace formula {
namespace {

constexpr std::array kSlots = {"norm_input", "input",           "shortcut",      "branch",     "sum",
                               "join",       "change_shortcut", "change_branch", "change_sum", "exit"};

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

bool is_name(const Node& node, std::string_view name) {
  return node.kind == Node::Kind::name && node.text == name;
}

WeightShape shape_of(const Source& source, const Entry& entry) {
  if (entry.shape.empty()) return WeightShape::number;
  const std::pair<const char*, WeightShape> words[] = {{"channels", WeightShape::channels},
                                                       {"d", WeightShape::per_channel},
                                                       {"out", WeightShape::out},
                                                       {"branches", WeightShape::branches}};
  for (const auto& [word, shape] : words)
    if (entry.shape.size() == 1 && is_name(entry.shape[0], word)) return shape;
  for (const Node& extent : entry.shape)
    for (const char* alone : {"channels", "out", "branches"})
      if (is_name(extent, alone))
        fail(
            source, extent.at,
            "'" + extent.text + "' is a shape by itself; an extent is a number or d, the number of channels");
  return WeightShape::extents;
}

/// An initial value is one draw, or a formula without any.
void check_initial(const Source& source, const Node& node, bool is_whole) {
  if (node.kind == Node::Kind::call && !is_whole)
    for (const char* draw : {"normal", "trunc_normal", "uniform", "xavier"})
      if (node.text == draw)
        fail(source, node.at, "an initial value is " + node.text + "(...) alone, or a formula of numbers");
  for (const Node& child : node.children) check_initial(source, child, false);
}

}  // namespace

const std::vector<std::string>& join_names() {
  static const std::vector<std::string> names = {"x", "f", "h", "x0", "out", "branches", "it",      "l", "L",
                                                 "b", "B", "d", "k",  "K",   "training", "progress"};
  return names;
}

const std::vector<std::string>& pointwise_functions() {
  static const std::vector<std::string> names = {"abs",  "cos", "erf",  "exp",           "floor",
                                                 "gelu", "log", "relu", "rsqrt",         "sigmoid",
                                                 "silu", "sin", "sqrt", "stop_gradient", "tanh"};
  return names;
}

const std::vector<std::string>& functions() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"maximum",  "minimum", "sum",        "mean",     "max",         "dot",
                                    "norm",     "softmax", "layer_norm", "rms_norm", "branch_norm", "matmul",
                                    "weighted", "drop",    "uniform",    "normal"};
    all.insert(all.end(), pointwise_functions().begin(), pointwise_functions().end());
    return all;
  }();
  return names;
}

const std::vector<std::string>& domains() {
  static const std::vector<std::string> names = {"channels", "tokens", "sample"};
  return names;
}

bool Part::reads_any(std::initializer_list<const char*> any) const {
  return std::ranges::any_of(any, [this](const char* name) { return names.contains(name); });
}

std::set<std::string> Formulas::names_of(const Node& node) const {
  std::set<std::string> names;
  if (node.kind == Node::Kind::name || node.kind == Node::Kind::index) {
    names.insert(node.text);
    if (const auto let = lets.find(node.text); let != lets.end())
      names.insert(let->second.names.begin(), let->second.names.end());
  }
  for (const Node& child : node.children) names.merge(names_of(child));
  return names;
}

WholeJoin split_join(const Node& node) {
  std::vector<std::size_t> xs, fs;  // the bare terms + x and + f
  if (node.kind == Node::Kind::sum)
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (node.text[i] == '+' && is_name(node.children[i], "x")) xs.push_back(i);
      if (node.text[i] == '+' && is_name(node.children[i], "f")) fs.push_back(i);
    }
  const bool is_branch = xs.size() == 1;
  if (!is_branch && (!xs.empty() || fs.size() != 1)) return {"sum", node};
  const std::size_t left_out = is_branch ? xs[0] : fs[0];
  Node rest;
  rest.kind = Node::Kind::sum;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (i == left_out) continue;
    rest.children.push_back(node.children[i]);
    rest.text += node.text[i];
  }
  rest.at = rest.children[0].at;
  if (rest.text[0] == '-') {  // a difference has to begin with a term
    Node first;
    first.kind = Node::Kind::negation;
    first.at = rest.at;
    first.children = {std::move(rest.children[0])};
    rest.children[0] = std::move(first);
    rest.text[0] = '+';
  }
  if (rest.children.size() == 1) rest = Node(rest.children[0]);
  if (is_branch && is_name(rest, "f")) return {"", {}};
  return {is_branch ? "branch" : "shortcut", std::move(rest)};
}

Words words_of(const Node& call) {
  Words words;
  for (words.arguments = call.children.size(); words.arguments > 0; --words.arguments) {
    const Node& word = call.children[words.arguments - 1];
    if (word.kind != Node::Kind::name) break;
    if (std::ranges::find(domains(), word.text) != domains().end() && words.domain.empty()) {
      words.domain = word.text;
    } else if (word.text == "block" && !words.per_block) {
      words.per_block = true;
    } else {
      break;
    }
  }
  return words;
}

std::size_t place_of(const Node& node, const std::string& name, const Formulas& formulas) {
  for (const Node& child : node.children)
    if (formulas.names_of(child).contains(name)) return place_of(child, name, formulas);
  return node.at;
}

void Formulas::own_name(const Source& source, const std::string& name, std::size_t at_name) const {
  const auto among = [&](const std::vector<std::string>& list) {
    return std::ranges::find(list, name) != list.end();
  };
  if (among(join_names()) || among(functions()) || among(domains()) || name == "block")
    fail(source, at_name, "'" + name + "' is a name of the language: choose another");
}

WeightEntry Formulas::weight_entry(Entry entry) const {
  const std::vector<std::string> groups = {"no_decay", "decay", "frozen"},
                                 hints = {"lr_scale", "weight_decay", "beta1", "beta2"};
  const auto among = [](const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  WeightEntry weight;
  weight.name = entry.name;
  weight.at = entry.at;
  weight.shape = shape_of(weights_source, entry);
  for (Entry::Option& option : entry.options) {
    const auto refuse = [&](const std::string& message) { fail(weights_source, option.at, message); };
    const bool has_value = !option.value.empty();
    if (among(hints, option.name)) {
      if (!has_value) refuse("expected " + option.name + " = number");
      if (std::ranges::find(weight.hints, option.name, &Entry::Option::name) != weight.hints.end())
        refuse("'" + option.name + "' appears twice");
      weight.hints.push_back(std::move(option));
    } else if (!among(groups, option.name) && option.name != "per block") {
      std::vector<std::string> all = groups;
      all.insert(all.end(), hints.begin(), hints.end());
      all.emplace_back("per block");
      refuse("a weight has no option '" + option.name + "'" + did_you_mean(option.name, all));
    } else if (has_value) {
      refuse("the option '" + option.name + "' takes no value");
    } else if (option.name == "per block") {
      if (weight.is_list())
        refuse("a weight of [out] or [branches] belongs to one join: it cannot be per block");
      weight.per_block = true;
    } else if (!weight.group.empty()) {
      refuse("decay, no_decay and frozen exclude each other");
    } else {
      weight.group = option.name;
    }
  }
  check_initial(weights_source, entry.value, true);
  weight.extents = std::move(entry.shape);
  weight.value = std::move(entry.value);
  return weight;
}

std::vector<NamedPart> Formulas::named_parts(Source source) const {
  std::vector<NamedPart> parts;
  for (Entry& entry : parse_entries(source)) {
    if (entry.has_shape || !entry.options.empty())
      fail(source, entry.at, "expected 'name = formula', without a shape and options");
    std::set<std::string> names = names_of(entry.value);
    parts.push_back({entry.name, entry.at, {source, std::move(entry.value), std::move(names)}});
  }
  return parts;
}

Formulas::Formulas(const std::function<std::string(const std::string& key)>& text)
    : weights_source{"weights", text("weights")}, at(text("at")) {
  const auto parts_of = [&](const char* key) { return named_parts({key, text(key)}); };
  std::vector<NamedPart> named = parts_of("let");
  for (NamedPart& let : named) {
    own_name(let.part.source, let.name, let.at);
    for (const NamedPart& other : named)
      if (let.part.reads(other.name) && !lets.contains(other.name))
        fail(let.part.source, place_of(let.part.node, other.name, *this),
             other.name == let.name ? "'" + let.name + "' is defined by itself"
                                    : "'" + other.name + "' is defined after its use");
    // Now that the earlier names of let are known, so is all that this one reads through them.
    let.part.names = names_of(let.part.node);
    let_names.push_back(let.name);
    lets.emplace(let.name, std::move(let.part));
  }
  for (Entry& entry : parse_entries(weights_source)) {
    own_name(weights_source, entry.name, entry.at);
    if (lets.contains(entry.name))
      fail(weights_source, entry.at, "'" + entry.name + "' is already defined in let");
    weights.push_back(weight_entry(std::move(entry)));
  }
  for (const char* key : kSlots) {
    Source source{key, text(key)};
    if (is_blank(source.text)) continue;
    Node node = parse(source);
    std::set<std::string> names = names_of(node);
    slots.emplace(key, Part{std::move(source), std::move(node), std::move(names)});
  }
  reports = parts_of("report");
  inits = parts_of("init");
  afters = parts_of("after");
  for (const auto& [key, part] : slots) note_draws(part, key);
  for (const std::string& name : let_names) note_draws(lets.at(name), name);
  for (const auto* named_list : {&reports, &inits, &afters})
    for (const NamedPart& named_part : *named_list) note_draws(named_part.part, named_part.name);
  for (const NamedPart& after : afters) check_after(after);
  check_weights();
  check_slots();
  check_names(*this);
  for (const WeightEntry& entry : weights) {
    of_weights.merge(names_of(entry.value));
    for (const Node& extent : entry.extents) of_weights.merge(names_of(extent));
    for (const Entry::Option& hint : entry.hints) of_weights.merge(names_of(hint.value[0]));
  }
}

void Formulas::note_draws(const Part& part, const std::string& name) {
  Draws& draws = draws_[part.source.key];
  draws.text += name + "=" + to_text(part.node) + ";";
  const auto note = [&](const auto& self, const Node& node) -> void {
    if (node.kind == Node::Kind::call &&
        (node.text == "drop" || node.text == "normal" || node.text == "uniform"))
      draws.places.insert(node.at);
    for (const Node& child : node.children) self(self, child);
  };
  note(note, part.node);
}

std::string Formulas::stream_of(const Source& source, const Node& node) const {
  const Draws& draws = draws_.at(source.key);
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : draws.text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return "draw_" + source.key + "_" + std::to_string(hash) + "_" +
         std::to_string(std::distance(draws.places.begin(), draws.places.find(node.at)));
}

void Formulas::check_slots() const {
  if (slots.empty() && inits.empty() && reports.empty())
    throw Error(
        "no formula is given: set join=\"x + f\" with your change; rewire help formula has the language");
  if (slots.contains("join"))
    for (const char* other : {"shortcut", "branch", "sum"})
      if (slots.contains(other))
        throw Error(std::string("join and ") + other + " both say what a join computes: give one of them");
  // What comes later in the join cannot be read yet.
  for (const char* key : {"norm_input", "input"})
    if (const Part* part = slot(key))
      for (const char* later : {"f", "h"})
        if (part->reads(later) && (std::string_view(key) == "norm_input" || std::string_view(later) == "f"))
          fail(part->source, place_of(part->node, later, *this),
               std::string(key) + " comes before " + later + " is computed, so it cannot read it");
}

/// Initial values, extents and options are numbers; and the weights of a list have names that no other weight has.
void Formulas::check_weights() const {
  for (const WeightEntry& entry : weights) {
    const auto check = [&](const Node& node) {
      for (const std::string& name : names_of(node))
        if (weight(name) != nullptr)
          fail(weights_source, place_of(node, name, *this),
               name == entry.name ? "'" + name + "' is defined by itself"
                                  : "expected a number, not the weight '" + name + "'");
    };
    check(entry.value);
    for (const Node& extent : entry.extents)
      if (entry.shape == WeightShape::extents) check(extent);
    for (const Entry::Option& hint : entry.hints) check(hint.value[0]);
    if (entry.extents.size() > 8) fail(weights_source, entry.extents[8].at, "a weight has at most 8 axes");
    if (!entry.is_list()) continue;
    for (const WeightEntry& other : weights)
      if (other.name.starts_with(entry.name + "_") &&
          other.name.find_first_not_of("0123456789", entry.name.size() + 1) == std::string::npos)
        fail(
            weights_source, other.at,
            "'" + entry.name + "' is a list, and '" + other.name + "' may be the name of one of its weights");
  }
}

void Formulas::check_after(const NamedPart& after) const {
  const auto refuse = [&](std::size_t place, const std::string& message) {
    fail(after.part.source, place, message);
  };
  const WeightEntry* set = weight(after.name);
  if (set == nullptr) {
    std::vector<std::string> names;
    for (const WeightEntry& one : weights) names.push_back(one.name);
    refuse(after.at,
           "there is no weight '" + after.name + "' of this formula" + did_you_mean(after.name, names));
  }
  if (set->is_list())
    refuse(after.at, "'" + after.name + "' is a list of weights: after sets weights of one shape");
  if (set->group == "frozen")
    refuse(after.at,
           "'" + after.name + "' is frozen: no optimizer changes it, so it has no value after a step");
  if (!after.part.reads(after.name))
    refuse(after.part.node.at,
           "the value must be computed from '" + after.name + "', the optimizer's new value");
  const std::set<std::string> numbers = {"progress", "l", "L", "b", "B", "d"};
  for (const std::string& name : after.part.names) {
    const WeightEntry* other = weight(name);
    if (name == after.name || numbers.contains(name) || lets.contains(name) ||
        (other != nullptr && other->group == "frozen"))
      continue;
    if (std::ranges::find(domains(), name) != domains().end()) continue;
    refuse(place_of(after.part.node, name, *this),
           "after reads the weight itself, frozen weights and progress, not '" + name + "'");
  }
}

const Part* Formulas::slot(std::string_view key) const {
  const auto found = slots.find(key);
  return found == slots.end() ? nullptr : &found->second;
}

const WeightEntry* Formulas::weight(std::string_view name) const {
  const auto found = std::ranges::find(weights, name, &WeightEntry::name);
  return found == weights.end() ? nullptr : &*found;
}

bool Formulas::any_slot_reads(const std::string& name) const {
  return std::ranges::any_of(slots, [&](const auto& one) { return one.second.reads(name); });
}

bool Formulas::any_reads(const std::string& name) const {
  const auto in = [&](const NamedPart& named) { return named.part.reads(name); };
  const auto in_weight = [&](const WeightEntry& weight) {
    return names_of(weight.value).contains(name) ||
           std::ranges::any_of(weight.extents,
                               [&](const Node& node) { return names_of(node).contains(name); }) ||
           std::ranges::any_of(weight.hints, [&](const Entry::Option& hint) {
             return names_of(hint.value[0]).contains(name);
           });
  };
  return any_slot_reads(name) || std::ranges::any_of(weights, in_weight) ||
         std::ranges::any_of(reports, in) || std::ranges::any_of(afters, in) ||
         std::ranges::any_of(inits, in);
}

std::vector<std::string> Formulas::remarks() const {
  std::vector<std::string> remarks;
  for (const WeightEntry& weight : weights) {
    if (!any_slot_reads(weight.name) && std::ranges::none_of(afters, [&](const NamedPart& after) {
          return after.name != weight.name && after.part.reads(weight.name);
        }))
      remarks.push_back(any_reads(weight.name)
                            ? "only reports read the weight '" + weight.name + "': it gets no gradient"
                            : "no formula reads the weight '" + weight.name + "': it is left out");
  }
  for (const auto& [name, part] : lets)
    if (!any_reads(name)) remarks.push_back("no formula reads '" + name + "' of let");
  const auto ignores = [&](const char* key, std::initializer_list<const char*> names,
                           const std::string& what) {
    const Part* part = slot(key);
    if (part && !part->reads_any(names)) remarks.push_back(std::string(key) + " does not read " + what);
  };
  // Where the branches' inputs or the exit read what came before, a sum needs no stream.
  const bool has_other_stream =
      slots.contains("norm_input") || slots.contains("input") || slots.contains("exit");
  for (const char* key : {"join", "sum"}) {
    ignores(key, {"f", "it", "out", "branches"}, "f, the branch");
    if (!has_other_stream) ignores(key, {"x", "it", "out", "branches", "x0"}, "x, the stream");
  }
  for (const char* key : {"norm_input", "input"})
    ignores(key, {"x", "it", "h", "x0", "out", "branches"}, "'it' or x");
  ignores("exit", {"it", "f", "x", "out", "branches"}, "'it', the sum");
  ignores("branch", {"f", "out", "branches"}, "f, the branch");
  ignores("shortcut", {"x", "x0", "out", "branches"}, "x, the stream");
  ignores("change_shortcut", {"it"}, "'it', the shortcut");
  ignores("change_branch", {"it"}, "'it', the branch");
  ignores("change_sum", {"it", "out"}, "'it', the sum");
  return remarks;
}

}  // namespace formula
