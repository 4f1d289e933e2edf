#include "programs/program.h"

#include <algorithm>

#include "ir/autodiff/autodiff.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/side_results.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

const std::string kCategories = "categories.";

std::vector<std::string> names_of(const NamedValues& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

/// Returns a report or a term of the loss. A module that
/// somebody wrote may give it any type, so it is checked.
Value side_scalar(ProgramBuilder& program, const ir::Argument& result, DType dtype) {
  const ir::TensorType& type = program.b.type(result.value);
  if (!ir::is_float(type.dtype) || type.rank() != 0)
    user_error("the model's result '{}' is {}; it must be a float scalar", result.name, to_string(type));
  return program.b.cast(result.value, dtype);
}

/// Names that no metric may have, because a run's lines and a program's results use them.
constexpr std::string_view kReserved[] = {
    "kind",          "epoch",   "step",          "grad_norm", "lr",        "finite",
    "samples_per_s", "samples", "images_per_s",  "images",    "seconds",   "run",
    "complete",      "steps",   "status",        "recipe",    "error",     "plugins",
    "wall_seconds",  "peak_mb", "train_seconds", "test_loss", "train_loss"};

}  // namespace

Value ProgramBuilder::param(std::string_view name) {
  auto it = read.find(name);
  if (it == read.end()) it = read.emplace(name, b.param(name)).first;
  return it->second;
}

void ProgramBuilder::update(std::string_view name, Value value, Value predicate) {
  std::vector<Value> operands = {value};
  if (predicate) operands.push_back(predicate);
  b.emit_all(Opcode::update, operands, {{"name", std::string(name)}});
}

void ProgramBuilder::finish(bool trains) {
  function.trains = trains;
  module.functions.push_back(std::move(function));
}

void inline_op(ProgramBuilder& program, const ir::Function& forward, const ir::Op& op,
               std::vector<Value>& renamed, const Inlining& how) {
  if (op.code == Opcode::update) {
    user_error(
        "{} updates '{}' itself, even if the step is not finite; return the next value as its result '{}{}'",
        forward.name, op.attributes.get_string("name"), ir::kUpdatePrefix, op.attributes.get_string("name"));
  }
  const auto at = [&](Value value) -> Value& { return renamed.at(static_cast<std::size_t>(value.id)); };
  if (op.code == Opcode::is_training && !how.trains) {
    at(op.results[0]) = program.b.constant(0, DType::i1);
    return;
  }
  ir::Op copy = op;
  for (Value& operand : copy.operands) operand = at(operand);
  for (Value& result : copy.results) {
    const Value fresh = program.function.new_value(forward.type(result));
    at(result) = fresh;
    result = fresh;
  }
  if (!how.own_stream.empty() && copy.attributes.has("stream"))
    copy.attributes.set("stream", copy.attributes.get_string("stream") + how.own_stream);
  program.function.body.push_back(std::move(copy));
  program.b.set_position(program.function.body.size());
}

std::set<std::string, std::less<>> averaged_names(const ir::Module& module) {
  const std::vector<std::string> names = averaged_parameters(module);
  return {names.begin(), names.end()};
}

Value read_average(ProgramBuilder& program, const std::string& weight) {
  const std::string name = average_name(weight);
  const ir::TensorType type = program.module.find_parameter(weight)->type;
  program.module.add_state(name, type, ir::StateKind::average).average_of = weight;
  return program.param(name);
}

void read_averages(ProgramBuilder& program) {
  for (const std::string& weight : averaged_parameters(program.module))
    program.read.emplace(weight, read_average(program, weight));
}

NamedValues InlinedNetwork::call(std::string_view name, const NamedValues& arguments, Reads reads) {
  const bool averages = reads == Reads::averages;
  if (averages && !has_averages_)
    internal_error("the objective reads averages of the weights, but the program has none");
  const ir::Function& function = program_.module.function(name);
  std::vector<Value> renamed(function.types.size());
  const auto at = [&](Value value) -> Value& { return renamed.at(static_cast<std::size_t>(value.id)); };
  for (const ir::Argument& argument : function.arguments) {
    const auto bound = arguments.find(argument.name);
    if (bound == arguments.end()) {
      user_error("the model takes '{}', but the objective feeds only: {}", argument.name,
                 fmt::join(names_of(arguments), ", "));
    }
    at(argument.value) = bound->second;
  }
  const auto averaged = averages ? averaged_names(program_.module) : std::set<std::string, std::less<>>();
  const Inlining how{!averages, calls_ == 0 ? "" : fmt::format("#{}", calls_)};
  for (const ir::Op& op : function.body) {
    if (op.code != Opcode::param) {
      inline_op(program_, function, op, renamed, how);
      continue;
    }
    program_.b.set_location(op.location);
    const std::string& weight = op.attributes.get_string("name");
    at(op.results[0]) = averaged.contains(weight) ? read_average(program_, weight) : program_.param(weight);
  }
  NamedValues results;
  for (const ir::Argument& result : function.results) {
    results.emplace(result.name, at(result.value));
    // The step uses the reports, loss terms and updates of one pass only.
    if (calls_ == 0) program_.network_results.push_back({result.name, at(result.value)});
  }
  ++calls_;
  return results;
}

Value InlinedNetwork::updates() {
  program_.module.add_state("train.step", {DType::i64, {}}, ir::StateKind::counter);
  return program_.b.param("train.step");
}

