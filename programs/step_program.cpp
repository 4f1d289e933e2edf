// The programs of a training step.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/side_results.h"
#include "programs/objective.h"
#include "programs/program.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

/// Returns the names of the weights and states that a step updates without training them.
std::vector<std::string> updated_states(const ir::Module& module, const Objective& objective) {
  std::vector<std::string> names;
  for (const ir::Argument& next : ir::side_results(module.function("forward"), ir::kUpdatePrefix))
    names.push_back(next.name);
  for (const Remembered& state : objective.states(module)) names.push_back(state_name(state));
  return names;
}

/// The variance over one value is 0, whatever the value is.
void check_batch_norms(const ir::Function& forward, std::int64_t shards) {
  for (const ir::Op& op : forward.body) {
    if (op.code != Opcode::batch_norm) continue;
    if (forward.type(op.operands[0]).elements() > forward.type(op.operands[1]).elements()) continue;
    user_error(
        "{}: a batch norm in training would see one value per channel: raise train.batch above {}, or "
        "model.image",
        op.location, shards);
  }
}

void check_training(const ir::Module& module, const TrainOptions& options) {
  check_batch_norms(module.function("forward"), options.shards);
  if (!(options.ema >= 0 && options.ema < 1))
    user_error("train.ema is {}; it must be at least 0 and below 1", options.ema);
  if (options.ema_warmup && options.ema == 0)
    user_error("train.ema_warmup is on, but train.ema is 0: no average is kept; set train.ema too");
  if (options.ema == 0 && make_objective(options.objective)->reads_averages())
    user_error(
        "the objective {} reads moving averages of the weights, but train.ema is 0: set train.ema, for "
        "example to 0.996",
        options.objective.name);
  if (options.ema_end >= 0 && options.ema == 0)
    user_error("train.ema_end is {}, but train.ema is 0: no average is kept; set train.ema too",
               options.ema_end);
  if (options.ema_end >= 0 && options.timeline.total_steps == 0)
    user_error("train.ema_end={}: the run has no end at which the decay could reach it", options.ema_end);
  if (options.clip_each && options.clip_norm == 0)
    user_error("train.clip is each, but train.clip_norm is 0: nothing is clipped; set train.clip_norm too");
  if (options.accumulate < 1) user_error("train.accumulate is {}; it must be at least 1", options.accumulate);
  if (options.own_shards < 1 || options.shards % options.own_shards != 0)
    internal_error("{} of {} shards", options.own_shards, options.shards);
  if (!(options.clip_norm >= 0))
    user_error("train.clip_norm is {}; it must not be negative", options.clip_norm);
  for (const std::string& name : trained_parameters(module)) {
    const ir::TensorType& type = module.find_parameter(name)->type;
    if (type.dtype != DType::f32) {
      user_error("parameter '{}' is {}; the optimizers keep weights in f32", name, to_string(type));
    }
  }
}

/// Returns the norm of all gradients together: sqrt of the sum of all squares, f32[].
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

/// Scales gradients: g * min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does. The norm is
/// that of each gradient, as in DINO, or that of all gradients together.
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

bool is_own(const std::string& weight, const TrainOptions& options) {
  return !options.own_weights || options.own_weights->contains(weight);
}

std::string count_of_held(std::string_view weight) {
  return fmt::format("optimizer.step.held.{}", weight);
}

/// For each weight that the objective freezes, sets the predicate and adds an update count of its own.
/// Returns these counts with their predicates.
std::map<std::string, Value, std::less<>> hold(ProgramBuilder& program, std::vector<Trainable>& trainables,
                                               Value step, const TrainOptions& options) {
  Builder& b = program.b;
  std::map<std::string, Value, std::less<>> counts;
  for (const FrozenWeight& held : make_objective(options.objective)->frozen_weights(program.module)) {
    const auto weight = std::ranges::find(trainables, held.weight, &Trainable::name);
    if (weight == trainables.end() || held.epochs == 0) continue;
    const Value now = options.timeline.change ? scheduled_step(b, step, options.timeline) : step;
    const Value first = b.constant_like(now, static_cast<double>(options.timeline.steps(held.epochs)));
    weight->moves = b.compare("ge", now, first);
    const std::string count = count_of_held(held.weight);
    program.module.add_state(count, {DType::i64, {}}, ir::StateKind::moment);
    weight->updates = program.param(count);
    counts.emplace(count, weight->moves);
  }
  return counts;
}

