// A strategy that is a formula: what each join computes is a text of the user's.
//   join = "a * x + gamma * s * f"
// The language is in formula/language.h, the parameters are in formulas.h, and terms.h says what they compute. This
// file adds weights at the joins that read them, and gives each join its slots.
#include <algorithm>
#include <cmath>
#include <map>
#include <rewire_plugin.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "elements.h"
#include "formula/language.h"
#include "formulas.h"
#include "terms.h"

namespace formula {
namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    text_parameter("join", "",
                   "the whole join, as 'x + 0.5 * f'. x + REST sets the branch to REST; REST + f sets the "
                   "shortcut to REST; any "
                   "other formula sets the sum"),
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

/// What the joins of one chain have computed so far: a chain is one scope and one type of stream.
struct Chain {
  std::string scope;
  Type type;
  std::vector<Value> out,
      branches;  // the embedding, then the sums of blocks; the embedding, then the branches
};

Term::List list_of(const std::vector<Value>& values) {
  Term::List list;
  for (const Value& value : values) list.push_back({value});
  return list;
}

/// The numbers that a formula of init gives a weight whose numbers are `it`. `draw` gives random ones.
Elements start_values(const Formulas& formulas, const Join& join, const NamedPart& init,
                      std::vector<double> it,
                      const std::function<std::vector<double>(const Source&, const Node&)>& draw) {
  const std::map<std::string, std::int64_t> numbers = {
      {"l", join.join_index}, {"L", join.join_count}, {"b", join.block}, {"B", join.block_count}};
  ElementScope scope;
  scope.names = {"it"};
  for (const auto& [name, number] : numbers) scope.names.push_back(name);
  scope.names.insert(scope.names.end(), formulas.let_names.begin(), formulas.let_names.end());
  std::map<std::string, Elements> known = {{"it", std::move(it)}};
  for (const auto& [name, number] : numbers) known.emplace(name, static_cast<double>(number));
  scope.name = [&](const std::string& name) -> std::optional<Elements> {
    const auto found = known.find(name);
    return found == known.end() ? std::nullopt : std::optional<Elements>(found->second);
  };
  scope.draw = draw;
  for (const std::string& name : formulas.let_names) {
    if (!init.part.reads(name)) continue;
    const Part& let = formulas.lets.at(name);
    known.emplace(name, evaluate_elements(let.source, let.node, scope));
  }
  return evaluate_elements(init.part.source, init.part.node, scope);
}

/// Applies the formulas to the joins, one after the other.
class Writer {
 public:
  Writer(const Rewrite& call, const Formulas& formulas)
      : call_(call), formulas_(formulas), joins_(call.joins()) {}

  void write() {
    check_init();
    for (place_ = 0; place_ < joins_.size(); ++place_) {
      try {
        write_join();
      } catch (const formula::Error& error) {
        if (place_ == 0) throw;
        // The formula fits the earlier joins, so the message names this one.
        std::string message = error.what();
        message.insert(std::min(message.find('\n'), message.size()), " (at " + join().name + ")");
        throw formula::Error(message);
      }
    }
    for (const std::string& remark : formulas_.remarks()) call_.log(REWIRE_LOG_WARNING, remark);
    bool leaves_out = false;
    for (std::size_t i = 0; i < joins_.size(); ++i) {
      const bool follows = i > 0 && joins_[i].scope == joins_[i - 1].scope;
      leaves_out |= joins_[i].join_index != (follows ? joins_[i - 1].join_index + 1 : 0);
    }
    if (leaves_out && (reads_out_ || formulas_.any_reads("branches")))
      call_.log(REWIRE_LOG_WARNING, "out and branches hold the joins that the filters chose, and no others");
  }

 private:
  const Join& join() const { return joins_[place_]; }
  bool ends_chain() const {
    return place_ + 1 == joins_.size() || joins_[place_ + 1].scope != join().scope ||
           joins_[place_ + 1].stream.type() != join().stream.type();
  }
  std::string block() const { return join().scope + "." + std::to_string(join().block) + "."; }
  bool ends_block() const { return ends_chain() || joins_[place_ + 1].block != join().block; }

