// A strategy as formulas, in C++: what --join and --formula say as text. A formula has numbers, tensors and lists of
// tensors. Numbers fold in double precision, operands of two float types meet in the wider one, and sums accumulate in
// f32 at least. A formula holds for tokens [N, T, D] and maps [N, C, H, W] alike.
//
//   using namespace rewire::formula::names;  // x, f, h, ...
//   Formulas formulas(const Call& call) {
//     Formulas join;
//     const Term gamma = join.weight("gamma", Shape::channels(), call.get_float("start"));
//     const Term s = sigmoid(mean(h));
//     join.branch = gamma * s * f;
//     join.report("gate", mean(s));
//     return join;
//   }
//   void rewrite(const Rewrite& call) { formulas(call).apply(call); }
//
// A Term is an expression. Each join that reads it evaluates it there, once, its operands from left to right. So the
// network does not depend on the order in which a compiler evaluates operands.
#ifndef REWIRE_FORMULA_HPP_
#define REWIRE_FORMULA_HPP_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rewire_plugin.hpp"

namespace rewire::formula {

using plugin::Call;
using plugin::ChannelsLast;
using plugin::DType;
using plugin::Group;
using plugin::Init;
using plugin::Initialise;
using plugin::Ints;
using plugin::Join;
using plugin::Rewrite;
using plugin::Type;
using plugin::Value;
using plugin::Weight;

/// What a term is at a join.
struct Known {
  using List = std::vector<Known>;
  using Numbers = std::vector<double>;  // one for each element of a weight; only formulas of init have them
  std::variant<double, Value, List, Numbers> value = 0.0;
  /// A tensor of one axis, one number per channel, has this shape where it meets others, [1, C, 1, 1]; others: empty.
  Ints channels = {};

  const double* number() const { return std::get_if<double>(&value); }
  const Value* tensor() const { return std::get_if<Value>(&value); }
  const List* list() const { return std::get_if<List>(&value); }
  const Numbers* numbers() const { return std::get_if<Numbers>(&value); }
  /// Returns the tensor, with its channels at the stream's axis.
  Value laid() const { return channels.empty() ? *tensor() : reshape(*tensor(), channels); }
  bool is_condition() const { return tensor() && tensor()->dtype() == DType::i1; }
};

/// A formula that means nothing at a join. `origin` is that of the term at fault.
class TermError : public plugin::Error {
 public:
  TermError(const void* term_origin, const std::string& message) : Error(message), origin(term_origin) {}
  const void* origin;
};

class Evaluation;

/// An expression. Copies share it.
class Term {
 public:
  /// What an expression reads, through all its operands, as bits.
  enum Reads : unsigned {
    nothing = 0,
    it_reads = 1,
    out_reads = 2,
    branches_reads = 4,
    index_reads = 8,
    tensors = 16
  };
  struct Node {
    std::function<Known(Evaluation&, const Node&)> compute;
    std::vector<Term> operands;
    unsigned reads;
    bool chooses = false;        // operands: a condition, and two of which one is evaluated if it is a number
    std::string name = {};       // of a join's name or a weight
    std::size_t weight = kNone;  // its index in the Formulas of `owner`
    std::shared_ptr<const void> owner = {};
    std::size_t let = 0;  // the number of a term that let() made; 0 for others
    std::vector<Term> earlier =
        {};                        // those that it reads, also through others, in the order of their numbers
    const void* origin = nullptr;  // what an error names as its place
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  template <class Number>
    requires std::is_arithmetic_v<Number>
  Term(Number number)  // NOLINT: 1 - s reads as it should
      : Term(
            [n = static_cast<double>(number)](Evaluation&, const Node& node) {
              if (!std::isfinite(n)) throw TermError(node.origin, "this is not a finite number here");
              return Known{n};
            },
            {}) {}
  /// Makes an expression of an op on others; `compute` evaluates its operands itself.
  Term(std::function<Known(Evaluation&, const Node&)> compute, std::vector<Term> operands,
       unsigned reads = nothing)
      : node_(std::make_shared<Node>(Node{std::move(compute), std::move(operands), reads})) {
    for (const Term& operand : node_->operands) node_->reads |= operand.node().reads;
  }

  /// Returns a term of a list. The index counts from 0, or from -1 backwards.
  Term operator[](const Term& index) const;

  const Node& node() const { return *shared(); }
  const std::shared_ptr<Node>& shared() const {
    if (!node_) throw std::logic_error("a term was used after it was moved from");
    return node_;
  }
  // Only for a term that the caller has just made: all copies change.
  Term named(std::string name) const& { return shared()->name = std::move(name), *this; }
  /// Sets the place that an error in this expression names.
  Term from(const void* origin) const& { return shared()->origin = origin, *this; }

 private:
  std::shared_ptr<Node> node_;
};

[[noreturn]] inline void refuse(const Term& term, const std::string& message) {
  throw TermError(term.node().origin, message);
}
[[noreturn]] inline void refuse(const Term::Node& node, const std::string& message) {
  throw TermError(node.origin, message);
}

/// Evaluates terms at one join, each once.
class Evaluation {
 public:
  const Known& of(const Term& term) {
    if (const auto found = known_.find(term.shared()); found != known_.end()) return found->second;
    Known known = term.node().compute(*this, term.node());
    return known_.emplace(term.shared(), std::move(known)).first->second;
  }
  /// Forgets the terms that read one of these: it, out, branches, an index.
  void forget(unsigned reads = Term::it_reads | Term::out_reads | Term::branches_reads | Term::index_reads) {
    std::erase_if(known_, [&](const auto& entry) { return (entry.first->reads & reads) != 0; });
  }
  void clear() { known_.clear(); }

  double number(const Term& term, const std::string& what);
  /// Returns the join; throws TermError if there is none.
  const Join& join(const Term::Node& node) const {
    if (!at)
      refuse(node, node.name.empty() ? "this is no function of a weight's numbers"
                                     : "the numbers of a weight cannot read '" + node.name + "'");
    return *at;
  }

  const Join* at = nullptr;  // none for the numbers of a weight
  std::optional<Known> it;   // what the formula changes
  const std::vector<Value>*out = nullptr, *branches = nullptr;
  std::map<std::string, double> facts;  // l, L, b, B
  std::shared_ptr<const void> owner;    // of the weights
  double index = -1, last_index = -1;   // k and K of a weight of a list
  std::function<Known(std::size_t)> weight;
  /// Uniform numbers in [0, 1) of this shape. A draw may need several: `which` counts from 0.
  std::function<Value(const std::string& stream, const Ints& shape, bool per_block, int which)> uniform;
  /// Numbers for each element of a weight.
  std::function<Known::Numbers(const std::string& stream, bool normal)> drawn;

