// Programs from a forward function. Each one inlines a copy of `forward`, so that passes specialise it alone
// (is_training, dead code) and the runtime launches one straight line.
#include "runtime/train/program.h"

#include <map>
#include <set>
#include <unordered_set>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "runtime/train/loss.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/schedule.h"

namespace rewire::runtime {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

/// A program under construction. The function joins the module when it is done, for growing
/// Module::functions moves the others.
struct Program {
  ir::Module& module;
  ir::Function function;
  Builder b;
  std::map<std::string, Value, std::less<>> read;  // the one value that each parameter has here

  Program(ir::Module& target, std::string name)
      : module(target), function{std::move(name), {}, {}, {}, {}}, b(module, function) {}

  Value param(std::string_view name) {
    auto it = read.find(name);
    if (it == read.end()) it = read.emplace(name, b.param(name)).first;
    return it->second;
  }
  void update(std::string_view name, Value value, Value predicate = {}) {
    std::vector<Value> operands = {value};
    if (predicate) operands.push_back(predicate);
    b.emit_all(Opcode::update, operands, {{"name", std::string(name)}});
  }
  void finish(bool training) {
    if (training) {
      std::string list(module.attributes.has("training") ? module.attributes.get_string("training") : "");
      module.attributes.set("training", list.empty() ? function.name : list + "+" + function.name);
    }
    module.functions.push_back(std::move(function));
  }
};

/// Adds state of the run (seed, step, flags); plugins and models may have added the same before.
void add_state(ir::Module& module, std::string_view name, DType dtype, ir::InitKind init) {
  ir::Parameter p;
  p.name = name;
  p.type = {dtype, {}};
  p.init.kind = init;
  p.trainable = p.decay = false;
  p.role = "state";
  module.add_parameter(std::move(p));
}

/// Copies the body of `forward` to the end of the program and returns its result `logits`. `bound` maps the
/// arguments' values, and every `param` reads through Program::param, so that a weight has one value however
/// often the model reads it.
Value inline_forward(Program& program, const std::map<std::string, Value, std::less<>>& bound) {
  const ir::Function& forward = program.module.function("forward");
  std::vector<Value> renamed(forward.types.size());
  auto at = [&](Value value) -> Value& { return renamed.at(static_cast<std::size_t>(value.id)); };
  for (const ir::Argument& argument : forward.arguments) {
    auto it = bound.find(argument.name);
    if (it == bound.end()) user_error("the model takes '{}'; training feeds 'image' alone", argument.name);
    at(argument.value) = it->second;
  }
  for (const ir::Op& op : forward.body) {
    if (op.code == Opcode::param) {
      program.b.set_location(op.location);
      at(op.results[0]) = program.param(op.attributes.get_string("name"));
      continue;
    }
    ir::Op copy = op;
    for (Value& operand : copy.operands) operand = at(operand);
    for (Value& result : copy.results) {
      Value fresh = program.function.new_value(forward.type(result));
      at(result) = fresh;
      result = fresh;
    }
    program.function.body.push_back(std::move(copy));
    program.b.set_position(program.function.body.size());
  }
  Value logits = forward.result("logits");
  if (!logits) user_error("the model has no result 'logits'; training needs one of shape [batch, classes]");
  return at(logits);
}

struct BatchValues {
  Value image, label, logits;
};

/// The arguments image and label, and the logits of the inlined forward.
BatchValues feed(Program& program) {
  const ir::Function& forward = program.module.function("forward");
  Value image = forward.argument("image");
  if (!image) user_error("the model has no argument 'image'; training needs one");
  BatchValues batch;
  batch.image = program.b.argument("image", forward.type(image));
  const ir::TensorType& type = program.b.type(batch.image);
  batch.label = program.b.argument("label", {DType::i64, {type.shape.at(0)}});
  batch.logits = inline_forward(program, {{"image", batch.image}});
  return batch;
}

struct Gradients {
  Value loss;
  BatchValues batch;
  std::vector<Trainable> trainables;
};

/// The mean loss of the batch and its gradient by each of trained_parameters(module).
Gradients differentiate_loss(Program& program, const TrainOptions& options) {
  Gradients out;
  out.batch = feed(program);
  program.b.set_location("loss");
  out.loss = mean_loss(program.b,
                       sample_loss(program.b, out.batch.logits, out.batch.label, options.label_smoothing));
  std::vector<Value> wrt;
  for (const std::string& name : trained_parameters(program.module)) {
    wrt.push_back(program.param(name));
    out.trainables.push_back({name, wrt.back(), {}});
  }
  const std::vector<Value> gradients = ir::differentiate(program.b, out.loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) out.trainables[i].gradient = gradients[i];
  return out;
}

/// The results that each training batch reports.
void report_batch(Program& program, const Gradients& gradients) {
  Builder& b = program.b;
  b.set_location("loss");
  b.result("loss", gradients.loss);
  b.result("correct1", count_hits(b, label_rank(b, gradients.batch.logits, gradients.batch.label), 1));
}

void check_training(const ir::Module& module, const TrainOptions& options) {
  if (options.accumulate < 1) user_error("train.accumulate is {}; it must be at least 1", options.accumulate);
  if (!(options.clip_norm >= 0))
    user_error("train.clip_norm is {}; it must not be negative", options.clip_norm);
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    user_error("train.label_smoothing is {}; it must lie in [0, 1)", options.label_smoothing);
  }
  for (const std::string& name : trained_parameters(module)) {
    const ir::TensorType& type = module.find_parameter(name)->type;
    if (type.dtype != DType::f32) {
      user_error("parameter '{}' is {}; the optimizers keep weights in f32", name, to_string(type));
    }
  }
}