  /// Each name of init is a role of a weight, or last, at one join at least, and its formula can be computed.
  void check_init() const {
    std::vector<std::string> roles = {"last"};
    for (const Join& join : joins_)
      for (const Weight& weight : join.weights())
        if (std::ranges::find(roles, weight.role) == roles.end()) roles.push_back(weight.role);
    for (const NamedPart& init : formulas_.inits) {
      if (std::ranges::find(roles, init.name) == roles.end()) {
        std::string all;
        for (const std::string& role : roles) all += (all.empty() ? "" : ", ") + role;
        fail(init.part.source, init.at,
             "no branch has a weight with the role '" + init.name + "'; there are " + all);
      }
      if (!joins_.empty())
        start_values(formulas_, joins_[0], init, {0},
                     [](const Source&, const Node&) { return std::vector<double>{0}; });
    }
  }

  /// The embedding; where the stream has changed its shape since, the stream of the first join that has this shape.
  Value first_stream() const {
    const Value entry = join().has("entry") ? join().value("entry") : join().stream;
    return entry.type() == join().stream.type() ? entry : join().stream;
  }

  void write_join() {
    const Join& join = this->join();
    terms_.clear();
    if (chain_.out.empty() || chain_.scope != join.scope || chain_.type != join.stream.type())
      chain_ = {join.scope, join.stream.type(), {first_stream()}, {first_stream()}};
    const bool chosen = formulas_.at == "all" || (formulas_.at == "block" && ends_block()) ||
                        (formulas_.at == "last" && ends_chain());
    if (chosen) {
      for (const char* role : {"norm_input", "input"}) replace_input(role);
    }
    chain_.branches.push_back(join.branch);
    if (ends_block() && reads_out_) chain_.out.push_back(join.sum());
    forget();
    if (chosen) write_slots();
    if (chosen) write_hooks();
  }

  void replace_input(const char* role) {
    const Part* part = slot(role);
    if (!part) return;
    // A formula of the outputs before has nothing to read at the first join.
    if (chain_.branches.size() == 1 && part->reads_any({"out", "branches"})) return;
    it_ = join().has(role) ? std::optional<Value>(join().value(role)) : std::nullopt;
    if (!it_)
      throw Error(join().name + " has no '" + role +
                  "' that a formula could replace; leave it out by sites=, layers= or stages=");
    add_weights({role});
    join().replace(role, stream_value(*part));
    forget();
  }

  void write_slots() {
    const Join& join = this->join();
    const Part* exit = ends_chain() ? slot("exit") : nullptr;
    if (exit && !exit->reads("it")) {
      add_weights({"exit"});
      join.set_sum(stream_value(*exit));
      return;
    }
    it_.reset();
    add_weights({"shortcut", "branch", "sum", "join", "change_shortcut", "change_branch", "change_sum"});
    if (const Part* part = slot("shortcut")) join.set_shortcut(stream_value(*part));
    if (const Part* part = slot("branch")) join.set_branch(stream_value(*part));
    if (const Part* part = slot("sum")) join.set_sum(stream_value(*part));
    if (const Part* part = slot("join")) write_whole(*part);
    // Later joins read the sum as it is now; only what changes it below is not in it.
    if (ends_block() && reads_out_) {
      chain_.out.back() = join.sum();
      forget();
    }
    const auto change = [&](const char* key, const Value& current, auto&& set) {
      const Part* part = slot(key);
      if (!part) return;
      it_ = current;
      forget();
      set(stream_value(*part));
    };
    change("change_shortcut", join.shortcut(), [&](const Value& v) { join.change_shortcut(v); });
    change("change_branch", join.branch_slot(), [&](const Value& v) { join.change_branch(v); });
    if (slot("change_sum")) change("change_sum", join.sum(), [&](const Value& v) { join.change_sum(v); });
    if (exit) {
      add_weights({"exit"});
      change("exit", join.sum(), [&](const Value& v) { join.change_sum(v); });
    }
    it_.reset();
  }

