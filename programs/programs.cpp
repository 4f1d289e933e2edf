// Programs from a forward function. Each one inlines a copy of `forward`, so that passes specialise it alone
// (is_training, dead code) and the runtime launches one straight line.
#include "programs/programs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_set>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/side_results.h"
#include "programs/optimizer.h"
#include "programs/sums.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

const std::string kCategories = "categories.";

/// A program under construction. The function joins the module when it is done, for growing
/// Module::functions moves the others.
struct Program {
  ir::Module& module;
  ir::Function function;
  Builder b;
  std::map<std::string, Value, std::less<>> read;  // the one value that each parameter has here
  std::vector<ir::Argument> network_results;       // of the first call, as values of this program
  std::vector<ir::Argument> next;                  // of weights and states that do not train, by their names

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

/// How a function is copied into a program.
struct Inlining {
  bool trains = true;           // else is_training is false in it, whatever the program does
  std::string own_stream = {};  // behind the names of its random streams
};

/// Copies an op of `forward` to the end of the program; `renamed` has the values of its operands by their ids
/// in forward, and gets those of its results.
void inline_op(Program& program, const ir::Function& forward, const ir::Op& op, std::vector<Value>& renamed,
               const Inlining& how = {}) {
  if (op.code == Opcode::update) {
    user_error(
        "{} updates '{}' itself, whether or not the step is finite; it is to give the next value as its "
        "result '{}{}'",
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

/// Reads the average of a weight, which is added to the module where it has not got it.
Value read_average(Program& program, const std::string& weight) {
  const std::string name = average_name(weight);
  const ir::TensorType type = program.module.find_parameter(weight)->type;
  program.module.add_state(name, type, ir::StateKind::average).average_of = weight;
  return program.param(name);
}

bool is_averaged(const ir::Module& module, const std::string& weight) {
  const std::vector<std::string> names = averaged_parameters(module);
  return std::ranges::find(names, weight) != names.end();
}

class InlinedNetwork : public Network {
 public:
  InlinedNetwork(Program& program, const Timeline& timeline, bool has_averages)
      : program_(program), timeline_(timeline), has_averages_(has_averages) {}

  /// Every `param` reads through Program::param, so that a weight has one value however often it is read.
  NamedValues call(std::string_view name, const NamedValues& arguments, Reads reads) override {
    const bool averages = reads == Reads::averages;
    if (averages && !has_averages_)
      internal_error("the objective reads averages of the weights in a program that has none");
    const ir::Function& function = program_.module.function(name);
    std::vector<Value> renamed(function.types.size());
    const auto at = [&](Value value) -> Value& { return renamed.at(static_cast<std::size_t>(value.id)); };
    for (const ir::Argument& argument : function.arguments) {
      const auto bound = arguments.find(argument.name);
      if (bound == arguments.end()) {
        user_error("the model takes '{}', which the objective does not feed: {}", argument.name,
                   fmt::join(names_of(arguments), ", "));
      }
      at(argument.value) = bound->second;
    }
    const Inlining how{!averages, calls_ == 0 ? "" : fmt::format("#{}", calls_)};
    for (const ir::Op& op : function.body) {
      if (op.code != Opcode::param) {
        inline_op(program_, function, op, renamed, how);
        continue;
      }
      program_.b.set_location(op.location);
      const std::string& weight = op.attributes.get_string("name");
      at(op.results[0]) = averages && is_averaged(program_.module, weight) ? read_average(program_, weight)
                                                                           : program_.param(weight);
    }
    NamedValues results;
    for (const ir::Argument& result : function.results) {
      results.emplace(result.name, at(result.value));
      // What they ask of the step is that of one pass.
      if (calls_ == 0) program_.network_results.push_back({result.name, at(result.value)});
    }
    ++calls_;
    return results;
  }

  Value updates() override {
    program_.module.add_state("train.step", {DType::i64, {}}, ir::StateKind::counter);
    return program_.b.param("train.step");
  }

  const Timeline& timeline() const override { return timeline_; }

 private:
  static std::vector<std::string> names_of(const NamedValues& values) {
    std::vector<std::string> names;
    for (const auto& [name, value] : values) names.push_back(name);
    return names;
  }

  Program& program_;
  const Timeline timeline_;
  const bool has_averages_;
  int calls_ = 0;
};

/// The results of the inlined forward whose names begin so; the whole names stay.
std::vector<ir::Argument> side_values(const Program& program, std::string_view prefix) {
  std::vector<ir::Argument> found;
  for (const ir::Argument& result : program.network_results) {
    if (result.name.starts_with(prefix)) found.push_back(result);
  }
  return found;
}

/// Reports and terms of the loss, which a module that somebody wrote may have of any type.
Value side_scalar(Program& program, const ir::Argument& result, DType dtype) {
  const ir::TensorType& type = program.b.type(result.value);
  if (!ir::is_float(type.dtype) || type.rank() != 0)
    user_error("the model's result '{}' is {}; it must be a float scalar", result.name, to_string(type));
  return program.b.cast(result.value, dtype);
}

/// The objective's inputs as arguments of the program.
NamedValues feed(Program& program, const Inputs& wanted) {
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

/// Names of a run's lines and of a program's results that no metric may take.
constexpr std::string_view kReserved[] = {
    "kind",         "epoch",   "step",          "grad_norm", "lr",        "finite", "images_per_s", "images",
    "seconds",      "run",     "complete",      "steps",     "status",    "recipe", "error",        "plugins",
    "wall_seconds", "peak_mb", "train_seconds", "test_loss", "train_loss"};

/// Names the results that the metrics need, each once and as f32.
Metrics report(Program& program, const std::vector<Measured>& measured) {
  Metrics metrics;
  std::map<std::string, Value, std::less<>> named;
  const auto name = [&](const std::string& result, Value value) {
    if (!value) return;
    const auto [known, is_new] = named.emplace(result, value);
    if (known->second != value) internal_error("two values are the metrics' result '{}'", result);
    if (program.b.type(value).rank() != 0)
      internal_error("the metrics' result '{}' is {}, no scalar", result, to_string(program.b.type(value)));
    if (is_new) program.b.result(result, program.b.cast(value, DType::f32));
  };
  for (const auto& [metric, numerator, denominator] : measured) {
    if (std::ranges::find(kReserved, metric.name) != std::end(kReserved) ||
        std::ranges::find(kReserved, metric.numerator) != std::end(kReserved) ||
        std::ranges::find(metrics, metric.name, &Metric::name) != metrics.end())
      internal_error("the objective names a metric '{}', which is taken", metric.name);
    name(metric.numerator, numerator);
    metrics.push_back(metric);
  }
  for (const Measured& one : measured) name(one.metric.denominator, one.denominator);
  return metrics;
}

/// What the objective remembers, added to the module where it has not got it.
void add_states(ir::Module& module, const Objective& objective) {
  for (const Remembered& state : objective.states(module))
    module.add_state(state_name(state), state.type, ir::StateKind::statistic, state.init);
}

/// What a step gives new values of beside what it trains, by name.
std::vector<std::string> updated_states(const ir::Module& module, const Objective& objective) {
  std::vector<std::string> names;
  for (const ir::Argument& next : ir::side_results(module.function("forward"), ir::kUpdatePrefix))
    names.push_back(next.name);
  for (const Remembered& state : objective.states(module)) names.push_back(state_name(state));
  return names;
}

struct Gradients {
  Value loss;
  Metrics metrics;
  std::vector<Trainable> trainables;
};

/// The loss of the batch, its gradient by each of trained_parameters(module), and the results that tell of
/// the batch.
Gradients differentiate_loss(Program& program, const TrainOptions& options, bool reports) {
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
  program.b.set_location("loss");
  for (const ir::Argument& term : side_values(program, ir::kLossPrefix))
    out.loss = program.b.add(out.loss, side_scalar(program, term, program.b.type(out.loss).dtype));
  std::vector<Measured> metrics = {{{"loss", "loss"}, out.loss}};
  metrics.insert(metrics.end(), trained.metrics.begin(), trained.metrics.end());
  if (out.loss != trained.loss) metrics.push_back({{"plain_loss", "plain_loss"}, trained.loss});
  std::vector<Value> wrt;
  for (const std::string& name : trained_parameters(program.module)) {
    wrt.push_back(program.param(name));
    out.trainables.push_back({name, wrt.back(), {}});
  }
  const std::vector<Value> gradients = ir::differentiate(program.b, out.loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) out.trainables[i].gradient = gradients[i];
  if (!reports) return out;
  program.b.set_location("loss");
  for (const ir::Argument& reported : side_values(program, ir::kReportPrefix)) {
    metrics.push_back({{reported.name, reported.name}, side_scalar(program, reported, DType::f32)});
  }
  out.metrics = report(program, metrics);
  return out;
}

/// A variance over one value is 0 whatever the value is.
void check_batch_norms(const ir::Function& forward) {
  for (const ir::Op& op : forward.body) {
    if (op.code != Opcode::batch_norm) continue;
    if (forward.type(op.operands[0]).elements() > forward.type(op.operands[1]).elements()) continue;
    user_error(
        "{}: a batch norm in training would see one value a channel: raise train.batch above 1, or "
        "model.image",
        op.location);
  }
}

void check_training(const ir::Module& module, const TrainOptions& options) {
  check_batch_norms(module.function("forward"));
  if (!(options.ema >= 0 && options.ema < 1))
    user_error("train.ema is {}; it must be at least 0 and below 1", options.ema);
  if (options.ema_warmup && options.ema == 0)
    user_error("train.ema_warmup is on and train.ema is 0: no average is kept; set train.ema too");
  if (options.ema == 0 && make_objective(options.objective)->reads_averages())
    user_error(
        "the objective {} reads moving averages of the weights, and train.ema is 0: set it, as to 0.996",
        options.objective.name);
  if (options.ema_end >= 0 && options.ema == 0)
    user_error("train.ema_end is {} and train.ema is 0: no average is kept; set train.ema too",
               options.ema_end);
  if (options.ema_end >= 0 && options.timeline.total_steps == 0)
    user_error("train.ema_end={}: the run has no end, so that the decay cannot get there", options.ema_end);
  if (options.clip_each && options.clip_norm == 0)
    user_error("train.clip is each and train.clip_norm is 0: nothing is clipped; set train.clip_norm too");
  if (options.accumulate < 1) user_error("train.accumulate is {}; it must be at least 1", options.accumulate);
  if (!(options.clip_norm >= 0))
    user_error("train.clip_norm is {}; it must not be negative", options.clip_norm);
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

/// g * min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; by each gradient's own norm, as DINO has it, or by
/// that of all.
void clip(Builder& b, std::vector<Trainable>& trainables, Value norm, const TrainOptions& options) {
  if (options.clip_norm == 0) return;
  const auto scale_of = [&](Value length) {
    const Value scale = b.div(b.constant_like(length, options.clip_norm), b.add(length, 1e-6));
    return b.binary(Opcode::minimum, scale, b.constant_like(scale, 1));
  };
  const Value common = options.clip_each ? Value{} : scale_of(norm);
  for (Trainable& w : trainables)
    w.gradient = b.mul(w.gradient, common ? common : scale_of(norm_of(b, w.gradient)));
}

/// Gives the weights that the objective holds still their predicate and a count of their own; what counts, with the
/// predicate.
std::map<std::string, Value, std::less<>> hold(Program& program, std::vector<Trainable>& trainables,
                                               Value step, const TrainOptions& options) {
  Builder& b = program.b;
  std::map<std::string, Value, std::less<>> counts;
  for (const Held& held : make_objective(options.objective)->held(program.module)) {
    const auto weight = std::ranges::find(trainables, held.weight, &Trainable::name);
    if (weight == trainables.end() || held.epochs == 0) continue;
    const Value first = b.constant_like(step, static_cast<double>(options.timeline.steps(held.epochs)));
    weight->moves = b.compare("ge", step, first);
    const std::string count = fmt::format("optimizer.step.held.{}", held.weight);
    program.module.add_state(count, {DType::i64, {}}, ir::StateKind::moment);
    weight->updates = program.param(count);
    counts.emplace(count, weight->moves);
  }
  return counts;
}

/// Whether forward asks for the share of the run that is done, and the run has an end.
bool counts_progress(const ir::Module& module, const TrainOptions& options) {
  return options.timeline.total_steps != 0 && module.find_parameter(ir::kProgress) != nullptr;
}

/// min(steps / total, 1) of `steps` i64[] updates, f32[]; the division is in f64.
Value share_done(Builder& b, Value steps, const TrainOptions& options) {
  Value share = b.div(b.cast(steps, DType::f64), static_cast<double>(options.timeline.total_steps));
  return b.cast(b.binary(Opcode::minimum, share, b.constant_like(share, 1)), DType::f32);
}

/// What reads the progress in this program has that of train.step.
void bind_progress(Program& program, const TrainOptions& options) {
  if (!counts_progress(program.module, options)) return;
  program.b.set_location("progress");
  program.read.emplace(ir::kProgress, share_done(program.b, program.b.param("train.step"), options));
}

/// A number that is finite where all next values are of what does not train; none where there are none. A batch norm's
/// variance may overflow while loss and gradients do not.
Value magnitude_of_updates(Program& program) {
  Builder& b = program.b;
  Value total;
  for (const ir::Argument& next : program.next) {
    const ir::TensorType type = b.type(next.value);
    if (!ir::is_float(type.dtype)) continue;
    ir::Ints axes(static_cast<std::size_t>(type.rank()));
    std::iota(axes.begin(), axes.end(), 0);
    const Value wide = b.cast(b.unary(Opcode::abs, next.value), DType::f32);
    const Value sum = b.reshape(b.sum(wide, axes), {});
    total = total ? b.add(total, sum) : sum;
  }
  return total;
}

/// The result after_step.<weight> of forward as a function of another value of the weight: the ops that it
/// depends on, behind what the program has.
Value constrained(Program& program, const std::string& weight, Value constraint, Value updated) {
  const ir::Function& forward = program.module.function("forward");
  std::vector<bool> needed(forward.types.size());
  const auto need = [&](Value value) { needed[static_cast<std::size_t>(value.id)] = true; };
  need(constraint);
  for (auto op = forward.body.rbegin(); op != forward.body.rend(); ++op) {
    if (std::ranges::any_of(op->results,
                            [&](Value v) { return bool(needed[static_cast<std::size_t>(v.id)]); }))
      std::ranges::for_each(op->operands, need);
  }
  std::vector<Value> renamed(forward.types.size());
  const auto at = [&](Value value) -> Value& { return renamed[static_cast<std::size_t>(value.id)]; };
  for (const ir::Argument& argument : forward.arguments) {
    if (needed[static_cast<std::size_t>(argument.value.id)])
      user_error("the model's result '{}{}' depends on '{}'; it must be a function of weights",
                 ir::kAfterStepPrefix, weight, argument.name);
  }
  for (const ir::Op& op : forward.body) {
    if (std::ranges::none_of(op.results,
                             [&](Value v) { return bool(needed[static_cast<std::size_t>(v.id)]); }))
      continue;
    if (op.code != Opcode::param) {
      inline_op(program, forward, op, renamed);
      continue;
    }
    const std::string& name = op.attributes.get_string("name");
    at(op.results[0]) = name == weight ? updated : program.param(name);
  }
  return at(constraint);
}

/// Updates the averages with the values that this step gives, predicated on `finite`.
void update_averages(Program& program, const std::vector<std::pair<std::string, Value>>& next, Value finite,
                     const TrainOptions& options) {
  if (options.ema == 0) return;
  Builder& b = program.b;
  b.set_location("ema");
  const bool from_start = make_objective(options.objective)->reads_averages();
  const Value step = program.param("train.step");
  const Value is_first = b.compare("eq", step, b.constant_like(step, 0));
  Value share = b.constant(1 - options.ema, DType::f64);
  if (options.ema_end >= 0) {
    share = half_cosine(b, b.cast(step, DType::f64), 1 - options.ema, 1 - options.ema_end,
                        {0, static_cast<double>(options.timeline.total_steps)});
  }
  if (options.ema_warmup) {
    const Value updates = b.add(b.cast(step, DType::f64), 1);
    const Value warm = b.binary(Opcode::pow, updates, b.constant_like(updates, -2.0 / 3));
    share = b.binary(Opcode::maximum, share, warm);
  }
  for (const auto& [weight, value] : next) {
    b.set_location("ema." + weight);
    const Value average = read_average(program, weight);
    const Value moved = b.add(average, b.mul(b.sub(value, average), b.cast(share, b.type(average).dtype)));
    program.update(average_name(weight), from_start ? moved : b.select(is_first, value, moved), finite);
  }
}

/// One optimizer update from gradients that are final; `loss` may be absent. Names grad_norm, finite and lr
/// as results; nothing but train.finite changes when the flag falls.
void optimize(Program& program, std::vector<Trainable> trainables, Value loss, const TrainOptions& options,
              const UpdateCounters& counters) {
  Builder& b = program.b;
  const ChosenOptimizer optimizer(options.optimizer);
  b.set_location("optimizer");
  Value norm = global_norm(b, trainables);
  Value finite = all_of(b, {program.param("train.finite"), b.unary(Opcode::isfinite, norm)});
  if (loss) finite = all_of(b, {finite, b.unary(Opcode::isfinite, loss)});
  if (const Value size = magnitude_of_updates(program))
    finite = all_of(b, {finite, b.unary(Opcode::isfinite, size)});
  clip(b, trainables, norm, options);
  Value step = program.param("train.step");
  Value lr = learning_rate(b, step, optimizer.values.get_double("lr"), options.schedule, options.timeline);
  const Value decay = scheduled_decay(b, optimizer.values, step, options.timeline);
  Value updates = program.param("optimizer.step");
  std::set<std::string_view> counting = {"optimizer.step"};
  for (Trainable& w : trainables) {
    const auto counter = counters.find(w.name);
    if (counter == counters.end()) continue;
    w.updates = program.param(counter->second);
    counting.insert(counter->second);
  }
  const auto held = hold(program, trainables, step, options);
  for (const ir::Argument& result :
       ir::side_results(program.module.function("forward"), ir::kAfterStepPrefix)) {
    const auto weight = std::ranges::find(trainables, result.name, &Trainable::name);
    if (weight == trainables.end())
      user_error("the model's result '{}{}' names no weight that trains", ir::kAfterStepPrefix, result.name);
    weight->after = [&program, result](Value updated) {
      return constrained(program, result.name, result.value, updated);
    };
  }
  const std::vector<Value> next = emit_updates(b, optimizer, trainables, {lr, updates, decay}, finite);
  std::vector<std::pair<std::string, Value>> averaged;
  for (std::size_t i = 0; i < next.size(); ++i) averaged.emplace_back(trainables[i].name, next[i]);
  update_averages(program, averaged, finite, options);
  b.set_location("optimizer");
  for (const std::string_view counter : counting)
    program.update(counter, b.add(program.param(counter), 1), finite);
  for (const auto& [counter, moves] : held)
    program.update(counter, b.add(program.param(counter), 1), all_of(b, {finite, moves}));
  const Value next_step = b.add(step, 1);
  program.update("train.step", next_step, finite);
  if (counts_progress(program.module, options))
    program.update(ir::kProgress, share_done(b, next_step, options), finite);
  program.update("train.finite", finite);
  b.result("grad_norm", norm);
  b.result("finite", finite);
  b.result("lr", b.cast(lr, DType::f32));
}

Metrics add_plain_step(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  Program program(module, "step");
  bind_progress(program, options);
  Gradients out = differentiate_loss(program, options, true);
  optimize(program, std::move(out.trainables), out.loss, options, counters);
  const Value finite = program.function.result("finite");
  std::vector<std::pair<std::string, Value>> averaged;
  for (const auto& [name, value] : program.next) {
    program.update(name, value, finite);
    if (is_averaged(module, name)) averaged.emplace_back(name, value);
  }
  update_averages(program, averaged, finite, options);
  program.finish(true);
  return out.metrics;
}

/// What the batches of a step so far have made of a weight that `forward` updates: kept apart from it until
/// the step is done, so that one that is not finite leaves the weight as it was.
std::string pending_update(std::string_view weight) {
  return fmt::format("accumulate.update.{}", weight);
}

/// Every batch but the first of a step reads what the one before has made of such a weight or state.
void bind_pending_updates(Program& program, const Objective& objective, Value micro) {
  Builder& b = program.b;
  add_states(program.module, objective);
  for (const std::string& name : updated_states(program.module, objective)) {
    const ir::Parameter* weight = program.module.find_parameter(name);
    if (weight == nullptr) user_error("the model has no weight '{}', which it updates", name);
    const std::string pending = pending_update(name);
    const ir::TensorType type = weight->type;
    program.module.add_state(pending, type, ir::StateKind::partial);
    const Value is_first = b.compare("eq", micro, b.constant_like(micro, 0));
    program.read.emplace(name, b.select(is_first, b.param(name), b.param(pending)));
  }
}

/// The sum of a weight's gradients since the step began, "accumulate.<weight>".
Value accumulated(Builder& b, const Trainable& weight) {
  const std::string name = "accumulate." + weight.name;
  b.module().add_state(name, b.type(weight.value), ir::StateKind::partial);
  return b.param(name);
}

/// accumulate.w += g / k. Each micro-batch draws its own random numbers: to the forward, the step is
/// train.step * k + train.micro_step.
Metrics add_accumulate(ir::Module& module, const TrainOptions& options) {
  module.add_state("train.micro_step", {DType::i64, {}}, ir::StateKind::partial);
  Program program(module, "accumulate");
  Builder& b = program.b;
  b.set_location("accumulate");
  Value micro = program.param("train.micro_step");
  Value draw = b.add(b.mul(b.param("train.step"), static_cast<double>(options.accumulate)), micro);
  program.read.emplace("train.step", draw);
  bind_progress(program, options);
  b.set_location("accumulate");
  bind_pending_updates(program, *make_objective(options.objective), micro);

  Gradients out = differentiate_loss(program, options, true);
  b.set_location("accumulate");
  Value norm = global_norm(b, out.trainables);
  Value finite = all_of(b, {program.param("train.finite"), b.unary(Opcode::isfinite, norm),
                            b.unary(Opcode::isfinite, out.loss)});
  if (const Value size = magnitude_of_updates(program))
    finite = all_of(b, {finite, b.unary(Opcode::isfinite, size)});
  for (const Trainable& w : out.trainables) {
    b.set_location("accumulate." + w.name);
    Value sum = accumulated(b, w);
    Value share = b.div(w.gradient, static_cast<double>(options.accumulate));
    program.update("accumulate." + w.name, b.add(sum, share), finite);
  }
  b.set_location("accumulate");
  for (const auto& [name, value] : program.next) program.update(pending_update(name), value, finite);
  program.update("train.micro_step", b.add(micro, 1), finite);
  program.update("train.finite", finite);
  b.result("finite", finite);
  program.finish(true);
  return out.metrics;
}

/// The optimizer on what has been accumulated, which it clears.
void add_apply(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  Program program(module, "apply");
  Builder& b = program.b;
  bind_progress(program, options);
  std::vector<Trainable> trainables;
  for (const std::string& name : trained_parameters(module)) {
    Trainable w{name, program.param(name), {}};
    w.gradient = accumulated(b, w);
    trainables.push_back(std::move(w));
  }
  optimize(program, trainables, {}, options, counters);
  b.set_location("accumulate");
  const Value finite = program.function.result("finite");
  std::vector<std::pair<std::string, Value>> averaged;
  for (const std::string& name : updated_states(module, *make_objective(options.objective))) {
    const Value pending = b.param(pending_update(name));
    program.update(name, pending, finite);
    if (is_averaged(module, name)) averaged.emplace_back(name, pending);
  }
  update_averages(program, averaged, finite, options);
  b.set_location("accumulate");
  for (const Trainable& w : trainables) {
    const ir::TensorType& type = b.type(w.value);
    program.update("accumulate." + w.name, b.constant(0, type.dtype, type.shape), finite);
  }
  program.update("train.micro_step", b.constant(0, DType::i64), finite);
  program.finish(true);
}

/// refresh_first, or refresh.
void add_refresh(ir::Module& module, const TrainOptions& options, bool first) {
  const ChosenOptimizer optimizer(options.optimizer);
  if (optimizer.optimizer->period() == 0) return;
  Program program(module, first ? "refresh_first" : "refresh");
  std::vector<Trainable> trainables;
  for (const std::string& name : trained_parameters(module))
    trainables.push_back({name, program.param(name), {}});
  const Value finite = emit_refresh(program.b, optimizer, trainables, first, program.param("train.finite"));
  program.update("train.finite", finite);
  program.b.result("finite", finite);
  program.finish(false);
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

std::string average_name(std::string_view weight) {
  return fmt::format("ema.{}", weight);
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
  Program program(module, "grad");
  Gradients out = differentiate_loss(program, options, false);
  program.b.result("loss", out.loss);
  for (const Trainable& w : out.trainables) program.b.result(w.name, w.gradient);
  program.finish(true);
}

namespace {

/// Whether training takes what evaluation does not.
bool trains_on_others(const Objective& objective) {
  const std::vector<Form> forms = objective.forms();
  return forms.size() > 1 || forms.front().images != 1;
}

/// The loss as an evaluation of whole batches has it.
Value evaluated_loss(Program& program, const Objective& objective) {
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
  Program program(module, name);
  const std::unique_ptr<Objective> objective = make_objective(selection);
  if (trains_on_others(*objective)) {
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

Metrics add_step_program(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  check_training(module, options);
  apply_layer_decay(module, ChosenOptimizer(options.optimizer).values);
  const ir::TensorType count{DType::i64, {}};
  module.add_state("rng.seed", count, ir::StateKind::random);
  module.add_state("train.step", count, ir::StateKind::counter);
  module.add_state("train.finite", {DType::i1, {}}, ir::StateKind::flag, {ir::InitKind::ones});
  module.add_state("optimizer.step", count, ir::StateKind::moment);
  for (const std::string& name : trained_parameters(module)) {
    const auto counter = counters.find(name);
    if (counter != counters.end()) module.add_state(counter->second, count, ir::StateKind::moment);
  }
  Metrics metrics;
  if (options.accumulate == 1) {
    metrics = add_plain_step(module, options, counters);
  } else {
    metrics = add_accumulate(module, options);
    add_apply(module, options, counters);
  }
  for (const bool first : {true, false}) add_refresh(module, options, first);
  return metrics;
}

namespace {

/// What reads a weight in this program has its average.
void read_averages(Program& program) {
  for (const std::string& weight : averaged_parameters(program.module))
    program.read.emplace(weight, read_average(program, weight));
}

Metrics add_evaluation(ir::Module& module, const ir::Selection& selection, const std::string& name,
                       bool averages) {
  const std::unique_ptr<Objective> objective = make_objective(selection);
  Program program(module, name);
  if (averages) read_averages(program);
  add_states(module, *objective);
  const NamedValues inputs = feed(program, objective->inputs(module));
  const std::int64_t batch = program.b.shape(inputs.begin()->second).at(0);
  const Value weight = program.b.argument("weight", {DType::f32, {batch}});
  InlinedNetwork network(program, {}, averages);
  const Metrics metrics = report(program, objective->evaluate(program.b, network, inputs, weight));
  program.finish(false);
  return metrics;
}

}  // namespace

Metrics add_eval_program(ir::Module& module, const ir::Selection& objective) {
  return add_evaluation(module, objective, "eval", false);
}

Metrics add_average_eval_program(ir::Module& module, const ir::Selection& objective) {
  return add_evaluation(module, objective, "eval_ema", true);
}

namespace {

/// What both programs take, and the velocity there.
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

  Program program;
  ir::TensorType image;
  SampleState at;
  Value step, velocity;
};

}  // namespace

std::vector<std::string> add_pictures_program(ir::Module& module, const ir::Selection& selection,
                                              std::int64_t samples, bool averages) {
  if (!ir::find_row(objectives(), "objective.name", selection.name).has_pictures) return {};
  const std::unique_ptr<Objective> objective = make_objective(selection);
  Program program(module, "pictures");
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

std::int64_t categories(const ir::Module& module, std::string_view input) {
  const ir::Attribute* value = module.attributes.find(kCategories + std::string(input));
  const auto* count = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return count == nullptr ? 0 : std::max<std::int64_t>(0, *count);
}

std::vector<std::string> refreshes_behind(std::int64_t update, bool begins_phase, std::int64_t period) {
  std::vector<std::string> programs;
  if (period == 0) return programs;
  if (begins_phase) programs.emplace_back("refresh_first");
  if (update > 1 && (update - 1) % period == 0) programs.emplace_back("refresh");
  return programs;
}

std::int64_t refresh_period(const ir::Selection& optimizer) {
  return ChosenOptimizer(optimizer).optimizer->period();
}

}  // namespace rewire::programs
