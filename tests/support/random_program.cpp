// Random programs: the pool of values, inputs, parameters and results.
#include "tests/support/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/autodiff/autodiff.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/verify.h"
#include "tests/support/program_writer.h"

namespace rewire::testing {

using namespace rewire::ir;

ProgramWriter::ProgramWriter(std::uint64_t seed, bool with_gradients)
    : random(seed), build(random.module(), random.module().functions[0]), gradients(with_gradients) {
  random.module().name = fmt::format("random_program_{}", seed);
  random.state().training = random.chance(0.5);
  input(random.shape(1, 4, 1000));
  input(random.shape(2, 3, 2000));
}

Node ProgramWriter::input(Shape shape, double low, double high) {
  const Node node{random.input(random.tensor(std::move(shape), low, high)),
                  std::max(std::abs(low), std::abs(high)), true};
  pool_.push_back(node);
  return node;
}

Node ProgramWriter::parameter(Shape shape, double low, double high) {
  Parameter parameter;
  parameter.name = fmt::format("w{}", parameters_.size());
  parameter.type = {DType::f32, std::move(shape)};
  parameter.init = {InitKind::uniform, low, high};
  random.state().tensors[parameter.name] = random.tensor(parameter.type, low, high);
  parameters_.push_back(parameter.name);
  random.module().add_parameter(parameter);
  return {build.param(parameter.name), std::max(std::abs(low), std::abs(high)), true};
}

Node ProgramWriter::pick(int min_rank, int max_rank) {
  std::vector<Node> fitting;
  for (const Node& node : pool_) {
    const int rank = build.type(node.value).rank();
    if (rank >= min_rank && rank <= max_rank) fitting.push_back(node);
  }
  if (fitting.empty()) return input(random.shape(std::max(min_rank, 1), std::max(min_rank, max_rank), 1500));
  const auto count = static_cast<std::int64_t>(fitting.size());
  const std::int64_t oldest = random.chance(0.6) ? std::max<std::int64_t>(0, count - 4) : 0;
  return fitting[static_cast<std::size_t>(random.integer(oldest, count - 1))];
}

Node ProgramWriter::pick_exact(int min_rank) {
  std::vector<Node> fitting;
  for (const Node& node : pool_) {
    if (node.exact && build.type(node.value).rank() >= min_rank) fitting.push_back(node);
  }
  if (fitting.empty() || random.chance(0.2)) return input(random.shape(std::max(1, min_rank), 3, 500));
  return fitting[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(fitting.size()) - 1))];
}

Node ProgramWriter::partner(const Node& node) {
  std::vector<Node> same;
  for (const Node& other : pool_) {
    if (shape(other) == shape(node) && other.value != node.value) same.push_back(other);
  }
  if (!same.empty() && random.chance(0.6)) {
    return same[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(same.size()) - 1))];
  }
  Shape smaller = shape(node);
  if (random.chance(0.6)) {
    for (std::int64_t& extent : smaller) {
      if (random.chance(0.4)) extent = 1;
    }
  }
  if (random.chance(0.3)) {
    smaller.erase(smaller.begin(),
                  smaller.begin() + random.integer(0, static_cast<std::int64_t>(smaller.size())));
  }
  return random.chance(0.3) ? parameter(std::move(smaller)) : input(std::move(smaller));
}

Node ProgramWriter::tame(const Node& node, double limit) {
  if (node.bound <= limit) return node;
  return {build.mul(node.value, limit / node.bound), limit, false};
}

Value ProgramWriter::seed() {
  if (!seed_)
    seed_ = random.input(random.scalar(DType::i64, static_cast<double>(random.integer(0, 1 << 20))));
  return seed_;
}

Value ProgramWriter::step() {
  if (!step_) step_ = random.input(random.scalar(DType::i64, static_cast<double>(random.integer(0, 1000))));
  return step_;
}

Value ProgramWriter::training() {
  if (random.chance(0.4)) return build.emit(Opcode::is_training, {}, {}, TensorType{DType::i1, {}});
  const double answer = random.chance(0.7) ? 1 : 0;
  if (random.chance(0.5)) return build.constant(answer, DType::i1);
  return random.input(random.scalar(DType::i1, answer));
}

std::string ProgramWriter::stream() {
  return fmt::format("stream{}", streams_++);
}

