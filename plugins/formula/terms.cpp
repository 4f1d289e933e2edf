#include "terms.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "elements.h"

namespace formula {
namespace {

using namespace rewire::plugin;

constexpr double kNormEpsilon = 1e-6;
/// Below it a norm is constant, so that its gradient at 0 is 0. f32 holds it.
constexpr double kLeastSquare = 1e-30;

constexpr double kTwoPi = 2 * std::numbers::pi;

bool compares(const std::string& op) {
  return op.size() == 2;
}

std::string shape_text(const Ints& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

/// Whether the shapes broadcast as NumPy's do.
bool fit(const Ints& a, const Ints& b) {
  for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const std::int64_t m = a[a.size() - i], n = b[b.size() - i];
    if (m != n && m != 1 && n != 1) return false;
  }
  return true;
}

/// The wider of two float types.
DType wider(DType a, DType b) {
  const auto width = [](DType d) { return d == DType::f64 ? 2 : d == DType::f32 ? 1 : 0; };
  if (a != b && width(a) == 0 && width(b) == 0) return DType::f32;
  return width(a) >= width(b) ? a : b;
}

/// What an operand is called in a message: its name, if it is one.
std::string name_of(const Node& node, const char* otherwise) {
  return node.kind == Node::Kind::name ? "'" + node.text + "'" : otherwise;
}

std::string kind_of(const Term& term) {
  return term.number() ? "a number" : term.list() ? "a list of terms" : "a tensor";
}

/// Moves the channels to the last axis, and back.
class ChannelsLast {
 public:
  ChannelsLast(const Join& join, std::int64_t rank) : moves_(join.channel_axis != rank - 1) {
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      if (axis != join.channel_axis) there_.push_back(axis);
      back_.push_back(axis == join.channel_axis ? rank - 1 : axis - (axis > join.channel_axis ? 1 : 0));
    }
    there_.push_back(join.channel_axis);
  }
  Value there(const Value& x) const { return moves_ ? transpose(x, there_) : x; }
  Value back(const Value& x) const { return moves_ ? transpose(x, back_) : x; }

 private:
  bool moves_;
  Ints there_, back_;
};

std::int64_t elements(const Value& x) {
  std::int64_t count = 1;
  for (const std::int64_t extent : x.shape()) count *= extent;
  return count;
}

void take(const Source& source, const Node& node, std::size_t arguments, std::size_t least, std::size_t most,
          const std::string& form) {
  if (arguments < least || arguments > most)
    fail(source, node.at,
         "expected " + form + ", not " + std::to_string(arguments) +
             (arguments == 1 ? " argument" : " arguments"));
}

}  // namespace

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

Ints Evaluator::axes(Domain domain) const {
  if (domain == Domain::channels) return {join_.channel_axis};
  return domain == Domain::tokens ? join_.token_axes() : join_.axes_within_sample();
}

Value Evaluator::tensor(const Source& source, const Node& node, const Term& term) const {
  if (term.tensor()) return laid(term);
  if (const double* number = term.number()) return constant_like(join_.stream, *number);
  fail(source, node.at, "expected one tensor, not a list: index it (out[0]), or use weighted(list, weights)");
}

/// A tensor with all axes of the stream, which has channels and tokens to reduce over.
Value Evaluator::with_axes(const Source& source, const Node& node, const Term& term) const {
  if (term.number()) fail(source, node.at, "expected a tensor, not a number");
  const Value x = tensor(source, node, term);
  if (x.dtype() == DType::i1) fail(source, node.at, "a condition is not a number: write (condition ? 1 : 0)");
  if (x.shape().size() != join_.stream.shape().size() ||
      (x.shape()[static_cast<std::size_t>(join_.channel_axis)] == 1 &&
       join_.stream.shape()[static_cast<std::size_t>(join_.channel_axis)] != 1))
    fail(source, node.at,
         "expected a value with all channels, not one of the shape " + shape_text(x.shape()));
  return x;
}

double Evaluator::number(const Source& source, const Node& node, const char* what) const {
  const Term term = evaluate(source, node);
  if (const double* found = term.number()) return *found;
  fail(source, node.at, std::string("expected a number for ") + what + ", not " + kind_of(term));
}

