// The host functions that add to a training step beside the forward pass. All but the hints become results
// of `forward` (ir/side_results.h), which stays a function without effects.
#include <algorithm>
#include <cstring>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/side_results.h"
#include "runtime/plugin/host_call.h"
#include "runtime/plugin/schema.h"

namespace rewire::runtime {
namespace {

/// Returns the weight that was added at this join under the name, or the module's
/// weight with this full name.
ir::Parameter& hooked_weight(HostCall& call, std::uint32_t join, const char* name) {
  ir::Module& module = call.writable_module();
  const std::string_view text = required(name, "weight's name");
  const ir::Parameter* found =
      call.find_parameter(fmt::format("{}.{}", join_prefix(call.read_join(join)), text));
  if (found == nullptr) found = call.find_parameter(text);
  if (found == nullptr || !found->is_weight() || found->role == ir::kProgressRole)
    user_error("the model has no weight '{}'", text);
  return module.parameters[static_cast<std::size_t>(found - module.parameters.data())];
}

/// Adds a result to `forward`. Returns false if it already has one of this name.
bool add_side_result(HostCall& call, std::string_view prefix, std::string_view name, ir::Value value) {
  ir::Function& forward = call.writable_module().function("forward");
  std::string full = fmt::format("{}{}", prefix, name);
  if (forward.result(full)) return false;
  forward.results.push_back({std::move(full), value});
  return true;
}

/// Returns the value, a float of one element, with rank 0.
ir::Value to_scalar(HostCall& call, std::uint32_t join, rewire_value handle, std::string_view what) {
  call.writable_module();
  const ir::Value value = call.to_value(handle);
  const ir::TensorType& type = call.forward().type(value);
  if (!ir::is_float(type.dtype) || type.elements() != 1) {
    user_error("{} at {} is {}, but must be a float of one element, such as a mean over all axes", what,
               call.read_join(join).describe(), ir::to_string(type));
  }
  ir::Builder builder = call.builder_at(join, {value});
  return type.rank() == 0 ? value : builder.reshape(value, {});
}

/// Returns the value in the weight's dtype.
ir::Value to_value_of(HostCall& call, std::uint32_t join, const ir::Parameter& weight, rewire_value handle) {
  call.writable_module();
  const ir::Value value = call.to_value(handle);
  const ir::TensorType type = call.forward().type(value), wanted = weight.type;
  if (!ir::is_float(type.dtype) || type.shape != wanted.shape) {
    user_error("it gave the weight '{}' a value of {}, but the weight is {}", weight.name,
               ir::to_string(type), ir::to_string(wanted));
  }
  ir::Builder builder = call.builder_at(join, {value});
  return builder.cast(value, wanted.dtype);
}

std::string report_name(const HostCall& call, std::uint32_t join, std::string_view name) {
  return fmt::format("{}.{}.{}", call.read_join(join).describe(), call.plugin().name(), name);
}

ir::OptimizerHint from_c_hint(const rewire_weight_hint* hint) {
  constexpr std::uint32_t kKnown =
      REWIRE_HINT_LR_SCALE | REWIRE_HINT_WEIGHT_DECAY | REWIRE_HINT_BETA1 | REWIRE_HINT_BETA2;
  if (hint == nullptr || hint->size < 2 * sizeof(std::uint32_t)) user_error("it passed no hint");
  rewire_weight_hint known{};
  std::memcpy(&known, hint, std::min<std::size_t>(hint->size, sizeof(known)));
  if ((known.fields & ~kKnown) != 0)
    user_error("it passed a hint with fields of a later ABI ({:#x})", known.fields);
  ir::OptimizerHint result;
  if ((known.fields & REWIRE_HINT_LR_SCALE) != 0) result.lr_scale = known.lr_scale;
  if ((known.fields & REWIRE_HINT_WEIGHT_DECAY) != 0) result.weight_decay = known.weight_decay;
  if ((known.fields & REWIRE_HINT_BETA1) != 0) result.beta1 = known.beta1;
  if ((known.fields & REWIRE_HINT_BETA2) != 0) result.beta2 = known.beta2;
  return result;
}

std::int32_t weight_hint(rewire_call token, std::uint32_t join, const char* name,
                         const rewire_weight_hint* hint) {
  return guarded_status(token, [&](HostCall& call) {
    ir::Parameter& weight = hooked_weight(call, join, name);
    if (!weight.trainable) user_error("its hint is for the weight '{}', which is not trained", weight.name);
    const ir::OptimizerHint given = from_c_hint(hint);
    if (const std::string fault = ir::hint_fault(given); !fault.empty())
      user_error("its hint for the weight '{}': {}", weight.name, fault);
    for (const ir::OptimizerHintField& field : ir::kOptimizerHintFields) {
      const std::optional<double>& value = given.*field.value;
      std::optional<double>& known = weight.hint.*field.value;
      if (value && known && *value != *known) {
        user_error(
            "its hint for the weight '{}' is {} = {}, but it already has {}: give plugins that hint it "
            "disjoint sites= or layers=",
            weight.name, field.name, *value, *known);
      }
      if (value) known = value;
    }
  });
}

std::int32_t report(rewire_call token, std::uint32_t join, const char* name, rewire_value scalar) {
  return guarded_status(token, [&](HostCall& call) {
    const std::string_view own = required(name, "name of its report");
    if (!ir::is_identifier(own)) user_error("it reported something as '{}': a name is [a-z][a-z0-9_]*", own);
    const std::string full = report_name(call, join, own);
    ir::Value value = to_scalar(call, join, scalar, fmt::format("its report '{}'", own));
    value = call.builder_at(join, {value}).cast(value, ir::DType::f32);
    if (!add_side_result(call, ir::kReportPrefix, full, value))
      user_error("it reported '{}' twice at {}", own, call.read_join(join).describe());
  });
}

rewire_value progress(rewire_call token, std::uint32_t join) {
  return guarded(token, rewire_value{}, [&](HostCall& call) {
    ir::Parameter state;
    state.name = ir::kProgress;
    state.type = {ir::DType::f32, {}};
    state.trainable = state.decay = false;
    state.role = ir::kProgressRole;
    const ir::Parameter* found = call.find_parameter(state.name);
    if (found == nullptr) return call.to_handle(call.add_parameter(join, std::move(state)));
    if (found->type != state.type) {
      user_error("the model has a weight '{}' of type {}, a name reserved for the program's own state",
                 state.name, ir::to_string(found->type));
    }
    return call.to_handle(call.read_parameter(join, *found));
  });
}

/// A second loss term of the same join and plugin is added to the first.
std::int32_t add_loss(rewire_call token, std::uint32_t join, rewire_value scalar) {
  return guarded_status(token, [&](HostCall& call) {
    ir::Value value = to_scalar(call, join, scalar, "its term of the loss");
    if (call.forward().type(value).dtype != ir::DType::f64)
      value = call.builder_at(join, {value}).cast(value, ir::DType::f32);
    const std::string name = fmt::format("{}.{}", call.read_join(join).describe(), call.plugin().name());
    if (add_side_result(call, ir::kLossPrefix, name, value)) return;
    for (ir::Argument& result : call.writable_module().function("forward").results) {
      if (result.name == fmt::format("{}{}", ir::kLossPrefix, name))
        result.value = call.builder_at(join, {result.value, value}).add(result.value, value);
    }
  });
}

std::int32_t update_state(rewire_call token, std::uint32_t join, const char* name, rewire_value handle) {
  return guarded_status(token, [&](HostCall& call) {
    const ir::Parameter weight = hooked_weight(call, join, name);
    if (weight.trainable) {
      user_error(
          "it updates the weight '{}', which the optimizer trains: add it as frozen, or use after_step",
          weight.name);
    }
    if (!add_side_result(call, ir::kUpdatePrefix, weight.name, to_value_of(call, join, weight, handle)))
      user_error("the weight '{}' gets a value for the next step twice", weight.name);
  });
}

/// Throws UserError unless `value` depends on the weight, and otherwise only on
/// untrained weights and constants.
void require_function_of(const HostCall& call, ir::Value value, const ir::Parameter& weight) {
  const ir::Function& forward = call.forward();
  const std::vector<std::int32_t> definitions = forward.definitions();
  std::vector<bool> seen(forward.types.size());
  std::vector<ir::Value> open = {value};
  bool reads_weight = false;
  while (!open.empty()) {
    const auto at = static_cast<std::size_t>(open.back().id);
    open.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const ir::Op* op =
        definitions[at] < 0 ? nullptr : &forward.body[static_cast<std::size_t>(definitions[at])];
    if (op == nullptr || ir::op_info(op->code).op_class == ir::OpClass::random) {
      user_error("the value of '{}' after a step depends on {}; it may depend only on the weight",
                 weight.name, op == nullptr ? "the batch" : "random numbers");
    }
    if (op->code == ir::Opcode::param) {
      const std::string& read = op->attributes.get_string("name");
      reads_weight = reads_weight || read == weight.name;
      if (read != weight.name && call.find_parameter(read)->trainable) {
        user_error(
            "the value of '{}' after a step depends on '{}', which is trained too; it may depend only on the "
            "weight and on frozen weights",
            weight.name, read);
      }
    }
    open.insert(open.end(), op->operands.begin(), op->operands.end());
  }
  if (!reads_weight)
    user_error("the value of '{}' after a step does not depend on the weight: add it as frozen", weight.name);
}

std::int32_t after_step(rewire_call token, std::uint32_t join, const char* name, rewire_value handle) {
  return guarded_status(token, [&](HostCall& call) {
    const ir::Parameter weight = hooked_weight(call, join, name);
    if (!weight.trainable) user_error("no optimizer changes the weight '{}': use update_state", weight.name);
    const ir::Value value = to_value_of(call, join, weight, handle);
    require_function_of(call, value, weight);
    if (!add_side_result(call, ir::kAfterStepPrefix, weight.name, value))
      user_error("the weight '{}' gets a value after the step twice", weight.name);
  });
}

}  // namespace

void add_hook_functions(rewire_host& table) {
  table.weight_hint = weight_hint;
  table.report = report;
  table.progress = progress;
  table.add_loss = add_loss;
  table.update_state = update_state;
  table.after_step = after_step;
}

}  // namespace rewire::runtime