/// sqrt of the sum of all squares, f32[].
Value global_norm(Builder& b, const std::vector<Trainable>& trainables) {
  Value total;
  for (const Trainable& w : trainables) {
    Value g = b.cast(w.gradient, DType::f32);
    Value squares = sum_all(b, b.mul(g, g));
    total = total ? b.add(total, squares) : squares;
  }
  return total ? b.unary(Opcode::sqrt, total) : b.constant(0);
}

Value all_of(Builder& b, std::initializer_list<Value> conditions) {
  Value all;
  for (Value c : conditions) all = all ? b.binary(Opcode::logical_and, all, c) : c;
  return all;
}

/// g * min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
void clip(Builder& b, std::vector<Trainable>& trainables, Value norm, double limit) {
  if (limit == 0) return;
  Value scale = b.div(b.constant_like(norm, limit), b.add(norm, 1e-6));
  scale = b.binary(Opcode::minimum, scale, b.constant_like(scale, 1));
  for (Trainable& w : trainables) w.gradient = b.mul(w.gradient, scale);
}

/// One optimizer update from gradients that are final; `loss` may be absent. Names grad_norm, finite and lr
/// as results; nothing but train.finite changes when the flag falls.
void optimize(Program& program, std::vector<Trainable> trainables, Value loss, const TrainOptions& options,
              const UpdateCounters& counters) {
  Builder& b = program.b;
  b.set_location("optimizer");
  Value norm = global_norm(b, trainables);
  Value finite = all_of(b, {program.param("train.finite"), b.unary(Opcode::isfinite, norm)});
  if (loss) finite = all_of(b, {finite, b.unary(Opcode::isfinite, loss)});
  clip(b, trainables, norm, options.clip_norm);
  Value step = program.param("train.step");
  Value lr = learning_rate(b, step, options.optimizer.lr, options.schedule);
  Value updates = program.param("optimizer.step");
  std::set<std::string_view> counting = {"optimizer.step"};
  for (Trainable& w : trainables) {
    const auto counter = counters.find(w.name);
    if (counter == counters.end()) continue;
    w.updates = program.param(counter->second);
    counting.insert(counter->second);
  }
  emit_optimizer(b, trainables, lr, updates, finite, options.optimizer);
  b.set_location("optimizer");
  for (const std::string_view counter : counting)
    program.update(counter, b.add(program.param(counter), 1), finite);
  program.update("train.step", b.add(step, 1), finite);
  program.update("train.finite", finite);
  b.result("grad_norm", norm);
  b.result("finite", finite);
  b.result("lr", b.cast(lr, DType::f32));
}

void add_plain_step(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  Program program(module, "step");
  Gradients out = differentiate_loss(program, options);
  report_batch(program, out);
  optimize(program, std::move(out.trainables), out.loss, options, counters);
  program.finish(true);
}

