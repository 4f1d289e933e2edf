// The host functions that return facts, in both calls: parameters, seed, messages, joins and weights.
#include <algorithm>
#include <cstring>

#include "ir/opcodes.h"
#include "runtime/device/log.h"
#include "runtime/plugin/host_call.h"
#include "runtime/plugin/host_types.h"

namespace rewire::runtime {
namespace {

template <class T>
const T& parameter(const HostCall& call, const char* name, std::string_view kind) {
  const ir::Attribute* value = call.plugin().find_value(required(name, "parameter's name"));
  if (value == nullptr) user_error("it asked for '{}', which is not in its schema", name);
  if (!std::holds_alternative<T>(*value))
    user_error("it asked for '{}' as {}, but it has another kind", name, kind);
  return std::get<T>(*value);
}

std::int32_t get_bool(rewire_call token, const char* name) {
  return guarded(token, std::int32_t{0},
                 [&](HostCall& call) -> std::int32_t { return parameter<bool>(call, name, "a bool"); });
}

std::int64_t get_int(rewire_call token, const char* name) {
  return guarded(token, std::int64_t{0},
                 [&](HostCall& call) { return parameter<std::int64_t>(call, name, "an int"); });
}

double get_float(rewire_call token, const char* name) {
  return guarded(token, 0.0, [&](HostCall& call) { return parameter<double>(call, name, "a float"); });
}

const char* get_text(rewire_call token, const char* name) {
  return guarded(token, "",
                 [&](HostCall& call) { return parameter<std::string>(call, name, "text").c_str(); });
}

std::uint64_t seed(rewire_call token) {
  return guarded(token, std::uint64_t{0}, [](HostCall& call) { return call.seed(); });
}

void log(rewire_call token, std::uint32_t level, const char* message) {
  guarded_status(token, [&](HostCall& call) {
    const std::uint32_t known = std::min<std::uint32_t>(level, REWIRE_LOG_WARNING);
    const std::string line = one_line(required(message, "message"));
    if (known == REWIRE_LOG_WARNING && !call.plugin().logs_first(line)) return;
    write_log(static_cast<LogLevel>(known), fmt::format("plugin {}: {}", call.plugin().name(), line));
  });
}

void set_error(rewire_call token, const char* message) {
  guarded_status(token, [&](HostCall& call) { call.refuse(required(message, "message with its error")); });
}

const char* error(rewire_call token) {
  const HostCall* call = HostCall::find(token);
  if (call == nullptr)
    return "it used a handle of another call or thread: handles are valid until the call returns";
  return call->error() == nullptr ? nullptr : call->error()->c_str();
}

/// Copies the fields that both sides know. The plugin made `out`, perhaps with an older header.
template <class Struct>
void copy_known(Struct* out, Struct full) {
  if (out == nullptr || out->size < sizeof(full.size))
    user_error("it passed no {}", "struct with its size set");
  full.size = std::min<std::uint32_t>(out->size, sizeof(full));
  std::memcpy(out, &full, full.size);
}

/// Returns the probability of the branch's drop path; the join reads the branch after it.
double drop_path_rate(const ir::Op* branch) {
  const bool drops = branch != nullptr && branch->code == ir::Opcode::drop_path;
  return drops ? branch->attributes.get_double("probability") : 0;
}

std::uint32_t join_count(rewire_call token) {
  return guarded(token, std::uint32_t{0},
                 [](HostCall& call) { return static_cast<std::uint32_t>(call.join_count()); });
}

std::int32_t join(rewire_call token, std::uint32_t index, rewire_join* out) {
  return guarded_status(token, [&](HostCall& call) {
    const ir::Join facts = call.read_join(index);
    rewire_join full{};
    const int rank = call.forward().type(facts.stream).rank();
    const auto from_front = [rank](int axis) { return axis < 0 ? axis + rank : axis; };
    full.batch_axis = from_front(facts.batch_axis);
    full.token_axis = from_front(facts.token_axis);
    full.channel_axis = from_front(facts.channel_axis);
    full.block = facts.block;
    full.stage = facts.stage;
    full.join_index = facts.join_index;
    full.join_count = facts.join_count;
    full.heads = facts.heads;
    full.name = call.keep(facts.describe());
    full.site = call.keep(facts.site);
    full.scope = call.keep(facts.scope);
    full.last_weight = call.keep(facts.last_weight);
    full.shortcut_owner = call.keep(facts.shortcut_owner);
    full.branch_owner = call.keep(facts.branch_owner);
    full.stream = call.to_handle(facts.stream);
    full.branch = call.to_handle(facts.branch);
    full.input = call.to_handle(facts.input);
    full.shortcut = call.to_handle(facts.shortcut);
    full.branch_slot = call.to_handle(facts.branch_slot);
    full.path_count = static_cast<std::uint32_t>(facts.paths.size());
    full.weight_count = static_cast<std::uint32_t>(call.branch_weights().of(facts).size());
    full.block_count = call.block_count(facts.scope);
    full.drop_path = drop_path_rate(call.definition(facts.branch));
    full.sum_owner = call.keep(facts.sum_owner);
    copy_known(out, full);
  });
}

rewire_value join_path(rewire_call token, std::uint32_t index, std::uint32_t path) {
  return guarded(token, rewire_value{}, [&](HostCall& call) {
    const ir::Join facts = call.read_join(index);
    if (path >= facts.paths.size()) {
      user_error("it asked for path {} of {} at {}", path, facts.paths.size(), facts.describe());
    }
    return call.to_handle(facts.paths[path]);
  });
}

void write_weight_facts(HostCall& call, const ir::Parameter& parameter, rewire_weight* out) {
  rewire_weight full{};
  full.trainable = parameter.trainable;
  full.decay = parameter.decay;
  full.block = parameter.block;
  full.name = call.keep(parameter.name);
  full.role = call.keep(parameter.role);
  full.site = call.keep(parameter.site);
  full.type = to_c_type(parameter.type);
  copy_known(out, full);
}

std::int32_t join_weight(rewire_call token, std::uint32_t index, std::uint32_t weight, rewire_weight* out) {
  return guarded_status(token, [&](HostCall& call) {
    const ir::Join facts = call.read_join(index);
    const std::vector<const ir::Parameter*> weights = call.branch_weights().of(facts);
    if (weight >= weights.size()) {
      user_error("it asked for weight {} of {} at {}", weight, weights.size(), facts.describe());
    }
    write_weight_facts(call, *weights[weight], out);
  });
}

std::uint32_t weight_count(rewire_call token) {
  return guarded(token, std::uint32_t{0},
                 [](HostCall& call) { return static_cast<std::uint32_t>(call.module().parameters.size()); });
}

std::int32_t weight(rewire_call token, std::uint32_t index, rewire_weight* out) {
  return guarded_status(token, [&](HostCall& call) {
    const std::vector<ir::Parameter>& parameters = call.module().parameters;
    if (index >= parameters.size()) user_error("it asked for weight {} of {}", index, parameters.size());
    write_weight_facts(call, parameters[index], out);
  });
}

}  // namespace

void add_fact_functions(rewire_host& table) {
  table.get_bool = get_bool;
  table.get_int = get_int;
  table.get_float = get_float;
  table.get_text = get_text;
  table.seed = seed;
  table.log = log;
  table.set_error = set_error;
  table.error = error;
  table.join_count = join_count;
  table.join = join;
  table.join_path = join_path;
  table.join_weight = join_weight;
  table.weight_count = weight_count;
  table.weight = weight;
}

}  // namespace rewire::runtime
