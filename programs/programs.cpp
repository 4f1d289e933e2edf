// The programs that do not train, and the lists of the parameters that training changes.
#include "programs/programs.h"

#include <algorithm>
#include <unordered_set>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/side_results.h"
#include "programs/objective.h"
#include "programs/program.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

std::vector<std::string> trained_parameters(const ir::Module& module) {
  std::unordered_set<std::string_view> read;
  for (const ir::Op& op : module.function("forward").body) {
    if (op.code == Opcode::param) read.insert(op.attributes.get_string("name"));
  }
  std::vector<std::string> names;
  for (const ir::Parameter& p : module.parameters) {
    if (p.trainable && read.contains(p.name)) names.push_back(p.name);
  }
  return names;
}

std::string average_name(std::string_view weight) {
  return fmt::format("ema.{}", weight);
}

std::string_view weight_of(const ir::Parameter& state) {
  const std::string_view name = state.name;
  if (state.kind == ir::StateKind::weight) return name;
  if (state.kind == ir::StateKind::average) return name.substr(name.find('.') + 1);
  if (state.kind != ir::StateKind::moment || name.starts_with("optimizer.step")) return "";
  return name.substr(name.find('.', name.find('.') + 1) + 1);  // "<optimizer>.<role>.<weight>"
}

std::vector<std::string> averaged_parameters(const ir::Module& module) {
  std::vector<std::string> names = trained_parameters(module);
  for (const ir::Argument& result : ir::side_results(module.function("forward"), ir::kUpdatePrefix)) {
    const ir::Parameter* parameter = module.find_parameter(result.name);
    if (parameter != nullptr && parameter->is_weight() && ir::is_float(parameter->type.dtype))
      names.push_back(result.name);
  }
  return names;
}

void add_grad_program(ir::Module& module, const TrainOptions& options) {
  ProgramBuilder program(module, "grad");
  Gradients out = differentiate_loss(program, options, false);
  program.b.result("loss", out.loss);
  for (const Trainable& w : out.trainables) program.b.result(w.name, w.gradient);
  program.finish(true);
}

namespace {

/// Returns whether training takes inputs that evaluation does not take.
bool trains_on_others(const Objective& objective, const ir::Module& module) {
  const std::vector<NetworkFunction> forms = objective.forms();
  if (forms.size() > 1 || forms.front().images != 1) return true;
  return std::ranges::any_of(objective.training_inputs(module),
                             [](const Input& input) { return input.filler == Filler::file; });
}

/// Returns the loss as evaluation computes it for whole batches.
Value evaluated_loss(ProgramBuilder& program, const Objective& objective) {
  add_states(program.module, objective);
  const NamedValues inputs = feed(program, objective.inputs(program.module));
  InlinedNetwork network(program, {}, false);
  const std::int64_t batch = program.b.shape(inputs.begin()->second).at(0);
  const Value weight = program.b.constant(1, DType::f32, {batch});
  const Measured loss = objective.evaluate(program.b, network, inputs, weight).front();
  return loss.denominator ? program.b.div(loss.numerator, loss.denominator) : loss.numerator;
}

}  // namespace

void add_observed_program(ir::Module& module, const ir::Selection& selection, const std::string& name) {
  ProgramBuilder program(module, name);
  const std::unique_ptr<Objective> objective = make_objective(selection);
  if (trains_on_others(*objective, module)) {
    program.b.result("loss", evaluated_loss(program, *objective));
  } else {
    TrainOptions options;
    options.objective = selection;
    const Gradients out = differentiate_loss(program, options, false);
    program.b.result("loss", out.loss);
    for (const Trainable& w : out.trainables)
      program.b.result(std::string(kGradientPrefix) + w.name, w.gradient);
  }
  for (const ir::Argument& result : program.network_results)
    program.b.result(std::string(kForwardPrefix) + result.name, result.value);
  program.finish(false);
}

namespace {

/// The network with such low logits for absent classes that these have no probability. The logits are
/// finite, so the loss of a sample that fills up the batch, times its weight 0, is 0.
class PresentClasses final : public Network {
 public:
  PresentClasses(ProgramBuilder& program, Network& network) : program_(program), network_(network) {}

  NamedValues call(std::string_view function, const NamedValues& arguments, Reads reads) override {
    constexpr double kNever = -1e30;
    NamedValues results = network_.call(function, arguments, reads);
    const auto logits = results.find("logits");
    Builder& b = program_.b;
    if (logits == results.end() || b.type(logits->second).rank() != 2) {
      user_error(
          "eval.classes=present needs 'logits' [batch, classes], which the network does not give: set "
          "eval.classes=all");
    }
    Value& value = logits->second;
    if (b.type(value).dtype != DType::f64) value = b.cast(value, DType::f32);
    const ir::Shape shape = b.shape(value);
    if (!present_) present_ = b.argument("present", {DType::f32, {shape[1]}});
    const Value competes = b.compare("gt", present_, b.constant_like(present_, 0));
    value = b.select(b.broadcast(b.reshape(competes, {1, shape[1]}), shape), value,
                     b.constant_like(value, kNever));
    return results;
  }
  Value updates() override { return network_.updates(); }
  const Timeline& timeline() const override { return network_.timeline(); }

