// Random formulas: each is printed, read again, rewritten at a join of tokens or of maps, and differentiated. The
// derivative in a random direction is compared with differences of the evaluator in double, and the compiled program
// with the evaluator.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "formula/language.h"
#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "runtime/exec/engine.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/residual_net.h"
#include "tests/support/slice.h"

namespace rewire::test {
namespace {

using formula::Node;
using ir::DType;
using ir::Tensor;

Node leaf(Node::Kind kind, const std::string& text, std::vector<Node> children = {}) {
  Node node;
  node.kind = kind;
  node.text = text;
  node.children = std::move(children);
  return node;
}
Node name(const std::string& text) {
  return leaf(Node::Kind::name, text);
}
Node call(const std::string& function, std::vector<Node> arguments) {
  return leaf(Node::Kind::call, function, std::move(arguments));
}
Node number(double value) {
  Node node;
  node.number = value;
  return node;
}
Node sum(const Node& a, char sign, const Node& b) {
  return leaf(Node::Kind::sum, std::string("+") + sign, {a, b});
}

/// Draws formulas whose values and slopes stay moderate: what grows is squashed first.
class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed) {}

  Node tensor(int depth) {
    if (depth == 0) return name(one_of({"x", "f", "h", "x0", "gamma", "a", "s"}));
    const auto inner = [&] { return tensor(depth - 1); };
    switch (pick(0, 18)) {
      case 0:
        return sum(inner(), '+', inner());
      case 1:
        return sum(inner(), '-', leaf(Node::Kind::product, "**", {squashed(depth - 1), inner()}));
      case 2:
        return leaf(Node::Kind::product, "*/", {inner(), positive(depth - 1)});
      case 3:
      case 17:
        return leaf(Node::Kind::product, "**", {scalar(depth - 1), inner()});
      case 4:
        return leaf(Node::Kind::negation, "", {inner()});
      case 5:
        return leaf(Node::Kind::power, "", {squashed(depth - 1), number(pick(2, 3))});
      case 6:
        return leaf(Node::Kind::power, "", {positive(depth - 1), number(0.5)});
      case 7:
      case 16:
        return call(one_of({"cos", "erf", "gelu", "sigmoid", "silu", "sin", "tanh", "abs", "relu"}),
                    {inner()});
      case 8:
        return call(one_of({"log", "sqrt", "rsqrt"}), {positive(depth - 1)});
      case 9:
        return call("exp", {squashed(depth - 1)});
      case 10:
        return call(one_of({"maximum", "minimum"}), {inner(), inner()});
      case 11:
        return reduction(inner(), inner());
      case 12:
        return call(one_of({"softmax", "layer_norm", "rms_norm"}), {sum(name("x"), '+', inner())});
      case 13:
      case 18:
        return leaf(Node::Kind::choice, "", {condition(depth - 1), inner(), inner()});
      case 14:
        return list(depth - 1);
      default:
        return call("matmul", {sum(name(one_of({"x", "f"})), '+', inner()), name("w")});
    }
  }

 private:
  Node squashed(int depth) { return call("tanh", {tensor(depth)}); }
  Node positive(int depth) { return sum(number(2), '+', squashed(depth)); }
  Node condition(int depth) {
    if (pick(0, 3) == 0) return name("training");
    return leaf(Node::Kind::comparison, one_of({"lt", "le", "gt", "ge", "eq", "ne"}),
                {tensor(depth), tensor(depth)});
  }
  Node scalar(int depth) {
    if (depth == 0)
      return pick(0, 4) == 0 ? number(pick(-9, 9) / 4.0)
                             : name(one_of({"l", "L", "b", "B", "d", "progress"}));
    switch (pick(0, 3)) {
      case 0:
        return sum(scalar(depth - 1), '-', number(0.5));
      case 1:
        return call(one_of({"cos", "floor", "abs"}), {scalar(depth - 1)});
      case 2:
        return leaf(
            Node::Kind::choice, "",
            {leaf(Node::Kind::comparison, "lt", {name("l"), number(1)}), scalar(depth - 1), number(2)});
      default:
        return leaf(Node::Kind::negation, "", {scalar(depth - 1)});
    }
  }
  Node reduction(const Node& a, const Node& b) {
    const std::string function = one_of({"sum", "mean", "max", "dot", "norm"});
    // A reduction needs a value with all axes.
    std::vector<Node> arguments = {sum(name("x"), '+', a)};
    if (function == "dot") arguments.push_back(sum(name("f"), '-', b));
    if (const std::string domain = one_of({"", "channels", "tokens", "sample"}); !domain.empty())
      arguments.push_back(name(domain));
    return leaf(Node::Kind::product, "**", {call("tanh", {call(function, arguments)}), number(0.5)});
  }
  Node list(int depth) {
    const Node logits = call("dot", {name("branches"), sum(name("gamma"), '+', number(1))});
    switch (pick(0, 4)) {
      case 0:
        return leaf(Node::Kind::index, one_of({"out", "branches"}), {number(0)});
      case 1:
        return call("weighted", {name("out"), name("q")});
      case 2:
        return call("weighted", {name("branches"), call("softmax", {logits})});
      case 3:
        return leaf(Node::Kind::index, "branches", {sum(name("l"), '+', number(1))});
      default:
        return sum(tensor(depth), '+',
                   call("weighted", {call("tanh", {name("out")}), call("sigmoid", {name("q")})}));
    }
  }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::string one_of(const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>(pick(0, static_cast<int>(words.size()) - 1))];
  }

  std::mt19937 random_;
};