/// A number without tensors is known now, so one that is not finite is a mistake.
Term Evaluator::folded(const Source& source, const Node& node, double number) const {
  if (!std::isfinite(number)) fail(source, node.at, "this is not a finite number here: " + to_text(node));
  return {number};
}

Term Evaluator::unary(const Source& source, const Node& node, const std::string& op, const Term& a) const {
  if (const double* number = a.number()) return folded(source, node, apply_unary(op, *number));
  if (const Term::List* list = a.list()) {
    Term::List result;
    for (const Term& one : *list) result.push_back(unary(source, node, op, one));
    return {std::move(result)};
  }
  if (a.tensor()->dtype() == DType::i1)
    fail(source, node.at, op + " of a condition: write (condition ? 1 : 0)");
  return {emit(op.c_str(), {*a.tensor()}), a.per_channel};
}

Value Evaluator::laid(const Term& term) const {
  return term.per_channel ? reshape(*term.tensor(), join_.channel_shape()) : *term.tensor();
}

/// A weight that meets a list is broadcast to the terms' shape once. Its gradient is then one sum over the tokens, not
/// one for each term.
Term Evaluator::spread(const Term& term, const Term::List& list) const {
  const Value* first = list.front().tensor();
  if (!term.tensor() || !first || list.size() == 1 || term.tensor()->dtype() == DType::i1) return term;
  const Value value = laid(term);
  const Type type = first->type();
  if (value.shape() == type.shape || value.shape().size() > type.shape.size() ||
      !fit(value.shape(), type.shape))
    return term;
  Ints shape = value.shape();
  shape.insert(shape.begin(), type.shape.size() - shape.size(), 1);
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] != 1 && shape[axis] != type.shape[axis])
      return term;  // the terms grow to its shape instead
  const DType dtype = wider(value.dtype(), type.dtype);
  return {emit("broadcast", {reshape(cast(value, dtype), shape)}, {}, Type{dtype, type.shape})};
}

Term Evaluator::binary(const Operands& at, const std::string& op, const Term& a, const Term& b) const {
  if (a.list() || b.list()) {
    if (a.list() && b.list() && a.list()->size() != b.list()->size()) {
      fail(at.source, at.right.at,
           "a list of " + std::to_string(a.list()->size()) + " and one of " +
               std::to_string(b.list()->size()) + " terms do not fit");
    }
    const Term::List& list = *(a.list() ? a : b).list();
    const Term left = a.list() ? a : spread(a, list), right = b.list() ? b : spread(b, list);
    Term::List result;
    for (std::size_t i = 0; i < list.size(); ++i)
      result.push_back(
          binary(at, op, left.list() ? (*left.list())[i] : left, right.list() ? (*right.list())[i] : right));
    return {std::move(result)};
  }
  if (a.number() && b.number())
    return folded(at.source, at.whole, apply_binary(op, *a.number(), *b.number()));
  // Numbers and weights of one number per channel make another such weight.
  const bool per_channel = (a.number() || a.per_channel) && (b.number() || b.per_channel);
  const auto value_of = [&](const Term& term) { return per_channel ? *term.tensor() : laid(term); };
  Value left = a.tensor() ? value_of(a) : constant_like(*b.tensor(), *a.number());
  Value right = b.tensor() ? value_of(b) : constant_like(*a.tensor(), *b.number());
  const auto is_condition = [&](const Value& value, const Node& node) {
    if (value.dtype() == DType::i1)
      fail(at.source, node.at, "a condition is not a number: write (" + to_text(node) + " ? 1 : 0)");
  };
  is_condition(left, at.left);
  is_condition(right, at.right);
  if (!fit(left.shape(), right.shape()))
    fail(at.source, at.right.at,
         name_of(at.left, "the left side") + " has the shape " + shape_text(left.shape()) + ", " +
             name_of(at.right, "the right side") + " " + shape_text(right.shape()) + ": they do not fit");
  const DType dtype = wider(left.dtype(), right.dtype());
  left = cast(left, dtype), right = cast(right, dtype);
  return {compares(op) ? compare(op.c_str(), left, right) : emit(op.c_str(), {left, right}), per_channel};
}