 private:
  ProgramBuilder& program_;
  Network& network_;
  Value present_;
};

Metrics add_evaluation(ir::Module& module, const ir::Selection& selection, const std::string& name,
                       bool averages, std::int64_t competing) {
  const std::unique_ptr<Objective> objective = make_objective(selection);
  ProgramBuilder program(module, name);
  if (averages) read_averages(program);
  add_states(module, *objective);
  const NamedValues inputs = feed(program, objective->inputs(module));
  const std::int64_t batch = program.b.shape(inputs.begin()->second).at(0);
  const Value weight = program.b.argument("weight", {DType::f32, {batch}});
  InlinedNetwork whole(program, {}, averages);
  PresentClasses restricted(program, whole);
  Network& network = competing == 0 ? static_cast<Network&>(whole) : restricted;
  std::vector<Measured> measured = objective->evaluate(program.b, network, inputs, weight);
  if (competing > 0 && !tells_top5(competing))
    std::erase_if(measured, [](const Measured& one) { return one.metric.name == "top5"; });
  const Metrics metrics = report(program, measured);
  program.finish(false);
  return metrics;
}

}  // namespace

void add_trace_program(ir::Module& module, const TrainOptions& options, bool backward) {
  ProgramBuilder program(module, "trace");
  const Gradients out = differentiate_loss(program, options, false, backward ? kTracePrefix : "");
  program.b.result("loss", out.loss);
  for (const ir::Argument& value : side_values(program, kTracePrefix))
    program.b.result(value.name, value.value);
  for (const ir::Argument& gradient : out.further)
    program.b.result(std::string(kGradientPrefix) + gradient.name, gradient.value);
  program.finish(true);
}

Metrics add_eval_program(ir::Module& module, const ir::Selection& objective, std::int64_t competing) {
  return add_evaluation(module, objective, "eval", false, competing);
}

Metrics add_average_eval_program(ir::Module& module, const ir::Selection& objective, std::int64_t competing) {
  return add_evaluation(module, objective, "eval_ema", true, competing);
}

namespace {

/// The inputs that both sampling programs take, and the velocity at this state.
struct SampleProgram {
  SampleProgram(ir::Module& module, const std::string& name, const Objective& objective,
                const SampleOptions& options)
      : program(module, name) {
    Builder& b = program.b;
    if (options.averages) read_averages(program);
    for (const Input& input : objective.inputs(module)) {
      if (input.name == "image") image = input.type;
    }
    if (options.guided) image.shape[0] /= 2;
    const ir::TensorType scalar{DType::f32, {}};
    at.image = b.argument("image", image);
    at.time = b.argument("time", scalar);
    step = b.argument("step", scalar);
    at.label = b.argument("label", {DType::i64, {image.shape[0]}});
    if (options.guided) at.guidance = b.argument("guidance", scalar);
    InlinedNetwork network(program, {}, false);
    velocity = objective.velocity(b, network, at);
    b.set_location("sample");
  }

  ProgramBuilder program;
  ir::TensorType image;
  SampleState at;
  Value step, velocity;
};

}  // namespace

std::vector<std::string> add_pictures_program(ir::Module& module, const ir::Selection& selection,
                                              std::int64_t samples, bool averages) {
  if (!ir::find_row(objectives(), "objective.name", selection.name).has_pictures) return {};
  const std::unique_ptr<Objective> objective = make_objective(selection);
  ProgramBuilder program(module, "pictures");
  if (averages) read_averages(program);
  const NamedValues inputs = feed(program, objective->inputs(module));
  InlinedNetwork network(program, {}, false);
  std::vector<std::string> names;
  for (const auto& [name, images] : objective->pictures(program.b, network, inputs)) {
    const std::int64_t batch = program.b.shape(images).at(0);
    const Value first = program.b.slice(images, 0, 0, std::min(samples, batch));
    program.b.result(name, program.b.cast(first, DType::f32));
    names.push_back(name);
  }
  if (!names.empty()) program.finish(false);
  return names;
}

void add_sample_programs(ir::Module& module, const ir::Selection& selection, const SampleOptions& options) {
  if (!ir::find_row(objectives(), "objective.name", selection.name).samples) {
    user_error("the objective {} draws no samples; diffusion does (objective.name=diffusion)",
               selection.name);
  }
  const std::unique_ptr<Objective> objective = make_objective(selection);
  SampleProgram euler(module, "sample_step", *objective, options);
  Builder& b = euler.program.b;
  b.result("image", b.add(euler.at.image, b.mul(euler.velocity, euler.step)));
  b.result("velocity", euler.velocity);
  euler.program.finish(false);
  if (!options.corrects) return;
  SampleProgram heun(module, "sample_correct", *objective, options);
  Builder& c = heun.program.b;
  const Value before = c.argument("before", heun.image), velocity = c.argument("velocity", heun.image);
  const Value half = c.mul(heun.step, 0.5);
  c.result("image", c.add(before, c.mul(c.add(velocity, heun.velocity), half)));
  heun.program.finish(false);
}

}  // namespace rewire::programs