void count(const Node& node, std::map<std::string, int>& productions) {
  constexpr const char* kKinds[] = {"number", "name",    "call", "index",      "negation",
                                    "power",  "product", "sum",  "comparison", "choice"};
  const std::string kind = kKinds[static_cast<std::size_t>(node.kind)];
  ++productions[kind];
  if (kind == "call" || kind == "comparison" || kind == "name") ++productions[kind + " " + node.text];
  if (kind == "sum" || kind == "product")
    for (const char sign : node.text.substr(1)) ++productions[kind + " " + sign];
  for (const Node& child : node.children) count(child, productions);
}

constexpr unsigned kFormulas = 500;

Node drawn(unsigned seed) {
  return Writer(seed).tensor(2 + static_cast<int>(seed % 4));
}

/// The values of the plugin: the formula, and the weights and the name of let that it reads.
std::string spec_of(const Node& node) {
  const std::map<std::string, std::string> all = {{"gamma", "gamma[channels] = 0.5"},
                                                  {"a", "a = 0.3"},
                                                  {"w", "w[d, d] = normal(0.4)"},
                                                  {"q", "q[out] = 0.2 + 0.1 * k"}};
  std::map<std::string, int> productions;
  count(node, productions);
  std::string weights;
  for (const auto& [weight, entry] : all)
    if (productions.contains("name " + weight)) weights += (weights.empty() ? "" : "; ") + entry;
  return fmt::format("formula:weights=\"{}\",let=\"{}\",sum=\"{}\"", weights,
                     productions.contains("name s") ? "s = mean(h)" : "", formula::to_text(node));
}

ir::Module joined(DType dtype, bool maps, const std::string& spec) {
  const ir::TensorType type = maps ? ir::TensorType{dtype, {2, 3, 2, 4}} : ir::TensorType{dtype, {2, 4, 3}};
  return rewritten(single_join(type, maps ? JoinAxes{.batch = 0, .token = 2, .channel = 1} : JoinAxes{}),
                   {spec}, 5);
}

/// The names of the weights that the formula reads, in the order of the ops.
std::vector<std::string> weights_read(const ir::Module& module) {
  std::vector<std::string> names;
  for (const ir::Op& op : module.function("forward").body)
    if (op.code == ir::Opcode::param && module.find_parameter(op.attributes.get_string("name"))->trainable)
      names.push_back(op.attributes.get_string("name"));
  return names;
}

/// The gradients of the sum of y * g by x, by f and by every weight become results "d0", "d1", ...
void add_gradients(ir::Module& module) {
  ir::Function& forward = module.function("forward");
  std::vector<ir::Value> wrt = {forward.argument("x"), forward.argument("f")};
  const std::vector<std::string> weights = weights_read(module);
  for (const ir::Op& op : forward.body)
    if (op.code == ir::Opcode::param &&
        std::ranges::find(weights, op.attributes.get_string("name")) != weights.end())
      wrt.push_back(op.results.front());
  ir::Builder b(module, forward);
  const ir::TensorType type = forward.type(forward.result("y"));
  const ir::Value g = b.argument("g", type);
  ir::Shape axes;
  for (std::size_t axis = 0; axis < type.shape.size(); ++axis)
    axes.push_back(static_cast<std::int64_t>(axis));
  const ir::Value loss = b.reshape(b.sum(b.mul(forward.result("y"), g), axes), {});
  const std::vector<ir::Value> gradients = ir::differentiate(b, loss, wrt);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    forward.results.push_back({fmt::format("d{}", i), gradients[i]});
}

double inner(const Tensor& a, const Tensor& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) total += a.data[i] * b.data[i];
  return total;
}