Term Evaluator::chain(const Source& source, const Node& node) const {
  const bool is_sum = node.kind == Node::Kind::sum;
  Term result = evaluate(source, node.children[0]);
  for (std::size_t i = 1; i < node.children.size(); ++i) {
    const char* op = is_sum ? (node.text[i] == '+' ? "add" : "sub") : (node.text[i] == '*' ? "mul" : "div");
    result = binary({source, node, node.children[i - 1], node.children[i]}, op, result,
                    evaluate(source, node.children[i]));
  }
  return result;
}

Term Evaluator::choose(const Source& source, const Node& node) const {
  const Term condition = evaluate(source, node.children[0]);
  if (const double* number = condition.number()) return evaluate(source, node.children[*number != 0 ? 1 : 2]);
  if (!condition.tensor() || condition.tensor()->dtype() != DType::i1)
    fail(source, node.children[0].at, "expected a comparison or 'training' before '?'");
  const Term yes = evaluate(source, node.children[1]), no = evaluate(source, node.children[2]);
  if (yes.list() || no.list()) fail(source, node.at, "'?' chooses between numbers or tensors, not lists");
  const Value test = laid(condition);
  Value left =
      yes.tensor() ? laid(yes) : constant_like(no.tensor() ? *no.tensor() : join_.stream, *yes.number());
  Value right = no.tensor() ? laid(no) : constant_like(left, *no.number());
  if (!fit(left.shape(), right.shape()) || !fit(test.shape(), left.shape()) ||
      !fit(test.shape(), right.shape()))
    fail(source, node.at,
         "the condition has the shape " + shape_text(test.shape()) + ", its values " +
             shape_text(left.shape()) + " and " + shape_text(right.shape()) + ": they do not fit");
  for (std::size_t i : {1, 2})
    if ((i == 1 ? left : right).dtype() == DType::i1)
      fail(source, node.children[i].at,
           "a condition is not a number: write (" + to_text(node.children[i]) + " ? 1 : 0)");
  const DType dtype = wider(left.dtype(), right.dtype());
  return {select(test, cast(left, dtype), cast(right, dtype))};
}

Term Evaluator::evaluate(const Source& source, const Node& node) const {
  switch (node.kind) {
    case Node::Kind::number:
      return {node.number};
    case Node::Kind::name:
    case Node::Kind::index: {
      std::optional<Term> term = scope_.name(source, node);
      if (!term) {
        const std::string close = did_you_mean(node.text, scope_.names);
        const auto among = [&](const std::vector<std::string>& list) {
          return std::ranges::find(list, node.text) != list.end();
        };
        fail(source, node.at,
             among(functions()) ? "'" + node.text + "' is a function: write " + node.text + "(...)"
             : among(kDomains)
                 ? "'" + node.text + "' is not a value: it is the last argument of a reduction or a draw"
                 : "there is no name '" + node.text + "'" +
                       (close.empty() ? "; weights and let define names" : close));
      }
      if (node.kind == Node::Kind::name) return *term;
      const Term::List* list = term->list();
      if (!list)
        fail(source, node.at,
             "'" + node.text + "' is not a list: only out, branches and weights of [out] have an index");
      double index = number(source, node.children[0], "the index");
      if (index < 0) index += static_cast<double>(list->size());  // from the end
      if (index != std::floor(index) || index < 0 || index >= static_cast<double>(list->size()))
        fail(source, node.children[0].at,
             "the index is " +
                 to_text({Node::Kind::number, 0, number(source, node.children[0], "the index")}) +
                 ", and the list has " + std::to_string(list->size()) +
                 (list->size() == 1 ? " term" : " terms") + " here: from 0, or from -1 backwards");
      return (*list)[static_cast<std::size_t>(index)];
    }
    case Node::Kind::call:
      return call(source, node);
    case Node::Kind::negation:
      return unary(source, node, "neg", evaluate(source, node.children[0]));
    case Node::Kind::power: {
      const Term base = evaluate(source, node.children[0]), exponent = evaluate(source, node.children[1]);
      if (base.tensor() && exponent.number() && *exponent.number() == 2)
        return binary({source, node, node.children[0], node.children[0]}, "mul", base, base);
      return binary({source, node, node.children[0], node.children[1]}, "pow", base, exponent);
    }
    case Node::Kind::product:
    case Node::Kind::sum:
      return chain(source, node);
    case Node::Kind::comparison:
      return binary({source, node, node.children[0], node.children[1]}, node.text,
                    evaluate(source, node.children[0]), evaluate(source, node.children[1]));
    case Node::Kind::choice:
      return choose(source, node);
  }
  return {};
}