  /// Adds the names that the tree reads at this join: of a choice by numbers alone, those of the side that it takes.
  void collect_names(const Source& source, const Node& node, std::set<std::string>& names) {
    if (node.kind == Node::Kind::choice) {
      const std::set<std::string> numbers = {"l", "L", "b", "B", "d"};
      const std::set<std::string> of_condition = formulas_.names_of(node.children[0]);
      if (std::ranges::all_of(of_condition, [&](const std::string& name) {
            return numbers.contains(name) || formulas_.lets.contains(name);
          })) {
        const Term condition = Evaluator(join(), scope()).evaluate(source, node.children[0]);
        if (const double* number = condition.number())
          return collect_names(source, node.children[*number != 0 ? 1 : 2], names);
      }
    }
    const bool is_new =
        (node.kind == Node::Kind::name || node.kind == Node::Kind::index) && names.insert(node.text).second;
    if (const auto let = formulas_.lets.find(node.text); is_new && let != formulas_.lets.end())
      collect_names(let->second.source, let->second.node, names);
    for (const Node& child : node.children) collect_names(source, child, names);
  }

  /// Adds the weights that these formulas read at this join, in the order of the list, before any of their ops.
  void add_weights(const std::vector<const char*>& keys) {
    std::set<std::string> names;
    for (const char* key : keys)
      if (const Part* part = slot(key)) collect_names(part->source, part->node, names);
    for (const WeightEntry& weight : formulas_.weights)
      if (names.contains(weight.name) && !terms_.contains(weight.name))
        terms_.emplace(weight.name, weight_term(weight));
  }

