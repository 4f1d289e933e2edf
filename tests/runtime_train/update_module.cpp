#include "tests/runtime_train/update_module.h"

#include "ir/opcodes.h"
#include "ir/verify.h"
#include "programs/optimizer.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::DType;
using ir::Value;

ir::Function refresh_program(ir::Module& module, const ChosenOptimizer& chosen,
                             const std::vector<UpdatedWeight>& weights, bool first) {
  ir::Function function;
  function.name = first ? "refresh_first" : "refresh";
  Builder b(module, function);
  std::vector<Trainable> trainables;
  for (const UpdatedWeight& weight : weights) trainables.push_back({weight.name, b.param(weight.name), {}});
  b.result("finite", emit_refresh(b, chosen, trainables, first, b.constant(1, DType::i1)));
  return function;
}

}  // namespace

ir::Module update_module(const ir::Selection& optimizer, const std::vector<UpdatedWeight>& weights,
                         std::int64_t total_steps) {
  ir::Module module;
  for (const UpdatedWeight& weight : weights) {
    ir::Parameter p;
    p.name = weight.name;
    p.type = {DType::f32, weight.shape};
    p.decay = weight.decay;
    p.role = weight.role;
    p.hint = weight.hint;
    module.add_parameter(p);
  }
  module.add_state("optimizer.step", {DType::i64, {}}, ir::StateKind::moment);
  const ChosenOptimizer chosen(optimizer);
  ir::Function apply;
  apply.name = "apply";
  Builder b(module, apply);
  std::vector<Trainable> trainables;
  for (const UpdatedWeight& weight : weights) {
    const Value gradient = b.argument(weight.name + ".g", {DType::f32, weight.shape});
    trainables.push_back({weight.name, b.param(weight.name), gradient});
  }
  Timeline timeline;
  timeline.total_steps = total_steps;
  const Value step = b.param("optimizer.step"), finite = b.constant(1, DType::i1);
  const Value lr = b.constant(chosen.values.get_double("lr"), DType::f64);
  emit_updates(b, chosen, trainables, {lr, step, scheduled_decay(b, chosen.values, step, timeline)}, finite);
  b.emit_all(ir::Opcode::update, std::vector<Value>{b.add(step, 1)},
             {{"name", std::string("optimizer.step")}});
  module.functions.push_back(std::move(apply));
  if (chosen.optimizer->period() > 0) {
    for (const bool first : {true, false}) {
      ir::Function refresh = refresh_program(module, ChosenOptimizer(optimizer), weights, first);
      module.functions.push_back(std::move(refresh));
    }
  }
  ir::verify(module);
  return module;
}

UpdateRun::UpdateRun(const ir::Selection& optimizer, const ir::Module& module, const WeightValues& start)
    : module_(module), period_(refresh_period(optimizer)), state_(runtime::start(module, start)) {}

UpdateRun::UpdateRun(const ir::Selection& optimizer, const ir::Module& module, const WeightValues& start,
                     int threads)
    : module_(module), period_(refresh_period(optimizer)) {
  runtime::JitEngineOptions options;
  options.threads = threads;
  options.check_memory = true;
  engine_ = runtime::make_jit_engine(module, options);
  for (const auto& [name, values] : start)
    engine_->write_state(name, runtime::to_host(ir::Tensor(module.find_parameter(name)->type, values)));
}

void UpdateRun::update(const WeightValues& gradients) {
  run("apply", gradients);
  ++updates_;
  for (const std::string& refresh : refreshes_behind(updates_, updates_ == 1, period_)) run(refresh, {});
}

std::vector<double> UpdateRun::read(const std::string& state) const {
  return engine_ ? runtime::to_double(engine_->read_state(state)).data : state_.tensors.at(state).data;
}

void UpdateRun::run(const std::string& name, const WeightValues& arguments) {
  const ir::Function& function = module_.function(name);
  std::vector<std::vector<double>> flat;
  runtime::TensorMap tensors;
  for (const ir::Argument& argument : function.arguments) {
    const std::string weight = argument.name.substr(0, argument.name.size() - 2);
    flat.push_back(arguments.at(weight));
    tensors.emplace(argument.name,
                    runtime::to_host(ir::Tensor(function.type(argument.value), arguments.at(weight))));
  }
  if (engine_) {
    engine_->run(name, tensors);
  } else {
    runtime::call(module_, name, flat, state_);
  }
}

}  // namespace rewire::programs