 private:
  std::map<std::shared_ptr<Term::Node>, Known> known_;
};

/// Over which axes a reduction goes, and for which of them a random number is drawn anew.
enum class Domain { channels, tokens, sample };

namespace detail {

constexpr double kNormEpsilon = 1e-6;
/// Below it a norm is constant, so that its gradient at 0 is 0. f32 holds it.
constexpr double kLeastSquare = 1e-30;

struct Pointwise {
  const char* op;
  double (*of)(double);
};
// The functions of one number that are ops, too; and "neg", which is an operator.
inline constexpr Pointwise kPointwise[] = {
    {"abs", [](double x) { return std::fabs(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"erf", [](double x) { return std::erf(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"gelu", [](double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }},
    {"log", [](double x) { return std::log(x); }},
    {"neg", [](double x) { return -x; }},
    {"relu", [](double x) { return std::max(x, 0.0); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"stop_gradient", [](double x) { return x; }},
    {"tanh", [](double x) { return std::tanh(x); }}};

inline double folded(std::string_view op, double x) {
  return std::ranges::find(kPointwise, op, &Pointwise::op)->of(x);
}
inline double folded(std::string_view op, double a, double b) {
  return op == "add"       ? a + b
         : op == "sub"     ? a - b
         : op == "mul"     ? a * b
         : op == "div"     ? a / b
         : op == "pow"     ? std::pow(a, b)
         : op == "maximum" ? std::max(a, b)
         : op == "minimum" ? std::min(a, b)
         : op == "lt"      ? a < b
         : op == "le"      ? a <= b
         : op == "gt"      ? a > b
         : op == "ge"      ? a >= b
         : op == "eq"      ? a == b
                           : a != b;
}

inline std::string kind_of(const Known& known) {
  return known.number() ? "a number" : known.list() ? "a list of terms" : "a tensor";
}
inline std::string shape_text(const Ints& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}
inline std::int64_t elements(const Ints& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}
/// Returns whether the shapes broadcast as NumPy's do.
inline bool fit(const Ints& a, const Ints& b) {
  for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const std::int64_t m = a[a.size() - i], n = b[b.size() - i];
    if (m != n && m != 1 && n != 1) return false;
  }
  return true;
}
/// Returns the wider of two float types; for the two of 16 bits, f32.
inline DType wider(DType a, DType b) {
  const auto width = [](DType d) { return d == DType::f64 ? 2 : d == DType::f32 ? 1 : 0; };
  if (a != b && width(a) == 0 && width(b) == 0) return DType::f32;
  return width(a) >= width(b) ? a : b;
}
inline std::size_t at(std::int64_t axis) {
  return static_cast<std::size_t>(axis);
}

/// Applies `function` to the term, or to each of a list.
template <class Function>
Known each(const Known& known, const Function& function) {
  if (!known.list()) return function(known);
  Known::List result;
  for (const Known& one : *known.list()) result.push_back(function(one));
  return {std::move(result)};
}

/// A number without tensors is known now, so one that is not finite is a mistake.
inline Known finite(const Term::Node& node, double number) {
  if (!std::isfinite(number)) refuse(node, "this is not a finite number here");
  return {number};
}
[[noreturn]] inline void refuse_condition(const Term& term) {
  refuse(term, "a condition is not a number: write (condition ? 1 : 0)");
}

inline Term unary(std::string op, const Term& x) {
  return {[op = std::move(op)](Evaluation& at, const Term::Node& node) {
            return each(at.of(node.operands[0]), [&](const Known& one) -> Known {
              if (const double* number = one.number()) return finite(node, folded(op, *number));
              if (const Known::Numbers* numbers = one.numbers()) {
                Known::Numbers result;
                for (const double number : *numbers) result.push_back(folded(op, number));
                return {std::move(result)};
              }
              if (one.is_condition()) refuse(node, op + " of a condition: write (condition ? 1 : 0)");
              return {plugin::emit(op.c_str(), {*one.tensor()}), one.channels};
            });
          },
          {x}};
}

/// A weight that meets a list is broadcast to the terms' shape once. Its gradient is then one sum over the tokens, not
/// one for each term.
inline Known spread(const Known& known, const Known::List& list) {
  const Value* first = list.front().tensor();
  if (!known.tensor() || !first || list.size() == 1 || known.is_condition()) return known;
  const Value value = known.laid();
  const Type type = first->type();
  Ints shape = value.shape();
  if (shape == type.shape || shape.size() > type.shape.size() || !fit(shape, type.shape)) return known;
  shape.insert(shape.begin(), type.shape.size() - shape.size(), 1);
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] != 1 && shape[axis] != type.shape[axis])
      return known;  // the terms grow to its shape instead
  const DType dtype = wider(value.dtype(), type.dtype);
  return {plugin::emit("broadcast", {reshape(cast(value, dtype), shape)}, {}, Type{dtype, type.shape})};
}

/// A binary operation and its operands, for messages.
struct Operands {
  const Term::Node& whole;
  const Term &left, &right;
};

inline Known binary(const Operands& at, const std::string& op, const Known& a, const Known& b) {
  if (a.list() || b.list()) {
    if (a.list() && b.list() && a.list()->size() != b.list()->size())
      refuse(at.right, "a list of " + std::to_string(a.list()->size()) + " and one of " +
                           std::to_string(b.list()->size()) + " terms do not fit");
    const Known::List& list = *(a.list() ? a : b).list();
    const Known left = a.list() ? a : spread(a, list), right = b.list() ? b : spread(b, list);
    Known::List result;
    for (std::size_t i = 0; i < list.size(); ++i)
      result.push_back(
          binary(at, op, left.list() ? (*left.list())[i] : left, right.list() ? (*right.list())[i] : right));
    return {std::move(result)};
  }
  if (a.number() && b.number()) return finite(at.whole, folded(op, *a.number(), *b.number()));
  if (a.numbers() || b.numbers()) {
    Known::Numbers result((a.numbers() ? a : b).numbers()->size());
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = folded(op, a.numbers() ? (*a.numbers())[i] : *a.number(),
                         b.numbers() ? (*b.numbers())[i] : *b.number());
    return {std::move(result)};
  }
  // Numbers and weights of one number per channel make another such weight.
  const bool per_channel = (a.number() || !a.channels.empty()) && (b.number() || !b.channels.empty());
  const auto value_of = [&](const Known& known) { return per_channel ? *known.tensor() : known.laid(); };
  Value left = a.tensor() ? value_of(a) : constant_like(*b.tensor(), *a.number());
  Value right = b.tensor() ? value_of(b) : constant_like(*a.tensor(), *b.number());
  if (left.dtype() == DType::i1) refuse_condition(at.left);
  if (right.dtype() == DType::i1) refuse_condition(at.right);
  if (!fit(left.shape(), right.shape())) {
    const auto name_of = [](const Term& term, const char* otherwise) {
      return term.node().name.empty() ? otherwise : "'" + term.node().name + "'";
    };
    refuse(at.right, name_of(at.left, "the left side") + " has the shape " + shape_text(left.shape()) + ", " +
                         name_of(at.right, "the right side") + " " + shape_text(right.shape()) +
                         ": they do not fit");
  }
  const DType dtype = wider(left.dtype(), right.dtype());
  left = cast(left, dtype), right = cast(right, dtype);
  const bool compares = op.size() == 2;
  return {compares ? compare(op.c_str(), left, right) : plugin::emit(op.c_str(), {left, right}),
          a.channels.empty() ? (per_channel ? b.channels : Ints{}) : (per_channel ? a.channels : Ints{})};
}

inline Term binary(std::string op, const Term& a, const Term& b) {
  return {[op = std::move(op)](Evaluation& at, const Term::Node& node) {
            const Known& left = at.of(node.operands[0]);
            const Known& right = at.of(node.operands[1]);
            return binary({node, node.operands[0], node.operands[1]}, op, left, right);
          },
          {a, b}};
}

/// Returns a tensor of the term; a number becomes one of the stream's dtype.
inline Value tensor(Evaluation& at, const Term::Node& node, const Term& term, const Known& known) {
  if (known.tensor()) return known.laid();
  const Value& stream = at.join(node).stream;
  if (const double* number = known.number()) return constant_like(stream, *number);
  refuse(term, "expected one tensor, not a list: index it (out[0]), or use weighted(list, weights)");
}

/// Returns a tensor with all axes of the stream, which has channels and tokens to reduce over.
inline Value with_axes(Evaluation& at, const Term::Node& node, const Term& term, const Known& known) {
  if (known.number()) refuse(term, "expected a tensor, not a number");
  const Value x = tensor(at, node, term, known);
  if (x.dtype() == DType::i1) refuse_condition(term);
  const Join& join = at.join(node);
  const Ints own = x.shape(), whole = join.stream.shape();
  const std::size_t axis = detail::at(join.channel_axis);
  if (own.size() != whole.size() || (own[axis] == 1 && whole[axis] != 1))
    refuse(term, "expected a value with all channels, not one of the shape " + shape_text(own));
  return x;
}

inline Ints axes(const Join& join, Domain domain) {
  if (domain == Domain::channels) return {join.channel_axis};
  return domain == Domain::tokens ? join.token_axes() : join.axes_within_sample();
}

inline Known widened(const Known& known) {
  return each(known, [](const Known& one) -> Known {
    if (!one.tensor() || one.is_condition()) return one;
    return {at_least_f32(*one.tensor()), one.channels};
  });
}

/// A reduction of one term, or of the product of two.
inline Term reduce(std::string name, std::vector<Term> terms, std::optional<Domain> domain) {
  return {[name = std::move(name), domain](Evaluation& at, const Term::Node& node) {
            const Term& term = node.operands[0];
            const Known first = widened(at.of(term));
            const Operands operands{node, term, node.operands.back()};
            const Known operand = name == "dot"
                                      ? binary(operands, "mul", first, widened(at.of(node.operands[1])))
                                  : name == "norm" ? binary(operands, "mul", first, first)
                                                   : first;
            const Join& join = at.join(node);
            return each(operand, [&](const Known& one) -> Known {
              if (one.number()) refuse(term, name + " of a number: it has no axes");
              const Value x = tensor(at, node, term, one);
              if (x.dtype() == DType::i1) refuse(term, name + " of a condition: write (condition ? 1 : 0)");
              const bool has_axes = x.shape().size() == join.stream.shape().size();
              constexpr const char* kDomains[] = {"channels", "tokens", "sample"};
              if (!has_axes && domain)
                refuse(term, "a weight of the shape " + shape_text(x.shape()) + " has no " +
                                 kDomains[static_cast<std::size_t>(*domain)]);
              // A matrix of weights has neither channels nor tokens: it is reduced as a whole.
              const Ints over = has_axes ? axes(join, domain.value_or(Domain::channels)) : all_axes(x);
              if (name == "max") return {max(x, over)};
              if (name == "mean") return {mean(x, over)};
              const Value total = sum(x, over);
              return {name == "norm" ? sqrt(maximum(total, constant_like(total, kLeastSquare))) : total};
            });
          },
          std::move(terms)};
}

inline Known softmax_of_list(Evaluation& at, const Term::Node& node, const Known::List& logits) {
  std::vector<Value> values;
  Value largest;
  for (const Known& logit : logits) {
    values.push_back(at_least_f32(tensor(at, node, node.operands[0], logit)));
    largest = largest ? maximum(largest, values.back()) : values.back();
  }
  largest = stop_gradient(largest);
  Value total;
  for (Value& value : values) {
    value = exp(value - largest);
    total += value;
  }
  Known::List result;
  for (const Value& value : values) result.push_back({value / total});
  return {std::move(result)};
}

inline Value layer_norm(const Join& join, const Value& x, const std::vector<Value>& weight_and_bias,
                        double epsilon) {
  const ChannelsLast moved(join, std::ssize(x.shape()));
  std::vector<Value> operands = {moved.there(x)};
  for (const Value& weight : weight_and_bias) {
    const Value narrow = cast(weight, x.dtype());
    const Ints per_channel = {operands[0].shape().back()};
    operands.push_back(narrow.shape() == per_channel ? narrow : reshape(narrow, per_channel));
  }
  return moved.back(plugin::emit("layer_norm", operands, {{"epsilon", epsilon}}));
}

inline double epsilon_of(Evaluation& at, const Term& term) {
  const double epsilon = at.number(term, "epsilon");
  if (!(epsilon > 0 && epsilon < 1)) refuse(term, "epsilon is above 0 and below 1");
  return epsilon;
}

/// A name of the join: `of` gives its tensor or its number.
inline Term name(const char* text, unsigned reads, std::function<Known(Evaluation&, const Term::Node&)> of) {
  return Term(std::move(of), {}, reads).named(text);
}
inline Term fact(const char* text) {
  return name(text, Term::nothing,
              [text](Evaluation& at, const Term::Node&) { return Known{at.facts.at(text)}; });
}
inline Known list_of(const std::vector<Value>& values) {
  Known::List list;
  for (const Value& value : values) list.push_back({value});
  return {std::move(list)};
}
inline Term index_name(const char* text, double Evaluation::* index) {
  return name(text, Term::index_reads, [text, index](Evaluation& at, const Term::Node& node) {
    if (at.index < 0)
      refuse(node, std::string("'") + text + "' is an index in the initial value of a weight of [out]");
    return Known{at.*index};
  });
}

}  // namespace detail

inline double Evaluation::number(const Term& term, const std::string& what) {
  const Known& known = of(term);
  if (!known.number()) refuse(term, "expected a number for " + what + ", not " + detail::kind_of(known));
  return *known.number();
}

// --- Names ------------------------------------------------------------------------------------------------

// What a formula reads at a join; a file of formulas says `using namespace rewire::formula::names`.
namespace names {
inline constexpr Domain channels = Domain::channels, tokens = Domain::tokens, sample = Domain::sample;

/// The stream, the branch after drop path, and the branch's input.
inline const Term x = detail::name(
    "x", Term::tensors, [](Evaluation& at, const Term::Node& n) { return Known{at.join(n).stream}; });
inline const Term f = detail::name(
    "f", Term::tensors, [](Evaluation& at, const Term::Node& n) { return Known{at.join(n).branch}; });
inline const Term h = detail::name(
    "h", Term::tensors, [](Evaluation& at, const Term::Node& n) { return Known{at.join(n).input}; });
/// The embedding; where the stream has changed its shape since, the stream of the first join that has this shape.
inline const Term x0 = detail::name("x0", Term::tensors, [](Evaluation& at, const Term::Node& n) {
  return at.join(n), Known{at.out->front()};
});
/// Lists: the embedding and the sums of blocks so far; the embedding and the branches so far.
inline const Term out =
    detail::name("out", Term::tensors | Term::out_reads,
                 [](Evaluation& at, const Term::Node& n) { return at.join(n), detail::list_of(*at.out); });
inline const Term branches = detail::name(
    "branches", Term::tensors | Term::branches_reads,
    [](Evaluation& at, const Term::Node& n) { return at.join(n), detail::list_of(*at.branches); });
/// What the formula changes.
inline const Term it =
    detail::name("it", Term::tensors | Term::it_reads, [](Evaluation& at, const Term::Node& n) {
      if (!at.it)
        refuse(n, "'it' is what a formula changes: only change_..., input, norm_input and exit have it");
      return *at.it;
    });
/// Numbers: the join and their count, the block and their count, the number of channels.
inline const Term l = detail::fact("l"), L = detail::fact("L"), b = detail::fact("b"), B = detail::fact("B"),
                  d = detail::name("d", Term::nothing, [](Evaluation& at, const Term::Node& n) {
                    const Join& join = at.join(n);
                    return Known{static_cast<double>(join.stream.shape()[detail::at(join.channel_axis)])};
                  });
/// The index of a weight of a list, and the last one: numbers, in initial values alone.
inline const Term k = detail::index_name("k", &Evaluation::index),
                  K = detail::index_name("K", &Evaluation::last_index);
/// A condition: true in a training step.
inline const Term training = detail::name("training", Term::tensors, [](Evaluation& at, const Term::Node& n) {
  return Known{at.join(n).is_training()};
});
/// The share of the run that is done, from 0 to below 1.
inline const Term progress = detail::name("progress", Term::tensors, [](Evaluation& at, const Term::Node& n) {
  const Join& join = at.join(n);
  return Known{cast(join.progress(), at_least_f32(join.stream).dtype())};
});

}  // namespace names

// --- Operators and functions ------------------------------------------------------------------------------

/// Returns terms[0] ops[1] terms[1] ops[2] terms[2] ..., from left to right. All operators are + and -, or * and /.
inline Term chain(std::string ops, std::vector<Term> terms) {
  return {[ops = std::move(ops)](Evaluation& at, const Term::Node& node) {
            Known result = at.of(node.operands[0]);
            for (std::size_t i = 1; i < node.operands.size(); ++i) {
              const char* op = ops[i] == '+' ? "add" : ops[i] == '-' ? "sub" : ops[i] == '*' ? "mul" : "div";
              const Known& next = at.of(node.operands[i]);
              result = detail::binary({node, node.operands[i - 1], node.operands[i]}, op, result, next);
            }
            return result;
          },
          std::move(terms)};
}

// clang-format off
inline Term operator-(const Term& a) { return detail::unary("neg", a); }
inline Term operator+(const Term& a, const Term& b) { return chain("++", {a, b}); }
inline Term operator-(const Term& a, const Term& b) { return chain("+-", {a, b}); }
inline Term operator*(const Term& a, const Term& b) { return chain("**", {a, b}); }
inline Term operator/(const Term& a, const Term& b) { return chain("*/", {a, b}); }
// Comparisons are conditions for choose().
inline Term operator<(const Term& a, const Term& b) { return detail::binary("lt", a, b); }
inline Term operator<=(const Term& a, const Term& b) { return detail::binary("le", a, b); }
inline Term operator>(const Term& a, const Term& b) { return detail::binary("gt", a, b); }
inline Term operator>=(const Term& a, const Term& b) { return detail::binary("ge", a, b); }
inline Term operator==(const Term& a, const Term& b) { return detail::binary("eq", a, b); }
inline Term operator!=(const Term& a, const Term& b) { return detail::binary("ne", a, b); }
inline Term maximum(const Term& a, const Term& b) { return detail::binary("maximum", a, b); }
inline Term minimum(const Term& a, const Term& b) { return detail::binary("minimum", a, b); }

inline Term abs(const Term& a) { return detail::unary("abs", a); }
inline Term cos(const Term& a) { return detail::unary("cos", a); }
inline Term erf(const Term& a) { return detail::unary("erf", a); }
inline Term exp(const Term& a) { return detail::unary("exp", a); }
inline Term floor(const Term& a) { return detail::unary("floor", a); }
inline Term gelu(const Term& a) { return detail::unary("gelu", a); }
inline Term log(const Term& a) { return detail::unary("log", a); }
inline Term relu(const Term& a) { return detail::unary("relu", a); }
inline Term rsqrt(const Term& a) { return detail::unary("rsqrt", a); }
inline Term sigmoid(const Term& a) { return detail::unary("sigmoid", a); }
inline Term silu(const Term& a) { return detail::unary("silu", a); }
inline Term sin(const Term& a) { return detail::unary("sin", a); }
inline Term sqrt(const Term& a) { return detail::unary("sqrt", a); }
inline Term stop_gradient(const Term& a) { return detail::unary("stop_gradient", a); }
inline Term tanh(const Term& a) { return detail::unary("tanh", a); }

// Reductions, over the channels unless a domain is given.
inline Term sum(const Term& a, std::optional<Domain> over = {}) { return detail::reduce("sum", {a}, over); }
inline Term mean(const Term& a, std::optional<Domain> over = {}) { return detail::reduce("mean", {a}, over); }
inline Term max(const Term& a, std::optional<Domain> over = {}) { return detail::reduce("max", {a}, over); }
/// The sum of a * b.
inline Term dot(const Term& a, const Term& b, std::optional<Domain> over = {}) { return detail::reduce("dot", {a, b}, over); }
/// The square root of the sum of squares. Its gradient at 0 is 0.
inline Term norm(const Term& a, std::optional<Domain> over = {}) { return detail::reduce("norm", {a}, over); }
// clang-format on

/// Names an expression. Before it is evaluated, those that it reads are, in the order in which they were named. So a
/// long chain of names nests no calls.
inline Term let(const Term& term) {
  static std::atomic<std::size_t> last = 0;
  std::map<std::size_t, Term> earlier;  // by number
  std::set<const Term::Node*> seen;
  for (std::vector<Term> pending = {term}; !pending.empty();) {
    const Term one = pending.back();
    pending.pop_back();
    const Term::Node& node = one.node();
    if (!seen.insert(&node).second) continue;
    if (node.let == 0) {
      pending.insert(pending.end(), node.operands.begin(), node.operands.end());
      continue;
    }
    for (const Term& other : node.earlier) earlier.emplace(other.node().let, other);
    earlier.emplace(node.let, one);
  }
  Term named(
      [](Evaluation& at, const Term::Node& node) {
        for (const Term& other : node.earlier) at.of(other);
        return at.of(node.operands[0]);
      },
      {term});
  named.shared()->let = ++last;
  for (const auto& [number, other] : earlier) named.shared()->earlier.push_back(other);
  return named;
}

/// Returns base ^ exponent.
inline Term pow(const Term& base, const Term& exponent) {
  return {[](Evaluation& at, const Term::Node& node) {
            const Term& of = node.operands[0];
            const Known& power_of = at.of(of);
            const Known& power = at.of(node.operands[1]);
            if (power_of.tensor() && power.number() && *power.number() == 2)
              return detail::binary({node, of, of}, "mul", power_of, power_of);
            return detail::binary({node, of, node.operands[1]}, "pow", power_of, power);
          },
          {base, exponent}};
}

/// Returns `yes` where the condition holds, else `no`. If the condition is of numbers, only one is evaluated.
inline Term choose(const Term& condition, const Term& yes, const Term& no) {
  Term result(
      [](Evaluation& at, const Term::Node& node) -> Known {
        const Known& test = at.of(node.operands[0]);
        if (const double* number = test.number()) return at.of(node.operands[*number != 0 ? 1 : 2]);
        if (const Known::Numbers* numbers = test.numbers()) {
          Known::Numbers chosen = *numbers;
          const Known &left = at.of(node.operands[1]), &right = at.of(node.operands[2]);
          for (std::size_t i = 0; i < chosen.size(); ++i) {
            const Known& from = chosen[i] != 0 ? left : right;
            chosen[i] = from.numbers() ? (*from.numbers())[i] : *from.number();
          }
          return {std::move(chosen)};
        }
        if (!test.is_condition()) refuse(node.operands[0], "expected a comparison or 'training' before '?'");
        const Known &left_of = at.of(node.operands[1]), &right_of = at.of(node.operands[2]);
        if (left_of.list() || right_of.list())
          refuse(node, "'?' chooses between numbers or tensors, not lists");
        const Value mask = test.laid();
        const Value left = left_of.tensor()
                               ? left_of.laid()
                               : constant_like(right_of.tensor() ? *right_of.tensor() : at.join(node).stream,
                                               *left_of.number());
        const Value right = right_of.tensor() ? right_of.laid() : constant_like(left, *right_of.number());
        using detail::fit;
        if (!fit(left.shape(), right.shape()) || !fit(mask.shape(), left.shape()) ||
            !fit(mask.shape(), right.shape()))
          refuse(node, "the condition has the shape " + detail::shape_text(mask.shape()) + ", its values " +
                           detail::shape_text(left.shape()) + " and " + detail::shape_text(right.shape()) +
                           ": they do not fit");
        if (left.dtype() == DType::i1) detail::refuse_condition(node.operands[1]);
        if (right.dtype() == DType::i1) detail::refuse_condition(node.operands[2]);
        const DType dtype = detail::wider(left.dtype(), right.dtype());
        const Value wide_left = cast(left, dtype), wide_right = cast(right, dtype);
        return {select(mask, wide_left, wide_right)};
      },
      {condition, yes, no});
  result.shared()->chooses = true;
  return result;
}

inline Term Term::operator[](const Term& index) const {
  return {[](Evaluation& at, const Node& node) -> Known {
            const Known& all = at.of(node.operands[0]);
            if (!all.list())
              refuse(node, "'" + node.operands[0].node().name +
                               "' is not a list: only out, branches and weights of [out] have an index");
            const Known::List& list = *all.list();
            const double given = at.number(node.operands[1], "the index");
            const double place = given < 0 ? given + static_cast<double>(list.size()) : given;
            if (place != std::floor(place) || place < 0 || place >= static_cast<double>(list.size())) {
              char text[32];
              std::snprintf(text, sizeof(text), "%g", given);
              refuse(node.operands[1], std::string("the index is ") + text + ", and the list has " +
                                           std::to_string(list.size()) +
                                           (list.size() == 1 ? " term" : " terms") +
                                           " here: from 0, or from -1 backwards");
            }
            return list[static_cast<std::size_t>(place)];
          },
          {*this, index}};
}

/// Returns the softmax over the channels, or over the domain; of a list, over its terms.
inline Term softmax(const Term& logits, std::optional<Domain> over = {}) {
  return {[over](Evaluation& at, const Term::Node& node) -> Known {
            const Term& term = node.operands[0];
            const Known& known = at.of(term);
            if (known.list() && over)
              refuse(node, "softmax of a list is over its terms: it has no further word");
            if (known.list()) return detail::softmax_of_list(at, node, *known.list());
            const Value wide = at_least_f32(detail::with_axes(at, node, term, known));
            const Ints axes = detail::axes(at.join(node), over.value_or(Domain::channels));
            if (axes.size() == 1) return {plugin::softmax(wide, axes[0])};
            const Value scaled = plugin::exp(wide - plugin::stop_gradient(plugin::max(wide, axes)));
            return {scaled / plugin::sum(scaled, axes)};
          },
          {logits}};
}

/// Returns the sum of list[i] * weights[i].
inline Term weighted(const Term& list, const Term& weights) {
  return {[](Evaluation& at, const Term::Node& node) {
            const Known& terms = at.of(node.operands[0]);
            const Known& factors = at.of(node.operands[1]);
            if (!terms.list() || !factors.list())
              refuse(node, "expected weighted(list, weights), two lists such as out and a weight of [out]");
            if (terms.list()->size() != factors.list()->size())
              refuse(node, "lists of " + std::to_string(terms.list()->size()) + " and " +
                               std::to_string(factors.list()->size()) + " terms do not fit");
            const detail::Operands operands{node, node.operands[1], node.operands[0]};
            Known total;
            for (std::size_t i = 0; i < terms.list()->size(); ++i) {
              const Known product = detail::binary(operands, "mul", detail::widened((*factors.list())[i]),
                                                   detail::widened((*terms.list())[i]));
              total = i == 0 ? product : detail::binary(operands, "add", total, product);
            }
            return total;
          },
          {list, weights}};
}

/// Returns x / sqrt(mean(x^2) + epsilon), over the channels.
inline Term rms_norm(const Term& a, const Term& epsilon = detail::kNormEpsilon) {
  return {[](Evaluation& at, const Term::Node& node) {
            const Known known = at.of(node.operands[0]);
            const double small = detail::epsilon_of(at, node.operands[1]);
            return detail::each(known, [&](const Known& one) -> Known {
              const Value wide = at_least_f32(detail::with_axes(at, node, node.operands[0], one));
              return {wide * plugin::rsqrt(plugin::mean(wide * wide, {at.join(node).channel_axis}) + small)};
            });
          },
          {a, epsilon}};
}

namespace detail {
inline Term layer_norm_of(std::vector<Term> operands) {
  return {[](Evaluation& at, const Term::Node& node) {
            std::vector<Known> known;
            for (const Term& operand : node.operands) known.push_back(at.of(operand));
            const double epsilon = epsilon_of(at, node.operands.back());
            const Join& join = at.join(node);
            std::vector<Value> weights;
            for (std::size_t i = 1; i + 1 < known.size(); ++i) {
              const Value* weight = known[i].tensor();
              if (!weight || elements(weight->shape()) != elements(join.channel_shape()))
                refuse(node.operands[i], "expected a weight of [channels]");
              weights.push_back(*weight);
            }
            return each(known[0], [&](const Known& one) -> Known {
              return {layer_norm(join, with_axes(at, node, node.operands[0], one), weights, epsilon)};
            });
          },
          std::move(operands)};
}
}  // namespace detail

/// Returns (x - mean) / sqrt(variance + epsilon) over the channels, by themselves or times a weight and plus a bias.
inline Term layer_norm(const Term& a, const Term& epsilon = detail::kNormEpsilon) {
  return detail::layer_norm_of({a, epsilon});
}
inline Term layer_norm(const Term& a, const Term& weight, const Term& bias,
                       const Term& epsilon = detail::kNormEpsilon) {
  return detail::layer_norm_of({a, weight, bias, epsilon});
}

/// Applies the branch's own layer norm, with its weights, to another tensor.
inline Term branch_norm(const Term& a) {
  return {[](Evaluation& at, const Term::Node& node) -> Known {
            const Join& join = at.join(node);
            std::vector<Value> weights(2);
            std::size_t count = 0;
            for (const Weight& weight : join.weights("norm")) {
              weights[weight.name.ends_with(".bias") ? 1 : 0] = join.weight_value(weight.name);
              ++count;
            }
            const bool bare = count == 0 && join.has("norm_input");
            bool has_statistics = false;
            for (const Weight& weight : join.weights())
              has_statistics |= weight.name.ends_with("running_mean");
            if ((!bare && (count != 2 || !weights[0] || !weights[1])) || has_statistics)
              refuse(node, "the branch of " + join.name + " does not have one layer norm: use layer_norm(x)");
            const Known& known = at.of(node.operands[0]);
            return {detail::layer_norm(join, detail::with_axes(at, node, node.operands[0], known),
                                       bare ? std::vector<Value>{} : weights, detail::kNormEpsilon)};
          },
          {a}};
}

/// Returns the product of x over its channels and a weight of [in, out].
inline Term matmul(const Term& a, const Term& weight) {
  return {[](Evaluation& at, const Term::Node& node) -> Known {
            const Known& left = at.of(node.operands[0]);
            const Known& right = at.of(node.operands[1]);
            const Value *of = left.tensor(), *w = right.tensor();
            if (!of || !w || w->shape().size() != 2 || of->shape().size() < 3)
              refuse(node, "expected matmul(x, w) of a tensor and a weight of [in, out]");
            const Join& join = at.join(node);
            const std::int64_t in = of->shape()[detail::at(join.channel_axis)];
            if (in != w->shape()[0])
              refuse(node, "the tensor has " + std::to_string(in) + " channels, the weight is " +
                               detail::shape_text(w->shape()) + ": they do not fit");
            const ChannelsLast moved(join, std::ssize(of->shape()));
            const DType dtype = detail::wider(of->dtype(), w->dtype());
            const Value rows = moved.there(cast(*of, dtype)), columns = cast(*w, dtype);
            return {moved.back(plugin::matmul(rows, columns))};
          },
          {a, weight}};
}

/// Returns what `ops` makes of the operands, tensors at the join: any ops of rewire_plugin.hpp.
inline Term custom(std::vector<Term> operands,
                   std::function<Value(const Join& join, const std::vector<Value>& operands)> ops) {
  return {[ops = std::move(ops)](Evaluation& at, const Term::Node& node) -> Known {
            std::vector<Value> values;
            for (const Term& operand : node.operands)
              values.push_back(detail::tensor(at, node, operand, at.of(operand)));
            return {ops(at.join(node), values)};
          },
          std::move(operands), Term::tensors};
}

/// For which elements random numbers are drawn anew, and whether the joins of a block share them.
struct Draw {
  std::optional<Domain> each = {};  // none: one number for the batch
  bool per_block = false;
};

namespace detail {
inline Ints drawn_shape(const Join& join, const std::optional<Domain>& domain) {
  const Ints whole = join.stream.shape();
  Ints shape(whole.size(), 1);
  if (!domain) return shape;
  shape[at(join.batch_axis)] = whole[at(join.batch_axis)];
  if (*domain != Domain::sample)
    for (const std::int64_t axis : axes(join, *domain)) shape[at(axis)] = whole[at(axis)];
  return shape;
}
/// Returns a number for each element of a weight.
inline Known drawn(Evaluation& at, const Term::Node& node, const std::string& stream, const Draw& draw,
                   bool normal) {
  if (draw.each || draw.per_block) refuse(node, "a draw for a weight's numbers has no further word");
  return {at.drawn(stream, normal)};
}
/// Returns uniform numbers in the stream's type, or f32 if that is narrower.
inline Value uniform(Evaluation& at, const Join& join, const std::string& stream, const Draw& draw,
                     int which) {
  const Value u = at.uniform(stream, drawn_shape(join, draw.each), draw.per_block, which);
  return cast(u, wider(u.dtype(), join.stream.dtype()));
}
}  // namespace detail

// Random numbers, new in every step. Each join, plugin and `stream` ([a-z][a-z0-9_]*) has numbers of its own.
/// Returns uniform numbers in [0, 1).
inline Term uniform(const std::string& stream, const Draw& draw = {}) {
  return {[stream, draw](Evaluation& at, const Term::Node& node) -> Known {
            if (!at.at) return detail::drawn(at, node, stream, draw, false);
            return {detail::uniform(at, *at.at, stream, draw, 0)};
          },
          {},
          Term::tensors};
}
/// Returns normal numbers with mean 0 and standard deviation 1.
inline Term normal(const std::string& stream, const Draw& draw = {}) {
  return {[stream, draw](Evaluation& at, const Term::Node& node) -> Known {
            if (!at.at) return detail::drawn(at, node, stream, draw, true);
            const Value u = detail::uniform(at, *at.at, stream, draw, 0);
            const Value v = detail::uniform(at, *at.at, stream, draw, 1);
            // Box and Muller; 1 - u is never 0.
            const Value radius = plugin::sqrt(-2.0 * plugin::log(1.0 - u));
            return {radius * plugin::emit("cos", {2 * std::numbers::pi * v})};
          },
          {},
          Term::tensors};
}
/// Returns 0 with probability p, else 1 / (1 - p); 1 outside training. It is drawn for each sample, as drop path is.
inline Term drop(const std::string& stream, const Term& p, const Draw& draw = {Domain::sample}) {
  return {[stream, draw](Evaluation& at, const Term::Node& node) -> Known {
            const Join& join = at.join(node);
            const Value u = detail::uniform(at, join, stream,
                                            {draw.each ? draw.each : Domain::sample, draw.per_block}, 0);
            const double rate = at.number(node.operands[0], "the probability");
            if (!(rate >= 0 && rate < 1))
              refuse(node.operands[0], "a probability of drop is at least 0 and below 1");
            // A statement for each op: compilers evaluate arguments in different orders.
            const Value stays = plugin::compare("ge", u, constant_like(u, rate));
            const Value scale = constant_like(u, 1 / (1 - rate)), zero = constant_like(u, 0);
            const Value kept = select(stays, scale, zero);
            const Value trains = join.is_training(), one = constant_like(u, 1);
            return {select(trains, kept, one)};
          },
          {p},
          Term::tensors};
}

// --- Formulas of a strategy -------------------------------------------------------------------------------

/// The shape of a weight.
struct Shape {
  enum class Kind { extents, channels, out, branches };
  Kind kind = Kind::extents;
  std::vector<Term> extents =
      {};  // none: one number; [d]: one number per channel, which lies along the channels

  Shape() = default;
  Shape(Kind k, std::vector<Term> of = {}) : kind(k), extents(std::move(of)) {}  // NOLINT
  Shape(std::initializer_list<Term> of) : extents(of) {}
  /// One number per channel, in the shape [1, 1, D] or [1, C, 1, 1].
  static Shape channels() { return Kind::channels; }
  // A list of weights of one number, one for each term of `out` or `branches`.
  static Shape out() { return Kind::out; }
  static Shape branches() { return Kind::branches; }
  bool is_list() const { return kind == Kind::out || kind == Kind::branches; }
};

/// The initial value of a weight: a formula of numbers, or a draw.
struct Start {
  enum class Kind { number, normal, trunc_normal, uniform, xavier };
  Kind kind = Kind::number;
  Term first = 0.0, second = 0.0;
  const void* origin = nullptr;

  Start(Term number) : first(std::move(number)) {}  // NOLINT
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Start(Number number) : first(number) {}  // NOLINT
  Start(Kind k, Term a, Term c, const void* place = nullptr)
      : kind(k), first(std::move(a)), second(std::move(c)), origin(place) {}
  static Start normal(Term std) { return {Kind::normal, std::move(std), 0.0}; }
  /// The cut is in the weight's units, not in deviations.
  static Start trunc_normal(Term std, Term cut) {
    return {Kind::trunc_normal, std::move(std), std::move(cut)};
  }
  static Start uniform(Term low, Term high) { return {Kind::uniform, std::move(low), std::move(high)}; }
  static Start xavier() { return {Kind::xavier, 0.0, 0.0}; }
};

/// How a weight trains. Without a group, matrices decay and other weights do not.
struct Training {
  std::optional<Group> group = {};
  bool per_block = false;  // the joins of a block share the weight
  std::optional<Term> lr_scale = {}, weight_decay = {}, beta1 = {}, beta2 = {};
};

/// The joins whose formulas apply.
enum class Joins { all, ends_of_blocks, last };

/// What a strategy computes at each join. An empty part stays as it is.
class Formulas {
 public:
  // The branch's norm and the branch read these instead; `it` is what they read.
  std::optional<Term> norm_input = {}, input = {};
  std::optional<Term> shortcut = {}, branch = {}, sum = {};
  // `it` is the part as earlier plugins have made it.
  std::optional<Term> change_shortcut = {}, change_branch = {}, change_sum = {};
  /// The sum of the network's last join, instead of the other parts; with `it`, after them.
  std::optional<Term> exit = {};
  Joins at = Joins::all;

  /// Adds a weight. A join whose formulas read it has one, or each block, or each term of a list.
  Term weight(std::string name, Shape shape, Start start, Training training = {}) {
    if (shape.is_list() && training.per_block)
      throw plugin::Error("the weight '" + name +
                          "' is a list: it belongs to one join and cannot be per_block");
    Term term(
        [](Evaluation& evaluation, const Term::Node& node) {
          evaluation.join(node);
          if (node.owner != evaluation.owner)
            refuse(node, "'" + node.name + "' is a weight of other Formulas");
          return evaluation.weight(node.weight);
        },
        {}, Term::tensors);
    term.shared()->weight = weights_.size();
    term.shared()->owner = identity_;
    weights_.push_back({name, std::move(shape), std::move(start), std::move(training)});
    return term.named(std::move(name));
  }
  /// Adds a number to metrics.jsonl: the term's mean over all elements.
  void report(std::string name, Term term) { reports_.push_back({std::move(name), std::move(term)}); }
  /// Sets a weight after each step of the optimizer to a formula of itself, frozen weights, numbers and progress.
  void after(std::string weight, Term term) { afters_.push_back({std::move(weight), std::move(term)}); }
  /// Sets the initial values of the branch's own weights of a role; "last": those of its last layer. `it` is a weight's
  /// numbers as they are.
  void init(std::string role, Term term, const void* origin = nullptr) {
    inits_.push_back({std::move(role), std::move(term), origin});
  }

  /// Rewrites the joins. Throws Error if a formula means nothing at one of them.
  void apply(const Rewrite& call) const;
  /// Sets the initial values that `init` has.
  void apply(const Initialise& call) const;

 private:
  friend class Writer;
  struct NewWeight {
    std::string name;
    Shape shape;
    Start start;
    Training training;
  };
  struct Named {
    std::string name;
    Term term;
    const void* origin = nullptr;
  };
  std::shared_ptr<const int> identity_ = std::make_shared<int>(0);  // copies have the same weights
  std::vector<NewWeight> weights_;
  std::vector<Named> reports_, afters_, inits_;
};

/// Applies formulas to the joins, one after the other.
class Writer {
 public:
  Writer(const Formulas& formulas, const Rewrite& call)
      : formulas_(formulas), call_(call), joins_(call.joins()) {
    evaluation_.weight = [this](std::size_t index) { return weight(index); };
    evaluation_.uniform = [this](const std::string& stream, const Ints& shape, bool per_block, int which) {
      const std::string name = stream + "_" + std::to_string(which);
      Value& drawn = draws_[(per_block ? block_name() : std::to_string(place_) + ".") + name +
                            detail::shape_text(shape)];
      if (!drawn) drawn = join().rng_stream(name.c_str(), {DType::f32, shape});
      return drawn;
    };
    evaluation_.owner = formulas_.identity_;
    evaluation_.out = &out_;
    evaluation_.branches = &branches_;
    for (const auto& weight : formulas_.weights_) reads_out_ |= weight.shape.kind == Shape::Kind::out;
    unsigned reads = 0;
    for (const std::optional<Term>* part : parts())
      if (*part) reads |= (*part)->node().reads;
    for (const auto* named : {&formulas_.reports_, &formulas_.afters_})
      for (const auto& one : *named) reads |= one.term.node().reads;
    reads_out_ |= (reads & Term::out_reads) != 0;
    reads_before_ = reads_out_ || (reads & Term::branches_reads) != 0;
  }

  void write() {
    check_init();
    for (const auto& after : formulas_.afters_) {
      const auto weight = std::ranges::find(formulas_.weights_, after.name, &Formulas::NewWeight::name);
      if (weight == formulas_.weights_.end() || weight->shape.is_list())
        throw plugin::Error("after sets '" + after.name +
                            "', which is no weight of one shape of these formulas");
    }
    for (place_ = 0; place_ < joins_.size(); ++place_) {
      try {
        write_join();
      } catch (const TermError& error) {
        if (place_ == 0) throw;
        // The formula fits the earlier joins, so the message names this one.
        throw TermError(error.origin, std::string(error.what()) + " (at " + join().name + ")");
      }
    }
    bool leaves_out = false;
    for (std::size_t i = 0; i < joins_.size(); ++i) {
      const bool follows = i > 0 && joins_[i].scope == joins_[i - 1].scope;
      leaves_out |= joins_[i].join_index != (follows ? joins_[i - 1].join_index + 1 : 0);
    }
    if (leaves_out && reads_before_)
      call_.log(REWIRE_LOG_WARNING, "out and branches hold the joins that the filters chose, and no others");
  }

 private:
  const Join& join() const { return joins_[place_]; }
  // A chain is one scope and one type of stream: its joins know what the earlier ones computed.
  bool ends_chain() const {
    return place_ + 1 == joins_.size() || joins_[place_ + 1].scope != join().scope ||
           joins_[place_ + 1].stream.type() != join().stream.type();
  }
  bool begins_chain() const {
    return place_ == 0 || joins_[place_ - 1].scope != join().scope ||
           joins_[place_ - 1].stream.type() != join().stream.type();
  }
  bool ends_block() const { return ends_chain() || joins_[place_ + 1].block != join().block; }
  std::string block_name() const { return join().scope + "." + std::to_string(join().block) + "."; }
  std::vector<const std::optional<Term>*> parts() const {
    return {&formulas_.norm_input,    &formulas_.input,      &formulas_.shortcut,
            &formulas_.branch,        &formulas_.sum,        &formulas_.change_shortcut,
            &formulas_.change_branch, &formulas_.change_sum, &formulas_.exit};
  }

  /// Each name of init is a role of a weight, or last, at one join at least, and its formula can be computed.
  void check_init() const {
    std::vector<std::string> roles = {"last"};
    for (const Join& join : joins_)
      for (const Weight& weight : join.weights())
        if (std::ranges::find(roles, weight.role) == roles.end()) roles.push_back(weight.role);
    for (const auto& init : formulas_.inits_) {
      if (std::ranges::find(roles, init.name) == roles.end()) {
        std::string all;
        for (const std::string& role : roles) all += (all.empty() ? "" : ", ") + role;
        throw TermError(init.origin,
                        "no branch has a weight with the role '" + init.name + "'; there are " + all);
      }
      if (joins_.empty()) continue;
      Evaluation evaluation;
      evaluation.facts = facts(joins_[0]);
      evaluation.it = Known{Known::Numbers{0}};
      evaluation.drawn = [](const std::string&, bool) { return Known::Numbers{0}; };
      evaluation.of(init.term);
    }
  }

  void write_join() {
    const Join& join = this->join();
    weights_.clear();
    evaluation_.clear();
    evaluation_.at = &join;
    evaluation_.facts = facts(join);
    if (begins_chain()) {
      // Where the stream has changed its shape, the chain begins with the stream of the first join of this shape.
      const Value entry = join.has("entry") ? join.value("entry") : join.stream;
      out_ = branches_ = {entry.type() == join.stream.type() ? entry : join.stream};
    }
    const bool chosen = formulas_.at == Joins::all ||
                        (formulas_.at == Joins::ends_of_blocks && ends_block()) ||
                        (formulas_.at == Joins::last && ends_chain());
    if (chosen) {
      replace_input("norm_input", formulas_.norm_input);
      replace_input("input", formulas_.input);
    }
    branches_.push_back(join.branch);
    if (ends_block() && reads_out_) out_.push_back(join.sum());
    evaluation_.forget();
    if (!chosen) return;
    write_parts();
    for (const auto& report : formulas_.reports_) join.report(report.name, as_scalar(report.term));
    for (const auto& after : formulas_.afters_) write_after(after);
  }

  static std::map<std::string, double> facts(const Join& join) {
    return {{"l", join.join_index}, {"L", join.join_count}, {"b", join.block}, {"B", join.block_count}};
  }
  friend class Formulas;

  void replace_input(const char* role, const std::optional<Term>& part) {
    if (!part) return;
    // A formula of the outputs before has nothing to read at the first join.
    if (branches_.size() == 1 && (part->node().reads & (Term::out_reads | Term::branches_reads)) != 0) return;
    if (!join().has(role))
      throw plugin::Error(join().name + " has no '" + role +
                          "' that a formula could replace; leave it out by sites=, layers= or stages=");
    add_weights({&part});
    join().replace(role, changed(*part, join().value(role)));
    evaluation_.it.reset();
    evaluation_.forget();
  }

  void write_parts() {
    const Join& join = this->join();
    const std::optional<Term> none;
    const std::optional<Term>& exit = ends_chain() ? formulas_.exit : none;
    if (exit && (exit->node().reads & Term::it_reads) == 0) {
      add_weights({&exit});
      join.set_sum(as_stream(*exit));
      return;
    }
    add_weights({&formulas_.shortcut, &formulas_.branch, &formulas_.sum, &formulas_.change_shortcut,
                 &formulas_.change_branch, &formulas_.change_sum});
    if (formulas_.shortcut) join.set_shortcut(as_stream(*formulas_.shortcut));
    if (formulas_.branch) join.set_branch(as_stream(*formulas_.branch));
    if (formulas_.sum) join.set_sum(as_stream(*formulas_.sum));
    // Later joins read the sum as it is now; only what changes it below is not in it.
    if (ends_block() && reads_out_) {
      out_.back() = join.sum();
      evaluation_.forget();
    }
    if (formulas_.change_shortcut) join.change_shortcut(changed(*formulas_.change_shortcut, join.shortcut()));
    if (formulas_.change_branch) join.change_branch(changed(*formulas_.change_branch, join.branch_slot()));
    if (formulas_.change_sum) join.change_sum(changed(*formulas_.change_sum, join.sum()));
    if (exit) {
      add_weights({&exit});
      join.change_sum(changed(*exit, join.sum()));
    }
    evaluation_.it.reset();  // what reads it keeps its last value, for reports
  }

  /// Evaluates a formula of what it changes.
  Value changed(const Term& term, const Value& current) {
    evaluation_.it = Known{current};
    evaluation_.forget();
    return as_stream(term);
  }

  /// Adds the weights that these formulas read here, in the order of the list, before any of their ops.
  void add_weights(std::vector<const std::optional<Term>*> formulas) {
    std::vector<bool> wanted(formulas_.weights_.size());
    std::vector<Term> pending;
    std::map<const Term::Node*, bool> seen;
    for (const std::optional<Term>* formula : formulas)
      if (*formula) pending.push_back(**formula);
    while (!pending.empty()) {
      const Term term = std::move(pending.back());
      pending.pop_back();
      const Term::Node& node = term.node();
      if (!std::exchange(seen[&node], true) && node.weight != Term::kNone && node.owner == evaluation_.owner)
        wanted[node.weight] = true;
      if (node.chooses && (node.operands[0].node().reads & (Term::tensors | Term::index_reads)) == 0) {
        const double* number = evaluation_.of(node.operands[0]).number();
        pending.push_back(node.operands[number && *number != 0 ? 1 : 2]);
        continue;
      }
      for (const Term& operand : node.operands)
        if (!seen.contains(&operand.node())) pending.push_back(operand);
    }
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) weight(i);
  }

  Value as_stream(const Term& term) {
    const Known& known = evaluation_.of(term);
    const Type type = join().stream.type();
    if (const double* number = known.number()) return join().constant(*number, type);
    Value value = detail::tensor(evaluation_, term.node(), term, known);
    if (value.dtype() == DType::i1)
      refuse(term, "a condition is not a value of the stream: write (condition ? a : b)");
    value = cast(value, type.dtype);
    Ints shape = value.shape();
    if (shape == type.shape) return value;
    if (!detail::fit(shape, type.shape) || shape.size() > type.shape.size())
      refuse(term, "the formula has the shape " + detail::shape_text(shape) + ", the stream " +
                       detail::shape_text(type.shape) + ": they do not fit");
    shape.insert(shape.begin(), type.shape.size() - shape.size(), 1);
    return plugin::emit("broadcast", {reshape(value, shape)}, {}, type);
  }

  Value as_scalar(const Term& term) {
    const Known& known = evaluation_.of(term);
    if (const double* number = known.number()) return join().constant(*number, {DType::f32, {}});
    return plugin::mean(cast(detail::tensor(evaluation_, term.node(), term, known), DType::f32));
  }

  void write_after(const Formulas::Named& after) {
    const auto added = added_.find(after.name);
    // A weight of the block is set at the join that added it.
    if (added == added_.end() || added->second.place != place_) return;
    // The weights as they are stored, not in the stream's type: a step may be smaller than bf16 can hold.
    Evaluation stored;
    stored.at = &join();
    stored.facts = evaluation_.facts;
    stored.owner = evaluation_.owner;
    stored.out = &out_;
    stored.branches = &branches_;
    stored.uniform = evaluation_.uniform;
    stored.weight = [this](std::size_t index) {
      const Known here = weight(index);
      return here.list() ? here : added_.at(formulas_.weights_[index].name).stored;
    };
    const Known& known = stored.of(after.term);
    if (!known.tensor()) refuse(after.term, "expected a tensor for the weight, not a list or a number");
    if (known.is_condition()) detail::refuse_condition(after.term);
    const Type type = added->second.stored.tensor()->type();
    Value value = cast(*known.tensor(), type.dtype);
    if (value.shape() != type.shape) {
      if (detail::elements(value.shape()) != detail::elements(type.shape))
        refuse(after.term, "the value and '" + after.name + "' differ in size");
      value = reshape(value, type.shape);
    }
    join().after_step(after.name, value);
  }

  // --- weights

  Known weight(std::size_t index) {
    if (const auto known = weights_.find(index); known != weights_.end()) return known->second;
    const Formulas::NewWeight& weight = formulas_.weights_[index];
    const std::string shared = block_name() + weight.name;
    Known known;
    if (weight.shape.is_list()) {
      known = list_of_weights(weight);
    } else if (const auto found = block_weights_.find(shared);
               weight.training.per_block && found != block_weights_.end()) {
      known = found->second;
    } else {
      const Value stored = add(weight.name, extents(weight), weight, evaluation_);
      // One axis with a number for each channel, as [d]. A weight of [channels] has the other axes, too.
      const bool per_channel = stored.shape().size() == 1 && stored.shape()[0] != 1;
      const Ints lies = per_channel ? join().channel_shape() : Ints{};
      added_[weight.name] = {place_, {stored, lies}};
      known = {cast(stored, join().stream.dtype()), lies};
      if (weight.training.per_block) block_weights_[shared] = known;
    }
    return weights_[index] = known;
  }

  Known list_of_weights(const Formulas::NewWeight& weight) {
    const std::vector<Value>& list = weight.shape.kind == Shape::Kind::out ? out_ : branches_;
    Evaluation numbers = evaluation_;  // k is another number for each
    numbers.last_index = static_cast<double>(list.size()) - 1;
    Known::List all;
    for (std::size_t i = 0; i < list.size(); ++i) {
      numbers.index = static_cast<double>(i);
      numbers.forget(Term::index_reads);
      const Value stored = add(weight.name + "_" + std::to_string(i), {1}, weight, numbers);
      all.push_back({cast(stored, join().stream.dtype())});
    }
    return {std::move(all)};
  }

  Value add(const std::string& name, const Ints& shape, const Formulas::NewWeight& weight,
            Evaluation& numbers) {
    const Training& training = weight.training;
    const Group group = training.group ? *training.group : shape.size() == 2 ? Group::decay : Group::no_decay;
    const DType kept = join().stream.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Value value =
        join().add_weight(name, Type{kept, shape}, initial(weight.start, shape, numbers), group);
    plugin::WeightHint hint;
    const auto give = [&](const char* option, const std::optional<Term>& term, std::optional<double>& to,
                          auto fits, const char* range) {
      if (!term) return;
      to = numbers.number(*term, option);
      if (!std::isfinite(*to) || !fits(*to)) refuse(*term, std::string(option) + " is " + range);
    };
    const auto is_beta = [](double n) { return n >= 0 && n < 1; };
    give("lr_scale", training.lr_scale, hint.lr_scale, [](double n) { return n > 0; }, "above 0");
    give(
        "weight_decay", training.weight_decay, hint.weight_decay, [](double n) { return n >= 0; },
        "at least 0");
    give("beta1", training.beta1, hint.beta1, is_beta, "at least 0 and below 1");
    give("beta2", training.beta2, hint.beta2, is_beta, "at least 0 and below 1");
    if (hint.lr_scale || hint.weight_decay || hint.beta1 || hint.beta2) join().weight_hint(name, hint);
    return value;
  }

  static Init initial(const Start& start, const Ints& shape, Evaluation& numbers) {
    const double first = numbers.number(start.first, "the initial value"),
                 second = numbers.number(start.second, "the initial value");
    const auto check = [&](bool fits, const char* form) {
      if (!fits) throw TermError(start.origin, std::string("expected ") + form);
    };
    switch (start.kind) {
      case Start::Kind::normal:
        check(first > 0, "normal(std) with std above 0");
        return Init::normal(first);
      case Start::Kind::trunc_normal:
        check(first > 0 && second > 0, "trunc_normal(std, cut), both above 0");
        return Init::trunc_normal(first, second);
      case Start::Kind::uniform:
        check(first < second, "uniform(low, high) with low below high");
        return Init::uniform(first, second);
      case Start::Kind::xavier:
        check(shape.size() >= 2, "a weight of two axes for xavier()");
        return Init::xavier_uniform();
      case Start::Kind::number:
        break;
    }
    return first == 0 ? Init::zeros() : first == 1 ? Init::ones() : Init::constant(first);
  }

  Ints extents(const Formulas::NewWeight& weight) {
    if (weight.shape.kind == Shape::Kind::channels) return join().channel_shape();
    Ints extents;
    for (const Term& extent : weight.shape.extents) {
      const double number = evaluation_.number(extent, "an extent");
      if (!(number >= 1 && number <= 1e9) || number != std::floor(number))
        refuse(extent, "an extent is a whole number from 1 on");
      extents.push_back(static_cast<std::int64_t>(number));
    }
    const std::int64_t channel_count = detail::elements(join().channel_shape());
    if (extents.size() == 1 && extents[0] != 1 && extents[0] != channel_count)
      refuse(weight.shape.extents[0], "a weight of one axis has one number, or one for each of the " +
                                          std::to_string(channel_count) + " channels");
    return extents.empty() ? Ints{1} : extents;
  }

  const Formulas& formulas_;
  const Rewrite& call_;
  std::vector<Join> joins_;
  std::size_t place_ = 0;
  Evaluation evaluation_;
  std::vector<Value> out_,
      branches_;  // the embedding, then the sums of blocks; the embedding, then the branches
  bool reads_out_ = false, reads_before_ = false;
  std::map<std::size_t, Known> weights_;        // of this join
  std::map<std::string, Known> block_weights_;  // by the block and the name
  std::map<std::string, Value> draws_;          // by the join or the block, and the stream
  struct Added {
    std::size_t place;
    Known stored;
  };
  std::map<std::string, Added> added_;  // the last weight of each name
};

inline void Formulas::apply(const Rewrite& call) const {
  Writer(*this, call).write();
}

inline void Formulas::apply(const Initialise& call) const {
  const std::vector<Join> joins = call.joins();
  for (std::size_t i = 0; i < joins.size(); ++i) {
    const Join& join = joins[i];
    const auto ends = [&](auto fact) {
      return i + 1 == joins.size() || joins[i + 1].scope != join.scope || joins[i + 1].*fact != join.*fact;
    };
    if ((at == Joins::ends_of_blocks && !ends(&Join::block)) || (at == Joins::last && !ends(&Join::stage)))
      continue;
    for (const Named& init : inits_) {
      for (const Weight& weight : init.name == "last" ? join.last_layer() : join.weights(init.name)) {
        Evaluation evaluation;
        evaluation.facts = Writer::facts(join);
        evaluation.it = Known{call.read(weight)};
        evaluation.drawn = [&](const std::string& stream, bool normal) {
          const std::string name = weight.name + " " + stream;
          return normal ? call.normal(name, weight.elements()) : call.uniform(name, weight.elements());
        };
        const Known& values = evaluation.of(init.term);
        const double* number = values.number();
        call.write(weight, number ? Known::Numbers(weight.elements(), *number) : *values.numbers());
      }
    }
  }
}

}  // namespace rewire::formula

#endif