/// accumulate.w += g / k. Each micro-batch draws its own random numbers: to the forward, the step is
/// train.step * k + train.micro_step.
void add_accumulate(ir::Module& module, const TrainOptions& options) {
  add_state(module, "train.micro_step", DType::i64, ir::InitKind::zeros);
  Program program(module, "accumulate");
  Builder& b = program.b;
  b.set_location("accumulate");
  Value micro = program.param("train.micro_step");
  Value draw = b.add(b.mul(b.param("train.step"), static_cast<double>(options.accumulate)), micro);
  program.read.emplace("train.step", draw);

  Gradients out = differentiate_loss(program, options);
  report_batch(program, out);
  b.set_location("accumulate");
  Value norm = global_norm(b, out.trainables);
  Value finite = all_of(b, {program.param("train.finite"), b.unary(Opcode::isfinite, norm),
                            b.unary(Opcode::isfinite, out.loss)});
  for (const Trainable& w : out.trainables) {
    b.set_location("accumulate." + w.name);
    Value sum = moment(b, "accumulate", w);
    Value share = b.div(w.gradient, static_cast<double>(options.accumulate));
    program.update("accumulate." + w.name, b.add(sum, share), finite);
  }
  b.set_location("accumulate");
  program.update("train.micro_step", b.add(micro, 1), finite);
  program.update("train.finite", finite);
  b.result("finite", finite);
  program.finish(true);
}

/// The optimizer on what has been accumulated, which it clears.
void add_apply(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  Program program(module, "apply");
  Builder& b = program.b;
  std::vector<Trainable> trainables;
  for (const std::string& name : trained_parameters(module)) {
    Trainable w{name, program.param(name), {}};
    w.gradient = moment(b, "accumulate", w);
    trainables.push_back(std::move(w));
  }
  optimize(program, trainables, {}, options, counters);
  b.set_location("accumulate");
  const Value finite = program.function.result("finite");
  for (const Trainable& w : trainables) {
    const ir::TensorType& type = b.type(w.value);
    program.update("accumulate." + w.name, b.constant(0, type.dtype, type.shape), finite);
  }
  program.update("train.micro_step", b.constant(0, DType::i64), finite);
  program.finish(true);
}

}  // namespace

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

void add_grad_program(ir::Module& module, const TrainOptions& options) {
  Program program(module, "grad");
  Gradients out = differentiate_loss(program, options);
  program.b.result("loss", out.loss);
  for (const Trainable& w : out.trainables) program.b.result(w.name, w.gradient);
  program.finish(true);
}

void add_step_program(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  check_optimizer(options.optimizer);
  check_schedule(options.schedule);
  check_training(module, options);
  add_state(module, "rng.seed", DType::i64, ir::InitKind::zeros);
  add_state(module, "train.step", DType::i64, ir::InitKind::zeros);
  add_state(module, "train.finite", DType::i1, ir::InitKind::ones);
  add_state(module, "optimizer.step", DType::i64, ir::InitKind::zeros);
  for (const std::string& name : trained_parameters(module)) {
    const auto counter = counters.find(name);
    if (counter != counters.end()) add_state(module, counter->second, DType::i64, ir::InitKind::zeros);
  }
  if (options.accumulate == 1) {
    add_plain_step(module, options, counters);
  } else {
    add_accumulate(module, options);
    add_apply(module, options, counters);
  }
}

void add_eval_program(ir::Module& module) {
  Program program(module, "eval");
  Builder& b = program.b;
  const BatchValues batch = feed(program);
  b.set_location("eval");
  Value weight = b.argument("weight", {DType::f32, {b.shape(batch.logits).at(0)}});
  Value loss = sample_loss(b, batch.logits, batch.label, 0);
  Value rank = label_rank(b, batch.logits, batch.label);
  b.result("loss_sum", sum_all(b, b.mul(b.cast(loss, DType::f32), weight)));
  b.result("correct1", count_hits(b, rank, 1, weight));
  b.result("correct5", count_hits(b, rank, 5, weight));
  b.result("count", sum_all(b, weight));
  program.finish(false);
}

}  // namespace rewire::runtime