void check_formula(unsigned seed) {
  const Node node = drawn(seed);
  const std::string text = formula::to_text(node), spec = spec_of(node);
  const bool maps = seed % 2 == 1;
  CAPTURE(seed, text, maps);
  CHECK(formula::to_text(formula::parse({"sum", text})) == text);

  ir::Module module = joined(DType::f64, maps, spec);
  const std::vector<std::string> weights = weights_read(module);
  const ir::EvalState start = to_eval_state(started(module, {spec}, 5));
  add_gradients(module);
  const ir::Function& forward = module.function("forward");
  const ir::TensorType type = forward.type(forward.argument("x"));
  const std::vector<Tensor> arguments = {sample(type, 0.3 + seed), sample(type, 1.1 + 2 * seed),
                                         sample(type, 2.9)};
  ir::EvalState state = start;
  const std::vector<Tensor> results = ir::evaluate(module, forward, arguments, state);

  const auto loss_at = [&](double step) {
    ir::EvalState moved = start;
    std::vector<Tensor> at = arguments;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < at[i].data.size(); ++j)
        at[i].data[j] += step * sample(type, 4.0 + static_cast<double>(i)).data[j];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      Tensor& weight = moved.tensors.at(weights[i]);
      const Tensor direction = sample(weight.type, 6.0 + static_cast<double>(i));
      for (std::size_t j = 0; j < weight.data.size(); ++j) weight.data[j] += step * direction.data[j];
    }
    return inner(ir::evaluate(module, forward, at, moved).at(0), arguments[2]);
  };
  double slope = 0;
  for (std::size_t i = 0; i < 2; ++i)
    slope += inner(results.at(1 + i), sample(type, 4.0 + static_cast<double>(i)));
  for (std::size_t i = 0; i < weights.size(); ++i)
    slope += inner(results.at(3 + i), sample(results[3 + i].type, 6.0 + static_cast<double>(i)));
  constexpr double kStep = 1e-6;
  const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  CHECK(std::isfinite(slope));
  CHECK(slope == Approx(difference).epsilon(2e-6).margin(2e-6));

  // The compiled program in f32, beside the evaluator on the same numbers.
  ir::Module narrow = joined(DType::f32, maps, spec);
  add_gradients(narrow);
  const auto engine = runtime::make_jit_engine(narrow);
  for (const auto& [weight, value] : started(narrow, {spec}, 5)) engine->write_state(weight, value);
  runtime::TensorMap given;
  const ir::TensorType small{DType::f32, type.shape};
  std::vector<Tensor> rounded;
  for (const Tensor& argument : arguments) {
    Tensor tensor(small);
    for (std::size_t i = 0; i < tensor.data.size(); ++i)
      tensor.data[i] = ir::round_to(DType::f32, argument.data[i]);
    rounded.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < 3; ++i) given.emplace(std::string(1, "xfg"[i]), runtime::to_host(rounded[i]));
  const runtime::TensorMap compiled = engine->run("forward", given);
  ir::EvalState exact = to_eval_state(started(narrow, {spec}, 5));
  const std::vector<Tensor> want = ir::evaluate(narrow, narrow.function("forward"), rounded, exact);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> got =
        runtime::to_double(compiled.at(narrow.function("forward").results[i].name)).data;
    double largest = 1;
    for (const double value : want[i].data) largest = std::max(largest, std::fabs(value));
    for (std::size_t j = 0; j < got.size(); ++j)
      CHECK(got[j] == Approx(want[i].data[j]).epsilon(0).margin(1e-4 * largest));
  }
}

TEST_CASE("A random formula reads as it prints, and its gradients and kernels are right") {
  const testing::Slice::Range part = testing::slice().part(1, kFormulas);
  for (std::uint64_t seed = part.first; seed < part.first + part.count; ++seed)
    check_formula(static_cast<unsigned>(seed));
}

TEST_CASE("The random formulas use each operator, name and function without draws at least twenty times") {
  std::map<std::string, int> productions;
  for (unsigned seed = 1; seed <= kFormulas; ++seed) count(drawn(seed), productions);
  std::vector<std::string> wanted = {"number", "name",    "call",      "index",      "negation",
                                     "power",  "product", "sum",       "comparison", "choice",
                                     "sum +",  "sum -",   "product *", "product /"};
  for (const char* direction : {"lt", "le", "gt", "ge", "eq", "ne"})
    wanted.push_back(std::string("comparison ") + direction);
  for (const char* function :
       {"abs",     "cos",  "erf",  "exp",     "floor",      "gelu",     "log",     "relu",    "rsqrt",
        "sigmoid", "silu", "sin",  "sqrt",    "tanh",       "maximum",  "minimum", "sum",     "mean",
        "max",     "dot",  "norm", "softmax", "layer_norm", "rms_norm", "matmul",  "weighted"})
    wanted.push_back(std::string("call ") + function);
  for (const char* one :
       {"x", "f", "h", "x0", "s", "gamma",    "a",        "w",        "q",      "out",   "branches",
        "l", "L", "b", "B",  "d", "training", "progress", "channels", "tokens", "sample"})
    wanted.push_back(std::string("name ") + one);
  for (const std::string& production : wanted) {
    CAPTURE(production);
    CHECK(productions[production] >= 20);
  }
}

}  // namespace
}  // namespace rewire::test