/// Up to four values that nothing reads yet, and one that others read too.
std::vector<Node> ProgramWriter::chosen_results() {
  std::vector<bool> read(build.function().types.size(), false);
  for (const Op& op : build.function().body) {
    for (Value operand : op.operands) read[static_cast<std::size_t>(operand.id)] = true;
  }
  std::vector<bool> is_argument(read.size(), false);
  for (const Argument& argument : build.function().arguments) {
    is_argument[static_cast<std::size_t>(argument.value.id)] = true;
  }
  std::vector<Node> results, inner;
  for (std::size_t i = pool_.size(); i-- > 0;) {
    const auto id = static_cast<std::size_t>(pool_[i].value.id);
    if (is_argument[id]) continue;
    if (!read[id] && results.size() < 4) results.push_back(pool_[i]);
    if (read[id]) inner.push_back(pool_[i]);
  }
  if (!inner.empty()) {
    results.push_back(
        inner[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(inner.size()) - 1))]);
  }
  if (results.empty()) results.push_back({build.add(pool_.back().value, 1.0), 3, false});
  return results;
}

void ProgramWriter::name_results() {
  const std::vector<Node> results = chosen_results();
  for (std::size_t i = 0; i < results.size(); ++i) build.result(fmt::format("r{}", i), results[i].value);
  // Sometimes a moving average of a parameter, after all reads.
  for (const std::string& name : parameters_) {
    if (!random.chance(0.2)) continue;
    const Value value = build.param(name);
    const Value total = build.mean(results[0].value, [&] {
      Ints axes(shape(results[0]).size());
      for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
      return axes;
    }());
    const Value next = build.add(build.mul(value, 0.75), build.mul(build.reshape(total, {}), 0.25));
    build.emit(Opcode::update, {next}, {{"name", name}});
  }
}

/// loss = sum over the results of mean(r · weight), the weights random and fixed.
void ProgramWriter::name_gradients() {
  Value loss;
  for (const Node& node : chosen_results()) {
    const Node tamed = tame(node, 4);
    const Value flat = build.reshape(tamed.value, {elements(tamed)});
    const Value weight = random.input(random.away_from_zero({elements(tamed)}), false);
    const Value part = build.reshape(build.mean(build.mul(flat, weight), {0}), {});
    loss = loss ? build.add(loss, part) : part;
  }
  std::vector<Value> wrt;
  std::vector<std::string> names;
  for (const Argument& argument : build.function().arguments) {
    if (!is_float(build.type(argument.value).dtype)) continue;
    wrt.push_back(argument.value);
    names.push_back(argument.name);
  }
  for (const Op& op : build.function().body) {
    if (op.code != Opcode::param) continue;
    wrt.push_back(op.results[0]);
    names.push_back(op.attributes.get_string("name"));
  }
  const std::vector<Value> results = differentiate(build, loss, wrt);
  build.result("loss", loss);
  for (std::size_t i = 0; i < results.size(); ++i) build.result("d_" + names[i], results[i]);
}

RandomProgram ProgramWriter::finish() {
  if (gradients) {
    name_gradients();
  } else {
    name_results();
  }
  verify(random.module());
  OpCase finished = random.finish();
  return {std::move(finished.module), std::move(finished.inputs), std::move(finished.state)};
}

namespace {

void write_step(ProgramWriter& writer) {
  std::vector<ProgramStep> steps;
  for (auto part : {arithmetic_steps, shape_steps, layer_steps}) {
    for (const ProgramStep& step : part())
      steps.insert(steps.end(), static_cast<std::size_t>(step.weight), step);
  }
  const auto last = static_cast<std::int64_t>(steps.size()) - 1;
  steps[static_cast<std::size_t>(writer.random.integer(0, last))].write(writer);
}

}  // namespace

RandomProgram random_program(std::uint64_t seed, const ProgramOptions& options) {
  ProgramWriter writer(seed, options.gradients);
  const std::int64_t steps = writer.random.integer(options.min_steps, options.max_steps);
  for (std::int64_t i = 0; i < steps; ++i) write_step(writer);
  return writer.finish();
}

std::vector<Tensor> evaluate_rounded(const RandomProgram& program) {
  EvalState state = program.state;
  state.round = true;
  return evaluate(program.module, program.module.function("main"), program.inputs, state);
}

std::string first_difference(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                             double tolerance) {
  if (expected.size() != actual.size()) return "the number of results differs";
  const auto largest = [](const Tensor& tensor) {
    double scale = 0;
    for (double value : tensor.data) scale = std::max(scale, std::abs(value));
    return scale;
  };
  double floor = 1e-3;
  for (const Tensor& tensor : expected) floor = std::max(floor, 0.01 * largest(tensor));
  for (std::size_t r = 0; r < expected.size(); ++r) {
    if (expected[r].type != actual[r].type) return fmt::format("result {}: the types differ", r);
    const double allowed = tolerance * std::max(floor, largest(expected[r]));
    for (std::size_t i = 0; i < expected[r].data.size(); ++i) {
      const double a = expected[r].data[i], b = actual[r].data[i];
      if (std::isnan(a) && std::isnan(b)) continue;
      if (!(std::abs(a - b) <= allowed)) {
        return fmt::format("result {}, element {}: {} is not {} within {}", r, i, b, a, allowed);
      }
    }
  }
  return {};
}

}  // namespace rewire::testing