namespace {

/// The words after a call's arguments: over which axes, and whether a block's joins share a draw.
struct Words {
  std::optional<Domain> domain;
  bool per_block = false;
};

/// Takes the words off the end of the arguments.
Words words_of(const Node& node, std::size_t& arguments) {
  Words words;
  for (; arguments > 0 && node.children[arguments - 1].kind == Node::Kind::name; --arguments) {
    const std::string& word = node.children[arguments - 1].text;
    const auto found = std::ranges::find(kDomains, word);
    if (found != kDomains.end() && !words.domain) {
      words.domain = static_cast<Domain>(found - kDomains.begin());
    } else if (word == "block" && !words.per_block) {
      words.per_block = true;
    } else {
      break;
    }
  }
  return words;
}

}  // namespace

/// Refuses an argument too many. One that is a name nobody defined was meant as a word.
void Evaluator::refuse_rest(const Source& source, const Node& node, std::size_t first, std::size_t end,
                            const std::vector<std::string>& words) const {
  std::string all;
  for (const std::string& word : words)
    all += (all.empty() ? "" : &word == &words.back() ? " or " : ", ") + word;
  for (std::size_t i = first; i < end; ++i) {
    const Node& child = node.children[i];
    if (child.kind != Node::Kind::name || std::ranges::find(scope_.names, child.text) != scope_.names.end())
      continue;
    if (std::ranges::find(words, child.text) != words.end())
      fail(source, child.at, "only one of channels, tokens and sample, once");
    fail(source, child.at,
         "expected " + all + ", not '" + child.text + "'" + did_you_mean(child.text, words));
  }
}

Term Evaluator::widened(const Term& term) const {
  if (term.number() || (term.tensor() && term.tensor()->dtype() == DType::i1)) return term;
  if (term.tensor()) return {at_least_f32(*term.tensor()), term.per_channel};
  Term::List result;
  for (const Term& one : *term.list()) result.push_back(widened(one));
  return {std::move(result)};
}

Term Evaluator::reduce(const Source& source, const Node& node) const {
  std::size_t arguments = node.children.size();
  const Words words = words_of(node, arguments);
  const std::size_t wanted = node.text == "dot" ? 2 : 1;
  if (words.per_block) fail(source, node.at, "only draws have the word block");
  refuse_rest(source, node, wanted, arguments, kDomains);
  if (node.text == "max" && arguments == 2)
    fail(source, node.at, "max(x) is the largest over the channels; of two values write maximum(a, b)");
  take(source, node, arguments, wanted, wanted,
       node.text + (wanted == 2 ? "(a, b)" : "(x)") +
           ", or with channels, tokens or sample as the last argument");
  const Term first = widened(evaluate(source, node.children[0]));
  const Operands at{source, node, node.children[0], node.children[wanted - 1]};
  const Term operand = wanted == 2 ? binary(at, "mul", first, widened(evaluate(source, node.children[1])))
                       : node.text == "norm" ? binary(at, "mul", first, first)
                                             : first;
  const auto of_one = [&](const Term& term) -> Term {
    if (term.number()) fail(source, node.children[0].at, node.text + " of a number: it has no axes");
    const Value x = tensor(source, node.children[0], term);
    if (x.dtype() == DType::i1)
      fail(source, node.children[0].at, node.text + " of a condition: write (condition ? 1 : 0)");
    const bool has_axes = x.shape().size() == join_.stream.shape().size();
    if (!has_axes && words.domain)
      fail(source, node.children[0].at,
           "a weight of the shape " + shape_text(x.shape()) + " has no " +
               kDomains[static_cast<std::size_t>(*words.domain)]);
    // A matrix of weights has neither channels nor tokens: it is reduced as a whole.
    const Ints over = has_axes ? axes(words.domain.value_or(Domain::channels)) : all_axes(x);
    if (node.text == "max") return {max(x, over)};
    if (node.text == "mean") return {mean(x, over)};
    const Value total = sum(x, over);
    return {node.text == "norm" ? sqrt(maximum(total, constant_like(total, kLeastSquare))) : total};
  };
  if (!operand.list()) return of_one(operand);
  Term::List result;
  for (const Term& one : *operand.list()) result.push_back(of_one(one));
  return {std::move(result)};
}