/// Returns whether forward reads the share of the run that is done, and the run has an end.
bool counts_progress(const ir::Module& module, const TrainOptions& options) {
  return options.timeline.total_steps != 0 && module.find_parameter(ir::kProgress) != nullptr;
}

/// Returns min(the schedule's step / total, 1) after
/// `steps` i64[] updates, as f32[]. The division is in f64.
Value share_done(Builder& b, Value steps, const TrainOptions& options) {
  Value share =
      b.div(scheduled_step(b, steps, options.timeline), static_cast<double>(options.timeline.total_steps));
  return b.cast(b.binary(Opcode::minimum, share, b.constant_like(share, 1)), DType::f32);
}

/// Everything in this program that reads the progress reads that of train.step.
void bind_progress(ProgramBuilder& program, const TrainOptions& options) {
  if (!counts_progress(program.module, options)) return;
  program.b.set_location("progress");
  program.read.emplace(ir::kProgress, share_done(program.b, program.b.param("train.step"), options));
}

/// Returns a number that is finite if all next values of the program (ProgramBuilder::next) are finite. It
/// is empty if there are none. A batch norm's variance may overflow while loss and gradients do not.
Value magnitude_of_updates(ProgramBuilder& program) {
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

/// Returns the result after_step.<weight> of forward, as a function of another value of the weight. Appends
/// the ops that it depends on to the program.
Value constrained(ProgramBuilder& program, const std::string& weight, Value constraint, Value updated) {
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

/// Updates the averages with the values of this step, predicated on `finite`.
void update_averages(ProgramBuilder& program, const std::vector<std::pair<std::string, Value>>& next,
                     Value finite, const TrainOptions& options) {
  if (options.ema == 0) return;
  Builder& b = program.b;
  b.set_location("ema");
  const bool from_start = make_objective(options.objective)->reads_averages();
  const Value step = program.param("train.step");
  const Value is_first = b.compare("eq", step, b.constant_like(step, 0));
  Value share = b.constant(1 - options.ema, DType::f64);
  if (options.ema_end >= 0) {
    share = half_cosine(b, scheduled_step(b, step, options.timeline), 1 - options.ema, 1 - options.ema_end,
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

/// Emits one optimizer update from gradients that are final; `loss` may be empty. Names grad_norm, finite
/// and lr as results. If the step is not finite, only train.finite changes.
void optimize(ProgramBuilder& program, std::vector<Trainable> trainables, Value loss,
              const TrainOptions& options, const UpdateCounters& counters) {
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
  for (Trainable& w : trainables) w.is_own = is_own(w.name, options);
  const auto held = hold(program, trainables, step, options);
  for (const ir::Argument& result :
       ir::side_results(program.module.function("forward"), ir::kAfterStepPrefix)) {
    const auto weight = std::ranges::find(trainables, result.name, &Trainable::name);
    if (weight == trainables.end())
      user_error("the model's result '{}{}' does not name a trainable weight", ir::kAfterStepPrefix,
                 result.name);
    weight->after = [&program, result](Value updated) {
      return constrained(program, result.name, result.value, updated);
    };
  }
  const std::vector<Value> next = emit_updates(b, optimizer, trainables, {lr, updates, decay}, finite);
  std::vector<std::pair<std::string, Value>> averaged;
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (trainables[i].is_own) averaged.emplace_back(trainables[i].name, next[i]);
  }
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

/// Returns the number of updates that each weight has had.
std::map<std::string, Value, std::less<>> read_update_counts(ProgramBuilder& program,
                                                             const TrainOptions& options,
                                                             const UpdateCounters& counters) {
  std::map<std::string, std::string, std::less<>> counts(counters);
  for (const FrozenWeight& held : make_objective(options.objective)->frozen_weights(program.module)) {
    if (held.epochs == 0) continue;
    counts[held.weight] = count_of_held(held.weight);
    program.module.add_state(counts[held.weight], {DType::i64, {}}, ir::StateKind::moment);
  }
  std::map<std::string, Value, std::less<>> updates;
  for (const std::string& name : trained_parameters(program.module)) {
    const auto count = counts.find(name);
    updates.emplace(name, program.b.param(count == counts.end() ? "optimizer.step" : count->second));
  }
  return updates;
}

/// If the optimizer has a training point, the program reads it in
/// the weight's place. Returns the weights themselves, by name.
std::map<std::string, Value, std::less<>> bind_training_points(ProgramBuilder& program,
                                                               const TrainOptions& options,
                                                               const UpdateCounters& counters) {
  std::map<std::string, Value, std::less<>> weights;
  const ChosenOptimizer chosen(options.optimizer);
  if (!chosen.optimizer->has_training_point()) return weights;
  for (const auto& [name, updates] : read_update_counts(program, options, counters)) {
    const Value weight = program.b.param(name);
    const Trainable trained{.name = name, .value = weight, .gradient = {}, .updates = updates};
    program.read.emplace(name, emit_training_point(program.b, chosen, trained));
    weights.emplace(name, weight);
  }
  return weights;
}

/// The optimizer applies the gradients at the training points to the weights themselves.
void unbind_training_points(ProgramBuilder& program, const std::map<std::string, Value, std::less<>>& weights,
                            std::vector<Trainable>& trainables) {
  for (Trainable& w : trainables) {
    const auto weight = weights.find(w.name);
    if (weight == weights.end()) continue;
    w.value = weight->second;
    program.read[w.name] = weight->second;
  }
}

Metrics add_plain_step(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  ProgramBuilder program(module, "step");
  const auto weights = bind_training_points(program, options, counters);
  bind_progress(program, options);
  if (options.first_draw != 0) {
    program.b.set_location("step");
    const Value draw = program.b.add(program.b.param("train.step"), static_cast<double>(options.first_draw));
    program.read.emplace("train.step", draw);
  }
  Gradients out = differentiate_loss(program, options, true);
  if (options.first_draw != 0) program.read.erase("train.step");  // the optimizer counts steps
  unbind_training_points(program, weights, out.trainables);
  optimize(program, std::move(out.trainables), out.loss, options, counters);
  const Value finite = program.function.result("finite");
  const auto averages = averaged_names(module);
  std::vector<std::pair<std::string, Value>> averaged;
  for (const auto& [name, value] : program.next) {
    program.update(name, value, finite);
    if (averages.contains(name)) averaged.emplace_back(name, value);
  }
  update_averages(program, averaged, finite, options);
  program.finish(true);
  return out.metrics;
}

/// Returns whether the sums of a shard are those of one batch: `accumulate` then writes them and reads none.
bool has_one_batch(const TrainOptions& options) {
  return options.shards > 1 && options.accumulate == 1;
}

/// The state with what the batches of a step so far made of a weight that `forward` updates. It is separate
/// from the weight until the step is done, so that a step that is not finite leaves the weight unchanged.
std::string pending_update(std::string_view weight) {
  return fmt::format("accumulate.update.{}", weight);
}

/// Every batch of a step, or of a shard of it, but the first reads the pending value, which the batch before wrote.
void bind_pending_updates(ProgramBuilder& program, const Objective& objective, Value micro,
                          const TrainOptions& options) {
  Builder& b = program.b;
  add_states(program.module, objective);
  for (const std::string& name : updated_states(program.module, objective)) {
    const ir::Parameter* weight = program.module.find_parameter(name);
    if (weight == nullptr) user_error("the model updates a weight '{}' that it does not have", name);
    const std::string pending = pending_update(name);
    const ir::TensorType type = weight->type;
    if (options.shards > 1 && type.dtype != DType::f32) {
      user_error("train.shards={}: the network updates '{}' {}, and shards have a mean only in f32: set 1",
                 options.shards, name, to_string(type));
    }
    program.module.add_state(pending, type, ir::StateKind::partial);
    if (has_one_batch(options)) continue;
    const Value is_first = b.compare("eq", micro, b.constant_like(micro, 0));
    program.read.emplace(name, b.select(is_first, b.param(name), b.param(pending)));
  }
}

/// Adds the state "accumulate.<weight>": the sum of a weight's gradients since the step, or the shard, began. Returns its name.
std::string add_sum(Builder& b, const Trainable& weight) {
  std::string name = "accumulate." + weight.name;
  b.module().add_state(name, b.type(weight.value), ir::StateKind::partial);
  return name;
}

/// The state with the sum of Trained::count since the step, or the shard, began. No weight has a name with spaces.
constexpr const char* kTerms = "accumulate.terms of the loss";

/// Adds the program with accumulate.w += g / (V k), for V shards of k micro-batches; or += n g, if the loss is a
/// mean of n terms (Trained::count), and `apply` divides by their sum. With has_one_batch() it is
/// accumulate.w = g / V, or n g, finite or not: the step ends anyway if it is not. Each micro-batch draws its own
/// random numbers: the step that forward sees is (train.step * V + train.shard) * k + train.micro_step + first_draw.
Metrics add_accumulate(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  module.add_state("train.micro_step", {DType::i64, {}}, ir::StateKind::partial);
  if (options.shards > 1) module.add_state(kShard, {DType::i64, {}}, ir::StateKind::partial);
  ProgramBuilder program(module, "accumulate");
  bind_training_points(program, options, counters);
  Builder& b = program.b;
  b.set_location("accumulate");
  Value micro = program.param("train.micro_step");
  Value shard = b.param("train.step");
  if (options.shards > 1) shard = b.add(b.mul(shard, static_cast<double>(options.shards)), b.param(kShard));
  Value draw = b.add(b.mul(shard, static_cast<double>(options.accumulate)), micro);
  if (options.first_draw != 0) draw = b.add(draw, static_cast<double>(options.first_draw));
  program.read.emplace("train.step", draw);
  bind_progress(program, options);
  b.set_location("accumulate");
  bind_pending_updates(program, *make_objective(options.objective), micro, options);

  Gradients out = differentiate_loss(program, options, true);
  b.set_location("accumulate");
  Value norm = global_norm(b, out.trainables);
  Value finite = all_of(b, {program.param("train.finite"), b.unary(Opcode::isfinite, norm),
                            b.unary(Opcode::isfinite, out.loss)});
  if (const Value size = magnitude_of_updates(program))
    finite = all_of(b, {finite, b.unary(Opcode::isfinite, size)});
  const bool is_one = has_one_batch(options);
  for (const Trainable& w : out.trainables) {
    b.set_location("accumulate." + w.name);
    const std::string sum = add_sum(b, w);
    const Value share = out.count
                            ? b.mul(w.gradient, b.cast(out.count, b.type(w.gradient).dtype))
                            : b.div(w.gradient, static_cast<double>(options.shards * options.accumulate));
    is_one ? program.update(sum, share) : program.update(sum, b.add(b.param(sum), share), finite);
  }
  b.set_location("accumulate");
  if (out.count) {
    module.add_state(kTerms, {DType::f32, {}}, ir::StateKind::partial);
    is_one ? program.update(kTerms, out.count)
           : program.update(kTerms, b.add(b.param(kTerms), out.count), finite);
  }
  for (const auto& [name, value] : program.next)
    program.update(pending_update(name), value, is_one ? Value{} : finite);
  if (!is_one) program.update("train.micro_step", b.add(micro, 1), finite);
  program.update("train.finite", finite);
  b.result("finite", finite);
  program.finish(true);
  return out.metrics;
}

/// Adds the program that applies the optimizer to the accumulated gradients and clears them.
void add_apply(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters) {
  ProgramBuilder program(module, "apply");
  Builder& b = program.b;
  bind_progress(program, options);
  std::vector<Trainable> trainables;
  for (const std::string& name : trained_parameters(module)) {
    Trainable w{name, program.param(name), {}};
    w.gradient = b.param(add_sum(b, w));
    trainables.push_back(std::move(w));
  }
  const bool counts_terms = module.find_parameter(kTerms) != nullptr;
  if (counts_terms) {
    b.set_location("accumulate");
    const Value terms = b.param(kTerms);
    const Value all = b.binary(Opcode::maximum, terms, b.constant_like(terms, 1));
    for (Trainable& w : trainables) w.gradient = b.div(w.gradient, b.cast(all, b.type(w.gradient).dtype));
  }
  optimize(program, trainables, {}, options, counters);
  b.set_location("accumulate");
  const Value finite = program.function.result("finite");
  const auto averages = averaged_names(module);
  std::vector<std::pair<std::string, Value>> averaged;
  for (const std::string& name : updated_states(module, *make_objective(options.objective))) {
    Value pending = b.param(pending_update(name));
    if (options.shards > 1) pending = b.div(pending, static_cast<double>(options.shards));
    program.update(name, pending, finite);
    if (averages.contains(name)) averaged.emplace_back(name, pending);
  }
  update_averages(program, averaged, finite, options);
  b.set_location("accumulate");
  if (!has_one_batch(options)) {
    for (const Trainable& w : trainables) {
      const ir::TensorType& type = b.type(w.value);
      program.update("accumulate." + w.name, b.constant(0, type.dtype, type.shape), finite);
    }
    program.update("train.micro_step", b.constant(0, DType::i64), finite);
    if (counts_terms) program.update(kTerms, b.constant(0), finite);
  }
  program.finish(true);
}

/// The state with a sum over 2^level shards that waits for the next such sum.
std::string waiting_sum(int level, std::string_view name) {
  return fmt::format("shards.{}.{}", level, name);
}

/// Adds the program that puts the sums of a shard, which is done, into the tree of those before it.
void add_fold(ir::Module& module, const TrainOptions& options, int level) {
  ProgramBuilder program(module, fold_program(level));
  Builder& b = program.b;
  const Value finite = program.param("train.finite");  // else the failed step could not be replayed
  const bool is_last = (std::int64_t{1} << level) == options.own_shards;
  for (const std::string& name : shard_sums(module.function("accumulate"))) {
    b.set_location(name);
    const ir::TensorType type = module.find_parameter(name)->type;
    Value sum = b.param(name);
    for (int below = 0; below < level; ++below) sum = b.add(b.param(waiting_sum(below, name)), sum);
    if (is_last) {
      program.update(name, sum, finite);
      continue;
    }
    module.add_state(waiting_sum(level, name), type, ir::StateKind::partial);
    program.update(waiting_sum(level, name), sum, finite);
    if (!has_one_batch(options)) program.update(name, b.constant(0, type.dtype, type.shape), finite);
  }
  b.set_location("shards");
  const Value next = b.param(kShard);
  program.update(kShard, b.add(next, is_last ? 1 - static_cast<double>(options.own_shards) : 1), finite);
  if (!has_one_batch(options)) program.update("train.micro_step", b.constant(0, DType::i64), finite);
  program.finish(false);
}

/// Adds the program refresh_first or refresh.
void add_refresh(ir::Module& module, const TrainOptions& options, const UpdateCounters& counters,
                 bool first) {
  const ChosenOptimizer optimizer(options.optimizer);
  if (optimizer.optimizer->period() == 0) return;
  ProgramBuilder program(module, first ? "refresh_first" : "refresh");
  std::vector<Trainable> trainables;
  bool starts_as_weight = false;
  for (const std::string& name : trained_parameters(module)) {
    if (!is_own(name, options)) continue;
    trainables.push_back({name, program.param(name), {}});
    for (const StateSpec& state : optimizer.optimizer->states(parameter_of(program.b, trainables.back())))
      starts_as_weight |= state.starts_as_weight;
  }
  std::map<std::string, Value, std::less<>> updates;
  if (starts_as_weight) updates = read_update_counts(program, options, counters);
  const Value finite =
      emit_refresh(program.b, optimizer, trainables, first, program.param("train.finite"), updates);
  program.update("train.finite", finite);
  program.b.result("finite", finite);
  program.finish(false);
}

}  // namespace

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
  if (options.accumulate * options.shards == 1) {
    metrics = add_plain_step(module, options, counters);
  } else {
    metrics = add_accumulate(module, options, counters);
    for (int level = 0; options.own_shards > 1 && options.own_shards >> level > 0; ++level)
      add_fold(module, options, level);
    add_apply(module, options, counters);
  }
  for (const bool first : {true, false}) add_refresh(module, options, counters, first);
  return metrics;
}

std::vector<std::string> shard_sums(const ir::Function& accumulate) {
  std::vector<std::string> names;
  for (const ir::Op& op : accumulate.body) {
    if (op.code != Opcode::update) continue;
    const std::string& name = op.attributes.get_string("name");
    if (name.starts_with("accumulate.")) names.push_back(name);
  }
  return names;
}

std::string fold_program(int level) {
  return fmt::format("fold_{}", level);
}

std::string fold_behind(std::int64_t shard) {
  return fold_program(std::countr_one(static_cast<std::uint64_t>(shard)));
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