std::vector<ir::Argument> side_values(const ProgramBuilder& program, std::string_view prefix) {
  std::vector<ir::Argument> found;
  for (const ir::Argument& result : program.network_results) {
    if (result.name.starts_with(prefix)) found.push_back(result);
  }
  return found;
}

NamedValues feed(ProgramBuilder& program, const Inputs& wanted) {
  NamedValues inputs;
  std::vector<std::string> forged;
  for (const auto& [name, value] : program.module.attributes) {
    if (name.starts_with(kCategories)) forged.push_back(name);
  }
  for (const std::string& name : forged) program.module.attributes.erase(name);
  for (const Input& input : wanted) {
    inputs.emplace(input.name, program.b.argument(input.name, input.type));
    if (input.categories > 0)
      program.module.attributes.set(kCategories + input.name, std::int64_t{input.categories});
  }
  return inputs;
}

Metrics report(ProgramBuilder& program, const std::vector<Measured>& measured) {
  Metrics metrics;
  std::map<std::string, Value, std::less<>> named;
  const auto name = [&](const std::string& result, Value value) {
    if (!value) return;
    const auto [known, is_new] = named.emplace(result, value);
    if (known->second != value) internal_error("the metrics' result '{}' has two values", result);
    if (program.b.type(value).rank() != 0)
      internal_error("the metrics' result '{}' is {}, not a scalar", result,
                     to_string(program.b.type(value)));
    if (is_new) program.b.result(result, program.b.cast(value, DType::f32));
  };
  for (const auto& [metric, numerator, denominator] : measured) {
    if (std::ranges::find(kReserved, metric.name) != std::end(kReserved) ||
        std::ranges::find(kReserved, metric.numerator) != std::end(kReserved) ||
        std::ranges::find(metrics, metric.name, &Metric::name) != metrics.end())
      internal_error("the objective names a metric '{}', a name already in use", metric.name);
    name(metric.numerator, numerator);
    metrics.push_back(metric);
  }
  for (const Measured& one : measured) name(one.metric.denominator, one.denominator);
  return metrics;
}

void add_states(ir::Module& module, const Objective& objective) {
  for (const Remembered& state : objective.states(module))
    module.add_state(state_name(state), state.type, ir::StateKind::statistic, state.init);
}

Gradients differentiate_loss(ProgramBuilder& program, const TrainOptions& options, bool reports,
                             std::string_view by) {
  const std::unique_ptr<Objective> objective = make_objective(options.objective);
  add_states(program.module, *objective);
  const NamedValues inputs = feed(program, objective->training_inputs(program.module));
  InlinedNetwork network(program, options.timeline, objective->reads_averages());
  const Trained trained = objective->train(program.b, network, inputs);
  for (const ir::Argument& next : side_values(program, ir::kUpdatePrefix))
    program.next.push_back({next.name.substr(ir::kUpdatePrefix.size()), next.value});
  for (const Remembered& state : objective->states(program.module))
    program.next.push_back({state_name(state), trained.next.at(state.name)});
  Gradients out;
  out.loss = trained.loss;
  out.count = trained.count;
  program.b.set_location("loss");
  for (const ir::Argument& term : side_values(program, ir::kLossPrefix))
    out.loss = program.b.add(out.loss, side_scalar(program, term, program.b.type(out.loss).dtype));
  // Over several batches, a loss is the mean over the terms of all.
  const auto mean = [&](const char* name, const char* sum, Value loss) -> Measured {
    if (!trained.count) return {{name, name}, loss};
    return {{name, sum, "terms"},
            program.b.mul(loss, program.b.cast(trained.count, program.b.type(loss).dtype)),
            trained.count};
  };
  std::vector<Measured> metrics = {mean("loss", "loss_sum", out.loss)};
  if (trained.count && reports)
    program.b.result("loss", program.b.cast(out.loss, DType::f32));  // of this batch
  metrics.insert(metrics.end(), trained.metrics.begin(), trained.metrics.end());
  if (out.loss != trained.loss) metrics.push_back(mean("plain_loss", "plain_loss_sum", trained.loss));
  std::vector<Value> wrt;
  for (const std::string& name : trained_parameters(program.module)) {
    wrt.push_back(program.param(name));
    out.trainables.push_back({name, wrt.back(), {}});
  }
  if (!by.empty()) {
    for (const ir::Argument& result : side_values(program, by)) {
      if (!ir::is_float(program.b.type(result.value).dtype)) continue;
      wrt.push_back(result.value);
      out.further.push_back({result.name, {}});
    }
  }
  const std::vector<Value> gradients = ir::differentiate(program.b, out.loss, wrt);
  const std::size_t weights = out.trainables.size();
  for (std::size_t i = 0; i < weights; ++i) out.trainables[i].gradient = gradients[i];
  for (std::size_t i = 0; i < out.further.size(); ++i) out.further[i].value = gradients[weights + i];
  if (!reports) return out;
  program.b.set_location("loss");
  for (const ir::Argument& reported : side_values(program, ir::kReportPrefix)) {
    metrics.push_back({{reported.name, reported.name}, side_scalar(program, reported, DType::f32)});
  }
  out.metrics = report(program, metrics);
  return out;
}

std::int64_t categories(const ir::Module& module, std::string_view input) {
  const ir::Attribute* value = module.attributes.find(kCategories + std::string(input));
  const auto* count = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return count == nullptr ? 0 : std::max<std::int64_t>(0, *count);
}

}  // namespace rewire::programs