Term Evaluator::softmax_of_list(const Term::List& logits) const {
  std::vector<Value> values;
  Value largest;
  for (const Term& logit : logits) {
    values.push_back(
        at_least_f32(logit.tensor() ? laid(logit) : constant_like(join_.stream, *logit.number())));
    largest = largest ? maximum(largest, values.back()) : values.back();
  }
  largest = stop_gradient(largest);
  Value total;
  for (Value& value : values) {
    value = exp(value - largest);
    total += value;
  }
  Term::List result;
  for (const Value& value : values) result.push_back({value / total});
  return {std::move(result)};
}

Term Evaluator::weighted(const Source& source, const Node& node, const Term& terms,
                         const Term& weights) const {
  if (!terms.list() || !weights.list())
    fail(source, node.at, "expected weighted(list, weights), two lists such as out and a weight of [out]");
  const Term::List &list = *terms.list(), &factors = *weights.list();
  if (list.size() != factors.size())
    fail(source, node.at,
         "lists of " + std::to_string(list.size()) + " and " + std::to_string(factors.size()) +
             " terms do not fit");
  Term total;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Operands at{source, node, node.children[1], node.children[0]};
    const Term product = binary(at, "mul", widened(factors[i]), widened(list[i]));
    total = i == 0 ? product : binary(at, "add", total, product);
  }
  return total;
}

Value Evaluator::rms_norm(const Value& x, double epsilon) const {
  const Value wide = at_least_f32(x);
  return wide * rsqrt(mean(wide * wide, {join_.channel_axis}) + epsilon);
}

Value Evaluator::layer_norm(const Value& x, const std::vector<Value>& weight_and_bias, double epsilon) const {
  const ChannelsLast moved(join_, std::ssize(x.shape()));
  std::vector<Value> operands = {moved.there(x)};
  for (const Value& weight : weight_and_bias) {
    const Value narrow = cast(weight, x.dtype());
    const Ints channels = {operands[0].shape().back()};
    operands.push_back(narrow.shape() == channels ? narrow : reshape(narrow, channels));
  }
  return moved.back(emit("layer_norm", operands, {{"epsilon", epsilon}}));
}

Term Evaluator::norm(const Source& source, const Node& node) const {
  const std::string& name = node.text;
  const bool layer = name == "layer_norm";
  std::size_t arguments = node.children.size();
  std::vector<Term> terms;
  for (const Node& child : node.children) terms.push_back(evaluate(source, child));
  double epsilon = kNormEpsilon;
  if (arguments > 1 && terms.back().number()) epsilon = *terms.back().number(), --arguments;
  if (!(epsilon > 0 && epsilon < 1)) fail(source, node.children.back().at, "epsilon is above 0 and below 1");
  take(source, node, arguments == 3 && layer ? 1 : arguments, 1, 1,
       layer ? "layer_norm(x) or layer_norm(x, weight, bias), with epsilon as a further number"
             : "rms_norm(x) or rms_norm(x, epsilon)");
  std::vector<Value> weights;
  for (std::size_t i = 1; i < arguments; ++i) {
    const Value* weight = terms[i].tensor();
    const std::int64_t channels = join_.channel_shape()[static_cast<std::size_t>(join_.channel_axis)];
    if (!weight || elements(*weight) != channels)
      fail(source, node.children[i].at, "expected a weight of [channels]");
    weights.push_back(*weight);
  }
  const auto of_one = [&](const Term& term) -> Term {
    const Value x = with_axes(source, node.children[0], term);
    return {layer ? layer_norm(x, weights, epsilon) : rms_norm(x, epsilon)};
  };
  if (!terms[0].list()) return of_one(terms[0]);
  Term::List result;
  for (const Term& one : *terms[0].list()) result.push_back(of_one(one));
  return {std::move(result)};
}