  /// x + REST: the shortcut stays and the branch is REST. REST + f: the branch stays. Otherwise the sum.
  void write_whole(const Part& part) {
    const Node& node = part.node;
    const auto is = [](const Node& term, const char* name) {
      return term.kind == Node::Kind::name && term.text == name;
    };
    std::vector<std::size_t> xs, fs;
    if (node.kind == Node::Kind::sum)
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        if (node.text[i] == '+' && is(node.children[i], "x")) xs.push_back(i);
        if (node.text[i] == '+' && is(node.children[i], "f")) fs.push_back(i);
      }
    const auto without = [&](std::size_t left_out) {
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
        first.at = rest.children[0].at;
        first.children = {rest.children[0]};
        rest.children[0] = first;
        rest.text[0] = '+';
      }
      return rest.children.size() == 1 ? Node(rest.children[0]) : rest;
    };
    if (xs.size() == 1) {
      const Node rest = without(xs[0]);
      if (is(rest, "f")) return;  // as it was
      join().set_branch(stream_value(part, rest));
    } else if (xs.empty() && fs.size() == 1) {
      join().set_shortcut(stream_value(part, without(fs[0])));
    } else {
      join().set_sum(stream_value(part));
    }
  }

  void write_hooks() {
    for (const NamedPart& report : formulas_.reports) {
      const Part& part = report.part;
      const Evaluator evaluator(join(), scope());
      join().report(report.name,
                    evaluator.as_scalar(part.source, part.node, evaluator.evaluate(part.source, part.node)));
    }
    for (const NamedPart& after : formulas_.afters) write_after(after);
  }

  void write_after(const NamedPart& after) {
    const Part& part = after.part;
    const auto added = added_.find(after.name);
    // A weight of the block is set at the join that added it.
    if (added == added_.end() || added->second.first != place_) return;
    const Value weight = added->second.second;
    // The weights as they are stored, not in the stream's type: a step may be smaller than bf16 can hold.
    std::map<std::string, Term> stored;
    for (const auto& [name, place_and_weight] : added_)
      if (place_and_weight.first == place_)
        stored.emplace(name, Term{place_and_weight.second, is_per_channel(place_and_weight.second)});
    terms_.swap(stored);
    const Term term = Evaluator(join(), scope()).evaluate(part.source, part.node);
    terms_.swap(stored);
    if (!term.tensor())
      fail(part.source, part.node.at, "expected a tensor for the weight, not a list or a number");
    if (term.tensor()->dtype() == DType::i1)
      fail(part.source, part.node.at, "a condition is not a number: write (condition ? 1 : 0)");
    const Type type = weight.type();
    Value value = cast(*term.tensor(), type.dtype);
    if (value.shape() != type.shape) {
      if (count(value.shape()) != count(type.shape))
        fail(part.source, part.node.at, "the value and '" + after.name + "' differ in size");
      value = reshape(value, type.shape);
    }
    join().after_step(after.name, value);
  }

  static std::int64_t count(const Ints& shape) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    return elements;
  }

  const Part* slot(const char* key) const { return formulas_.slot(key); }

  Value stream_value(const Part& part) { return stream_value(part, part.node); }
  Value stream_value(const Part& part, const Node& node) {
    const Evaluator evaluator(join(), scope());
    return evaluator.as_stream(part.source, node, evaluator.evaluate(part.source, node));
  }

  /// Drops the names of let that depend on what has changed since: the outputs so far, or `it`.
  void forget() {
    std::erase_if(terms_, [&](const auto& term) {
      const auto let = formulas_.lets.find(term.first);
      return let != formulas_.lets.end() && let->second.reads_any({"it", "out", "branches"});
    });
  }

  const Evaluator::Scope& scope() {
    if (scope_.names.empty()) {
      scope_.names = join_names();
      for (const auto& [name, part] : formulas_.lets) scope_.names.push_back(name);
      for (const WeightEntry& weight : formulas_.weights) scope_.names.push_back(weight.name);
      scope_.name = [this](const Source& source, const Node& node) { return term_of(source, node); };
      scope_.uniform = [this](const Source& source, const Node& node, const Ints& shape, bool per_block,
                              int which) {
        const std::string name = formulas_.stream_of(source, node) + "_" + std::to_string(which);
        Value& drawn = draws_[per_block ? block() + name : std::to_string(place_) + "." + name];
        if (!drawn) drawn = join().rng_stream(name.c_str(), {DType::f32, shape});
        return drawn;
      };
    }
    return scope_;
  }

  std::optional<Term> term_of(const Source& source, const Node& node) {
    const std::string& name = node.text;
    const auto let = formulas_.lets.find(name);
    // What reads k is another number for each weight of a list.
    if (let != formulas_.lets.end() && let->second.reads_any({"k", "K"})) return let_term(name);
    if (const auto known = terms_.find(name); known != terms_.end()) return known->second;
    std::optional<Term> term = built_in(source, node);
    if (!term) {
      if (let != formulas_.lets.end()) {
        // What it reads is computed first, in the order of definition, so that a chain of names nests no calls.
        for (const std::string& earlier : formulas_.let_names)
          if (let->second.reads(earlier) && !terms_.contains(earlier))
            terms_.emplace(earlier, let_term(earlier));
        term = let_term(name);
      } else if (const WeightEntry* weight = formulas_.weight(name)) {
        term = weight_term(*weight);
      } else {
        return std::nullopt;
      }
      terms_.emplace(name, *term);
    }
    return term;
  }

  Term let_term(const std::string& name) {
    const Part& part = formulas_.lets.at(name);
    return Evaluator(join(), scope()).evaluate(part.source, part.node);
  }

  std::optional<Term> built_in(const Source& source, const Node& node) {
    const Join& join = this->join();
    const std::string& name = node.text;
    const auto number = [](std::int64_t n) { return Term{static_cast<double>(n)}; };
    if (name == "x") return Term{join.stream};
    if (name == "f") return Term{join.branch};
    if (name == "h") return Term{join.input};
    if (name == "x0") return Term{chain_.out[0]};
    if (name == "out") return Term{list_of(chain_.out)};
    if (name == "branches") return Term{list_of(chain_.branches)};
    if (name == "it") {
      if (!it_)
        fail(source, node.at,
             "'it' is what a formula changes: only change_..., input, norm_input and exit have it");
      return Term{*it_};
    }
    if (name == "l") return number(join.join_index);
    if (name == "L") return number(join.join_count);
    if (name == "b") return number(join.block);
    if (name == "B") return number(join.block_count);
    if (name == "d") return number(join.stream.shape()[static_cast<std::size_t>(join.channel_axis)]);
    if (name == "training") return Term{join.is_training()};
    if (name == "progress") return Term{cast(join.progress(), at_least_f32(join.stream).dtype())};
    if (name == "k" || name == "K") {
      if (index_ < 0)
        fail(source, node.at, "'" + name + "' is an index in the initial value of a weight of [out]");
      return number(name == "k" ? index_ : last_index_);
    }
    return std::nullopt;
  }

  // --- weights

  double folded(const Node& node, const char* what) {
    const Term term = Evaluator(join(), scope()).evaluate(formulas_.weights_source, node);
    if (const double* number = term.number()) return *number;
    fail(formulas_.weights_source, node.at, std::string("expected a number for ") + what + ", not a tensor");
  }

  Init initial(const Node& node, const Ints& shape) {
    if (node.kind == Node::Kind::call) {
      const auto argument = [&](std::size_t i) { return folded(node.children[i], "the initial value"); };
      const auto check = [&](bool fits, const char* form) {
        if (!fits) fail(formulas_.weights_source, node.at, std::string("expected ") + form);
      };
      const auto takes = [&](std::size_t count, const char* form) {
        check(node.children.size() == count, form);
      };
      if (node.text == "normal") {
        takes(1, "normal(std)");
        check(argument(0) > 0, "normal(std) with std above 0");
        return Init::normal(argument(0));
      }
      if (node.text == "trunc_normal") {
        takes(2, "trunc_normal(std, cut)");
        check(argument(0) > 0 && argument(1) > 0, "trunc_normal(std, cut), both above 0");
        return Init::trunc_normal(argument(0), argument(1));
      }
      if (node.text == "uniform") {
        takes(2, "uniform(low, high)");
        check(argument(0) < argument(1), "uniform(low, high) with low below high");
        return Init::uniform(argument(0), argument(1));
      }
      if (node.text == "xavier") {
        takes(0, "xavier()");
        check(shape.size() >= 2, "a weight of two axes for xavier()");
        return Init::xavier_uniform();
      }
    }
    const double number = folded(node, "the initial value");
    if (!std::isfinite(number))
      fail(formulas_.weights_source, node.at, "the initial value is not a finite number");
    return number == 0 ? Init::zeros() : number == 1 ? Init::ones() : Init::constant(number);
  }

  WeightHint hint_of(const WeightEntry& entry) {
    WeightHint hint;
    for (const Entry::Option& option : entry.hints) {
      const double number = folded(option.value[0], option.name.c_str());
      const bool is_beta = option.name.starts_with("beta");
      const auto check = [&](bool fits, const char* range) {
        if (!fits) fail(formulas_.weights_source, option.value[0].at, option.name + " is " + range);
      };
      if (option.name == "lr_scale") check(number > 0 && std::isfinite(number), "above 0");
      if (option.name == "weight_decay") check(number >= 0 && std::isfinite(number), "at least 0");
      if (is_beta) check(number >= 0 && number < 1, "at least 0 and below 1");
      (option.name == "lr_scale"       ? hint.lr_scale
       : option.name == "weight_decay" ? hint.weight_decay
       : option.name == "beta1"        ? hint.beta1
                                       : hint.beta2) = number;
    }
    return hint;
  }

  Value added_weight(const std::string& name, const Ints& shape, const WeightEntry& entry) {
    const Group group = entry.group ? *entry.group : shape.size() == 2 ? Group::decay : Group::no_decay;
    const DType dtype = join().stream.dtype(), kept = dtype == DType::f64 ? DType::f64 : DType::f32;
    const Value weight = join().add_weight(name, Type{kept, shape}, initial(entry.value, shape), group);
    if (!entry.hints.empty()) join().weight_hint(name, hint_of(entry));
    return weight;
  }

  Ints extents_of(const WeightEntry& entry) {
    if (entry.shape == WeightShape::channels) return join().channel_shape();
    Ints extents;
    for (const Node& extent : entry.extents) {
      const double number = folded(extent, "an extent");
      if (!(number >= 1 && number <= 1e9) || number != std::floor(number))
        fail(formulas_.weights_source, extent.at, "an extent is a whole number from 1 on");
      extents.push_back(static_cast<std::int64_t>(number));
    }
    const std::int64_t channels = join().channel_shape()[static_cast<std::size_t>(join().channel_axis)];
    if (extents.size() == 1 && extents[0] != 1 && extents[0] != channels)
      fail(formulas_.weights_source, entry.extents[0].at,
           "a weight of one axis has one number, or one for each of the " + std::to_string(channels) +
               " channels");
    return extents.empty() ? Ints{1} : extents;
  }

  /// One axis with a number for each channel, as [d]. A weight of [channels] has the other axes, too.
  static bool is_per_channel(const Value& weight) {
    return weight.shape().size() == 1 && weight.shape()[0] != 1;
  }

  Term weight_term(const WeightEntry& entry) {
    const DType dtype = join().stream.dtype();
    if (entry.is_list()) {
      Term::List list;
      last_index_ = std::ssize(entry.shape == WeightShape::out ? chain_.out : chain_.branches) - 1;
      for (index_ = 0; index_ <= last_index_; ++index_)
        list.push_back({cast(added_weight(entry.name + "_" + std::to_string(index_), {1}, entry), dtype)});
      index_ = -1;
      return {std::move(list)};
    }
    if (entry.per_block)
      if (const auto shared = block_weights_.find(block() + entry.name); shared != block_weights_.end())
        return shared->second;
    const Value weight = added_weight(entry.name, extents_of(entry), entry);
    added_[entry.name] = {place_, weight};
    const Term term{cast(weight, dtype), is_per_channel(weight)};
    if (entry.per_block) block_weights_[block() + entry.name] = term;
    return term;
  }

  const Rewrite& call_;
  const Formulas& formulas_;
  std::vector<Join> joins_;
  std::size_t place_ = 0;
  Chain chain_;
  std::optional<Value> it_;
  std::map<std::string, Term> terms_;  // of let and weights, at this join
  std::map<std::string, Term> block_weights_;
  std::map<std::string, Value> draws_;                          // by the join or the block, and the stream
  std::map<std::string, std::pair<std::size_t, Value>> added_;  // the join and the value of each weight
  const bool reads_out_ =
      formulas_.any_reads("out") || std::ranges::any_of(formulas_.weights, [](const WeightEntry& weight) {
        return weight.shape == WeightShape::out;
      });
  std::int64_t index_ = -1, last_index_ = -1;
  Evaluator::Scope scope_;
};

