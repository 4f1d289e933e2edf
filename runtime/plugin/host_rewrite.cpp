// The host functions that change the module: ops, random streams, weights, slots.
#include <algorithm>

#include "ir/init.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "runtime/plugin/host_call.h"
#include "runtime/plugin/host_types.h"
#include "runtime/plugin/schema.h"

namespace rewire::runtime {
namespace {

std::string_view local_name(const char* name) {
  const std::string_view text = required(name, "name");
  if (!ir::is_identifier(text)) user_error("it named something '{}': a name is [a-z][a-z0-9_]*", text);
  return text;
}

std::int32_t type(rewire_call token, rewire_value value, rewire_type* out) {
  return guarded_status(token, [&](HostCall& call) {
    if (out == nullptr) user_error("it asked for a type but passed no buffer for it");
    *out = to_c_type(call.forward().type(call.to_value(value)));
  });
}

std::int32_t emit(rewire_call token, std::uint32_t join, const rewire_op* op, rewire_value* results,
                  std::uint32_t result_count) {
  return guarded_status(token, [&](HostCall& call) {
    if (op == nullptr || (op->operands == nullptr && op->operand_count > 0) || results == nullptr) {
      user_error("it emitted an op with no description, operands or buffer for results");
    }
    const ir::Opcode code = plugin_opcode(required(op->name, "op's name"));
    ir::Builder builder = call.builder_at(join);
    std::vector<ir::Value> operands;
    for (std::uint32_t i = 0; i < op->operand_count; ++i) {
      operands.push_back(call.to_operand(op->operands[i]));
    }
    if (ir::op_info(code).op_class == ir::OpClass::pointwise)
      operands = builder.broadcast_together(std::move(operands));
    std::optional<ir::TensorType> requested;
    if (op->type != nullptr) requested = from_c_type(op->type);
    const std::vector<ir::Value> values =
        builder.emit_all(code, operands, from_c_attributes(op->attributes, op->attribute_count), requested);
    if (result_count > values.size()) {
      user_error("it asked for {} results of '{}', which has {}", result_count, op->name, values.size());
    }
    for (std::uint32_t i = 0; i < result_count; ++i) results[i] = call.to_handle(values[i]);
  });
}

rewire_value is_training(rewire_call token, std::uint32_t join) {
  return guarded(token, rewire_value{}, [&](HostCall& call) {
    const ir::TensorType flag{ir::DType::i1, {}};
    return call.to_handle(call.builder_at(join).emit(ir::Opcode::is_training, {}, {}, flag));
  });
}

/// Reads the program's state of this name, which the step program shares.
ir::Value program_state(HostCall& call, std::uint32_t join, std::string_view name, ir::StateKind kind) {
  ir::Parameter state;
  state.name = name;
  state.type = {ir::DType::i64, {}};
  state.trainable = state.decay = false;
  state.kind = kind;
  const ir::Parameter* found = call.find_parameter(name);
  if (found == nullptr) return call.add_parameter(join, std::move(state));
  if (found->type != state.type) {
    user_error("the model has a weight '{}' of type {}, a name reserved for the program's own state", name,
               ir::to_string(found->type));
  }
  return call.read_parameter(join, *found);
}

rewire_value rng_stream(rewire_call token, std::uint32_t join, const char* name, const rewire_type* type) {
  return guarded(token, rewire_value{}, [&](HostCall& call) {
    const std::string stream =
        fmt::format("{}.{}.{}", join_prefix(call.read_join(join)), call.plugin().name(), local_name(name));
    const ir::Value seed = program_state(call, join, "rng.seed", ir::StateKind::random);
    const ir::Value step = program_state(call, join, "train.step", ir::StateKind::counter);
    return call.to_handle(call.builder_at(join).emit(ir::Opcode::random_uniform, {seed, step},
                                                     {{"stream", stream}}, from_c_type(type)));
  });
}

/// Adds a weight with `init`, or, without it, with the init that `weight` gives.
rewire_value add_weight_as(rewire_call token, std::uint32_t join, const rewire_new_weight* weight,
                           const std::optional<ir::Init>& init) {
  return guarded(token, rewire_value{}, [&](HostCall& call) {
    if (weight == nullptr) user_error("it added a weight with no description");
    const ir::Join facts = call.read_join(join);
    ir::Parameter parameter;
    parameter.name = fmt::format("{}.{}", join_prefix(facts), local_name(weight->name));
    parameter.type = from_c_type(weight->type);
    parameter.init = init ? *init : from_c_init(*weight);
    parameter.trainable = weight->trainable != 0;
    parameter.decay = weight->decay != 0;
    parameter.role = "join";
    parameter.site = facts.site;
    parameter.block = static_cast<std::int32_t>(facts.block);
    const ir::Parameter* last_weight = call.find_parameter(facts.last_weight);
    if (last_weight != nullptr) parameter.layer = last_weight->layer;
    if (call.find_parameter(parameter.name) != nullptr) {
      user_error(
          "it added the weight '{}', which already exists: give plugins that add it disjoint sites= or "
          "layers=, or rename the weight",
          parameter.name);
    }
    if (!ir::is_float(parameter.type.dtype)) {
      user_error("it added the weight '{}' as {}: a weight must have a float type", parameter.name,
                 ir::to_string(parameter.type));
    }
    if (const std::string fault = ir::init_fault(parameter.init, parameter.type); !fault.empty())
      user_error("its weight '{}': {}", parameter.name, fault);
    return call.to_handle(call.add_parameter(join, std::move(parameter)));
  });
}

rewire_value add_weight(rewire_call token, std::uint32_t join, const rewire_new_weight* weight) {
  return add_weight_as(token, join, weight, std::nullopt);
}

rewire_value add_weight_of(rewire_call token, std::uint32_t join, const rewire_new_weight* weight,
                           const double* values, std::uint64_t count) {
  ir::Init init{ir::InitKind::values};
  if (values != nullptr) init.values.assign(values, values + count);
  return add_weight_as(token, join, weight, init);
}

rewire_value weight_value(rewire_call token, std::uint32_t join, const char* full_name) {
  return guarded(token, rewire_value{}, [&](HostCall& call) {
    const std::string_view name = required(full_name, "weight's name");
    const ir::Parameter* parameter = call.find_parameter(name);
    if (parameter == nullptr) user_error("the model has no weight '{}'", name);
    return call.to_handle(call.read_parameter(join, *parameter));
  });
}

/// Returns where a value is computed: "blocks.1.mlp.proj", "blocks.1.mlp.highway".
std::string place_of(HostCall& call, ir::Value value) {
  const ir::Op* op = call.definition(value);
  return op == nullptr          ? "an argument"
         : op->location.empty() ? op->attributes.get_string("name")
                                : op->location;
}

/// Returns the value for `what`. It must have this type, and not be computed from the ops that will read it.
ir::Value to_readable(HostCall& call, rewire_value handle, const ir::TensorType& type, std::string_view types,
                      const std::vector<std::size_t>& readers, std::string_view what) {
  call.writable_module();
  const ir::Value value = call.to_value(handle);
  const ir::TensorType& given = call.forward().type(value);
  if (given != type) {
    user_error("it gave {} the type {}; {} is {} and must not change", what, ir::to_string(given), types,
               ir::to_string(type));
  }
  if (call.depends_on(value, readers)) {
    user_error("it gave {} a value that is computed from it, at {}", what, place_of(call, value));
  }
  for (const std::size_t reader : readers) call.make_read(reader, value);
  return value;
}

/// Returns the value as a term of the join's sum.
ir::Value to_term(HostCall& call, std::uint32_t join, const ir::Join& facts, rewire_value handle,
                  std::string_view what) {
  return to_readable(call, handle, call.forward().type(facts.stream), "the stream's",
                     {call.join_position(join)}, fmt::format("{} {}", what, facts.describe()));
}

/// Refuses a choice of plugins. The user must change that choice, so no line of the
/// plugin's source is shown.
template <class... Args>
[[noreturn]] void conflict(HostCall& call, fmt::format_string<Args...> format, Args&&... args) {
  call.locate({});
  user_error(format, std::forward<Args>(args)...);
}

/// Returns the plugin that changed a place of the join without a claim; "" if none has.
std::string changer(const ir::Join& facts, std::string_view place) {
  const auto change = std::ranges::find(facts.changes, place, &ir::Join::Change::place);
  return change == facts.changes.end() ? "" : change->plugin;
}

/// Throws UserError if a plugin owns or has extended the whole sum: no part of it
/// can be set, changed or added.
void require_open_sum(HostCall& call, const ir::Join& facts) {
  const std::string_view own = call.plugin().name();
  if (!facts.sum_owner.empty()) {
    conflict(call,
             "the sum of {} is already claimed by plugin '{}', with both slots and all paths: use one of "
             "'{}' and '{}', or give them disjoint sites= or layers=",
             facts.describe(), facts.sum_owner, facts.sum_owner, own);
  }
  if (const std::string other = changer(facts, "sum"); !other.empty()) {
    conflict(call,
             "the sum of {} has been extended by plugin '{}', which reads it unchanged: name '{}' before it",
             facts.describe(), other, own);
  }
}

void claim(std::string& owner, HostCall& call, const ir::Join& facts, std::string_view slot) {
  if (!call.sets_first(facts, slot)) {
    user_error("it set the {} of {} twice: set it once, to the sum, or add one of the two by add_path", slot,
               facts.describe());
  }
  require_open_sum(call, facts);
  if (!owner.empty()) {
    conflict(call,
             "the {} of {} is already claimed by plugin '{}': use one of the two, or give them disjoint "
             "sites= or layers=",
             slot, facts.describe(), owner);
  }
  if (const std::string other = changer(facts, slot); !other.empty()) {
    conflict(call, "the {} of {} has been changed by plugin '{}', which would be lost: name '{}' before it",
             slot, facts.describe(), other, call.plugin().name());
  }
  owner = call.plugin().name();
}

/// Writes back what `body` does to the facts of the join.
template <class Body>
std::int32_t on_join(rewire_call token, std::uint32_t join, Body body) {
  return guarded_status(token, [&](HostCall& call) {
    ir::Join facts = call.read_join(join);
    body(call, facts);
    call.write_join(join, facts);
  });
}

std::int32_t set_shortcut(rewire_call token, std::uint32_t join, rewire_value value) {
  return on_join(token, join, [&](HostCall& call, ir::Join& facts) {
    claim(facts.shortcut_owner, call, facts, "shortcut");
    facts.shortcut = to_term(call, join, facts, value, "the shortcut of");
  });
}

std::int32_t clear_shortcut(rewire_call token, std::uint32_t join) {
  return on_join(token, join, [](HostCall& call, ir::Join& facts) {
    claim(facts.shortcut_owner, call, facts, "shortcut");
    facts.shortcut = {};
  });
}

std::int32_t set_branch(rewire_call token, std::uint32_t join, rewire_value value) {
  return on_join(token, join, [&](HostCall& call, ir::Join& facts) {
    claim(facts.branch_owner, call, facts, "branch");
    facts.branch_slot = to_term(call, join, facts, value, "the branch of");
  });
}

/// Records a change that claims nothing.
void note_change(HostCall& call, ir::Join& facts, std::string_view place) {
  facts.changes.push_back({std::string(place), std::string(call.plugin().name())});
}

std::int32_t add_path(rewire_call token, std::uint32_t join, rewire_value value) {
  return on_join(token, join, [&](HostCall& call, ir::Join& facts) {
    require_open_sum(call, facts);
    facts.paths.push_back(to_term(call, join, facts, value, "a path of"));
    note_change(call, facts, "path");
  });
}

/// Makes `value` the join's only term.
void become(ir::Join& facts, ir::Value value) {
  facts.shortcut = {};
  facts.branch_slot = value;
  facts.paths.clear();
}

std::int32_t set_sum(rewire_call token, std::uint32_t join, rewire_value value) {
  return on_join(token, join, [&](HostCall& call, ir::Join& facts) {
    require_open_sum(call, facts);
    const std::string_view own = call.plugin().name();
    for (const std::string& owner : {facts.shortcut_owner, facts.branch_owner, changer(facts, "shortcut"),
                                     changer(facts, "branch"), changer(facts, "path")}) {
      if (owner.empty()) continue;
      conflict(
          call,
          "it claims the whole sum of {}, of which plugin '{}' has a part: use one of '{}' and '{}', or give "
          "them disjoint sites= or layers=",
          facts.describe(), owner, owner, own);
    }
    become(facts, to_term(call, join, facts, value, "the sum of"));
    facts.sum_owner = own;
  });
}

std::int32_t change_shortcut(rewire_call token, std::uint32_t join, rewire_value value) {
  return on_join(token, join, [&](HostCall& call, ir::Join& facts) {
    require_open_sum(call, facts);
    if (!facts.shortcut) user_error("it changed the shortcut of {}, but the join has none", facts.describe());
    facts.shortcut = to_term(call, join, facts, value, "the shortcut of");
    note_change(call, facts, "shortcut");
  });
}

std::int32_t change_branch(rewire_call token, std::uint32_t join, rewire_value value) {
  return on_join(token, join, [&](HostCall& call, ir::Join& facts) {
    require_open_sum(call, facts);
    facts.branch_slot = to_term(call, join, facts, value, "the branch of");
    note_change(call, facts, "branch");
  });
}

std::int32_t change_sum(rewire_call token, std::uint32_t join, rewire_value value) {
  return on_join(token, join, [&](HostCall& call, ir::Join& facts) {
    become(facts, to_term(call, join, facts, value, "the sum of"));
    note_change(call, facts, "sum");
  });
}

rewire_value role_value(rewire_call token, std::uint32_t join, const char* role) {
  return guarded(token, rewire_value{}, [&](HostCall& call) {
    const std::optional<RoleValue> found = call.find_role(join, required(role, "role"));
    return found ? call.to_handle(found->value) : rewire_value{};
  });
}

std::int32_t replace_value(rewire_call token, std::uint32_t join, const char* role_name,
                           rewire_value handle) {
  return guarded_status(token, [&](HostCall& call) {
    const std::string_view role = required(role_name, "role"), own = call.plugin().name();
    const std::optional<RoleValue> found = call.find_role(join, role);
    const ir::Join here = call.read_join(join);
    if (!found) {
      const std::string other = changer(here, "input");
      user_error("the branch of {} reads no '{}'{}", here.describe(), role,
                 other.empty() ? std::string("; leave it out by sites=, layers= or stages=")
                               : fmt::format(": plugin '{}' has given it another input", other));
    }
    const ir::Join facts = ir::read_join(call.forward().body[found->join]);
    const std::string what = fmt::format("the '{}' of {}", role, facts.describe());
    std::vector<std::size_t> readers;
    for (const RoleValue::Use& use : found->uses) readers.push_back(use.op);
    const ir::Value value =
        to_readable(call, handle, call.forward().type(found->value), "the value it replaces", readers, what);

    // The value must depend on what another plugin has already put in this place.
    if (!call.sets_first(facts, role))
      user_error("it replaced {} twice: replace it once, by the final value", what);
    const auto is_kept = [&](ir::Value earlier) {
      const ir::Op* op = call.definition(earlier);
      return op != nullptr &&
             call.depends_on(value, {static_cast<std::size_t>(op - call.forward().body.data())});
    };
    const bool reads_anew = role == "input" || role == "exit";  // their readers see the model's own value
    for (const std::string_view lost : {role, std::string_view(role == "input" ? "norm_input" : role)}) {
      const std::string other = changer(facts, lost);
      if (other.empty() || (lost != role && call.has_set(facts, lost))) continue;
      const std::optional<RoleValue> before = call.find_role(join, lost);
      if ((lost != role || !reads_anew) && before && is_kept(before->value)) continue;
      conflict(
          call,
          "{} has been replaced by plugin '{}', which would be lost: use one of '{}' and '{}', or give them "
          "disjoint sites= or layers=",
          fmt::format("the '{}' of {}", lost, facts.describe()), other, other, own);
    }

    ir::Function& forward = call.writable_module().function("forward");
    for (const RoleValue::Use& use : found->uses) forward.body[use.op].operands[use.index] = value;
    for (const std::size_t result : found->results) forward.results[result].value = value;
    ir::Join changed = ir::read_join(forward.body[found->join]);  // the join may have read it
    note_change(call, changed, role);
    call.write_join_at(found->join, changed);
  });
}

std::int32_t locate(rewire_call token, const char* place) {
  return guarded_status(token, [&](HostCall& call) { call.locate(place == nullptr ? "" : place); });
}

}  // namespace

std::string join_prefix(const ir::Join& join) {
  std::string name = join.describe();
  const std::size_t dot = name.rfind('.');
  return name.insert(dot == std::string::npos ? 0 : dot + 1, "join_");
}

void add_rewrite_functions(rewire_host& table) {
  table.type = type;
  table.emit = emit;
  table.is_training = is_training;
  table.rng_stream = rng_stream;
  table.add_weight = add_weight;
  table.weight_value = weight_value;
  table.set_shortcut = set_shortcut;
  table.clear_shortcut = clear_shortcut;
  table.set_branch = set_branch;
  table.add_path = add_path;
  table.set_sum = set_sum;
  table.change_shortcut = change_shortcut;
  table.change_branch = change_branch;
  table.change_sum = change_sum;
  table.role_value = role_value;
  table.replace_value = replace_value;
  table.add_weight_of = add_weight_of;
  table.locate = locate;
}

}  // namespace rewire::runtime