Term Evaluator::branch_norm(const Source& source, const Node& node) const {
  std::vector<Value> weights(2);
  std::size_t count = 0;
  for (const Weight& weight : join_.weights("norm")) {
    weights[weight.name.ends_with(".bias") ? 1 : 0] = join_.weight_value(weight.name);
    ++count;
  }
  const bool bare = count == 0 && join_.has("norm_input");
  const bool has_statistics = std::ranges::any_of(
      join_.weights(), [](const Weight& weight) { return weight.name.ends_with("running_mean"); });
  if ((!bare && (count != 2 || !weights[0] || !weights[1])) || has_statistics)
    fail(source, node.at, "the branch of " + join_.name + " does not have one layer norm: use layer_norm(x)");
  const Term x = evaluate(source, node.children[0]);
  return {layer_norm(with_axes(source, node.children[0], x), bare ? std::vector<Value>{} : weights,
                     kNormEpsilon)};
}

Term Evaluator::matmul(const Source& source, const Node& node, const Term& a, const Term& b) const {
  const Value *x = a.tensor(), *w = b.tensor();  // a weight of [d] has no rows: it is refused as x
  if (!x || !w || w->shape().size() != 2 || x->shape().size() < 3)
    fail(source, node.at, "expected matmul(x, w) of a tensor and a weight of [in, out]");
  const std::int64_t in = x->shape()[static_cast<std::size_t>(join_.channel_axis)];
  if (in != w->shape()[0])
    fail(source, node.at,
         "the tensor has " + std::to_string(in) + " channels, the weight is " + shape_text(w->shape()) +
             ": they do not fit");
  const ChannelsLast moved(join_, std::ssize(x->shape()));
  const DType dtype = wider(x->dtype(), w->dtype());
  return {moved.back(rewire::plugin::matmul(moved.there(cast(*x, dtype)), cast(*w, dtype)))};
}

/// Uniform numbers in the stream's type, or f32 if that is narrower.
Value Evaluator::draw(const Source& source, const Node& node, const Ints& shape, bool per_block,
                      int which) const {
  const Value u = scope_.uniform(source, node, shape, per_block, which);
  return cast(u, wider(u.dtype(), join_.stream.dtype()));
}

Term Evaluator::random(const Source& source, const Node& node) const {
  std::size_t arguments = node.children.size();
  const bool drops = node.text == "drop";
  const std::size_t wanted = drops ? 1 : 0;
  const Words words = words_of(node, arguments);
  std::vector<std::string> all = kDomains;
  all.emplace_back("block");
  refuse_rest(source, node, wanted, arguments, all);
  take(source, node, arguments, wanted, wanted,
       node.text + (drops ? "(p)" : "()") + ", then channels, tokens, sample or block if you want");
  // One number for each of these; drop by itself is for each sample, as drop path.
  Ints shape(join_.stream.shape().size(), 1);
  const Ints whole = join_.stream.shape();
  if (words.domain || drops) {
    shape[static_cast<std::size_t>(join_.batch_axis)] = whole[static_cast<std::size_t>(join_.batch_axis)];
    const Domain domain = words.domain.value_or(Domain::sample);
    if (domain != Domain::sample)
      for (const std::int64_t axis : axes(domain))
        shape[static_cast<std::size_t>(axis)] = whole[static_cast<std::size_t>(axis)];
  }
  const Value u = draw(source, node, shape, words.per_block, 0);
  if (node.text == "uniform") return {u};
  if (drops) {
    const double p = number(source, node.children[0], "the probability");
    if (!(p >= 0 && p < 1))
      fail(source, node.children[0].at, "a probability of drop is at least 0 and below 1");
    const Value kept =
        select(compare("ge", u, constant_like(u, p)), constant_like(u, 1 / (1 - p)), constant_like(u, 0));
    return {select(join_.is_training(), kept, constant_like(u, 1))};
  }
  // Box and Muller; 1 - u is never 0.
  const Value v = draw(source, node, shape, words.per_block, 1);
  return {sqrt(-2.0 * log(1.0 - u)) * emit("cos", {kTwoPi * v})};
}