/// Runs `body`; an error in a formula is a refusal of this plugin.
template <class Body>
void refusing(const Body& body) {
  try {
    body();
  } catch (const formula::Error& error) {
    throw rewire::plugin::Error(error.what());
  }
}

void rewrite(const Rewrite& call) {
  refusing([&] {
    const Formulas formulas(call);
    Writer(call, formulas).write();
  });
}

/// The weights of a role that the branch reads; "last" is the weight and the bias of its last layer.
std::vector<Weight> weights_of(const Join& join, const std::string& role) {
  if (role != "last") return join.weights(role);
  std::vector<Weight> weights = join.weights();
  const std::string layer = join.last_weight.substr(0, join.last_weight.rfind('.'));
  std::erase_if(weights, [&](const Weight& weight) {
    return weight.name != join.last_weight && weight.name != layer + ".bias";
  });
  return weights;
}

void initialise(const Initialise& call) {
  refusing([&] {
    const Formulas formulas(call);
    const std::vector<Join> joins = call.joins();
    for (std::size_t i = 0; i < joins.size(); ++i) {
      const Join& join = joins[i];
      const auto ends = [&](auto fact) {
        return i + 1 == joins.size() || joins[i + 1].scope != join.scope || joins[i + 1].*fact != join.*fact;
      };
      if ((formulas.at == "block" && !ends(&Join::block)) || (formulas.at == "last" && !ends(&Join::stage)))
        continue;
      for (const NamedPart& init : formulas.inits)
        for (const Weight& weight : weights_of(join, init.name)) {
          const auto draw = [&](const Source& source, const Node& node) {
            const std::string stream = weight.name + " " + formulas.stream_of(source, node);
            return node.text == "normal" ? call.normal(stream, weight.elements())
                                         : call.uniform(stream, weight.elements());
          };
          const Elements values = start_values(formulas, join, init, call.read(weight), draw);
          const double* number = std::get_if<double>(&values);
          call.write(weight, number ? std::vector<double>(weight.elements(), *number)
                                    : std::get<std::vector<double>>(values));
        }
    }
  });
}

}  // namespace
}  // namespace formula

REWIRE_PLUGIN("formula", "1.0.0", "computes at each join what a formula says", formula::kParameters,
              formula::rewrite, formula::initialise)