Term Evaluator::call(const Source& source, const Node& node) const {
  const std::string& name = node.text;
  const std::size_t arguments = node.children.size();
  if (std::ranges::find(pointwise_functions(), name) != pointwise_functions().end()) {
    take(source, node, arguments, 1, 1, name + "(x)");
    return unary(source, node, name, evaluate(source, node.children[0]));
  }
  if (name == "maximum" || name == "minimum") {
    take(source, node, arguments, 2, 2, name + "(a, b)");
    return binary({source, node, node.children[0], node.children[1]}, name,
                  evaluate(source, node.children[0]), evaluate(source, node.children[1]));
  }
  if (name == "sum" || name == "mean" || name == "max" || name == "dot" || name == "norm")
    return reduce(source, node);
  if (name == "softmax") {
    std::size_t count = arguments;
    const Words words = words_of(node, count);
    refuse_rest(source, node, 1, count, kDomains);
    take(source, node, count, 1, 1, "softmax(x), or with channels, tokens or sample as the last argument");
    const Term x = evaluate(source, node.children[0]);
    if (words.per_block || (x.list() && words.domain))
      fail(source, node.at, "softmax of a list is over its terms: it has no further word");
    if (x.list()) return softmax_of_list(*x.list());
    const Value logits = at_least_f32(with_axes(source, node.children[0], x));
    const Ints over = axes(words.domain.value_or(Domain::channels));
    if (over.size() == 1) return {softmax(logits, over[0])};
    const Value scaled = exp(logits - stop_gradient(max(logits, over)));
    return {scaled / sum(scaled, over)};
  }
  if (name == "layer_norm" || name == "rms_norm") return norm(source, node);
  if (name == "branch_norm") {
    take(source, node, arguments, 1, 1, "branch_norm(x)");
    return branch_norm(source, node);
  }
  if (name == "matmul") {
    take(source, node, arguments, 2, 2, "matmul(x, w)");
    return matmul(source, node, evaluate(source, node.children[0]), evaluate(source, node.children[1]));
  }
  if (name == "weighted") {
    take(source, node, arguments, 2, 2, "weighted(list, weights)");
    return weighted(source, node, evaluate(source, node.children[0]), evaluate(source, node.children[1]));
  }
  if (name == "drop" || name == "uniform" || name == "normal") return random(source, node);
  if (std::ranges::find(scope_.names, name) != scope_.names.end())
    fail(source, node.at, "'" + name + "' is not a function: write " + name + " * (...) for a product");
  fail(source, node.at, "there is no function '" + name + "'" + did_you_mean(name, functions()));
}

Value Evaluator::as_stream(const Source& source, const Node& node, const Term& term) const {
  const Type type = join_.stream.type();
  if (const double* number = term.number()) return join_.constant(*number, type);
  Value value = tensor(source, node, term);
  if (value.dtype() == DType::i1)
    fail(source, node.at, "a condition is not a value of the stream: write (condition ? a : b)");
  value = cast(value, type.dtype);
  Ints shape = value.shape();
  if (shape == type.shape) return value;
  if (!fit(shape, type.shape) || shape.size() > type.shape.size())
    fail(source, node.at,
         "the formula has the shape " + shape_text(shape) + ", the stream " + shape_text(type.shape) +
             ": they do not fit");
  shape.insert(shape.begin(), type.shape.size() - shape.size(), 1);
  return emit("broadcast", {reshape(value, shape)}, {}, type);
}

Value Evaluator::as_scalar(const Source& source, const Node& node, const Term& term) const {
  if (const double* number = term.number()) return join_.constant(*number, {DType::f32, {}});
  return mean(cast(tensor(source, node, term), DType::f32));
}

}  // namespace formula
