#include "ir/module.h"

#include <algorithm>
#include <unordered_set>

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::ir {
namespace {

template <class Items>
auto find_by_name(Items& items, std::string_view name) -> decltype(items.data()) {
  auto it = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

// Returns the place among the parameters, or the number of parameters if none has this name.
std::size_t place_of(const Module& module, std::string_view name) {
  std::size_t first = 0;
  if (module.parameter_index.holds(module.parameters)) {
    const auto found = module.parameter_index.places.find(std::string(name));
    if (found == module.parameter_index.places.end()) {
      first = module.parameter_index.places.size();
    } else if (module.parameters[found->second].name == name) {
      return found->second;
    }
  }
  const auto begin = module.parameters.begin();
  const auto found = std::find_if(begin + static_cast<std::ptrdiff_t>(first), module.parameters.end(),
                                  [&](const Parameter& parameter) { return parameter.name == name; });
  return static_cast<std::size_t>(found - begin);
}

}  // namespace

std::string_view state_kind_name(StateKind kind) {
  constexpr std::string_view kNames[] = {"weight",  "statistic", "average", "moment",
                                         "counter", "random",    "flag",    "partial"};
  return kNames[static_cast<std::size_t>(kind)];
}

Value Function::new_value(TensorType type) {
  types.push_back(std::move(type));
  return Value{static_cast<std::int32_t>(types.size() - 1)};
}

std::vector<std::int32_t> Function::definitions() const {
  std::vector<std::int32_t> definition(types.size(), -1);
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (Value result : body[i].results)
      definition[static_cast<std::size_t>(result.id)] = static_cast<std::int32_t>(i);
  }
  return definition;
}

void Function::replace_uses(Value from, Value to, std::size_t first_op) {
  for (std::size_t i = first_op; i < body.size(); ++i) {
    std::replace(body[i].operands.begin(), body[i].operands.end(), from, to);
  }
  for (Argument& result : results) {
    if (result.value == from) result.value = to;
  }
}

Value Function::argument(std::string_view argument_name) const {
  const Argument* found = find_by_name(arguments, argument_name);
  return found == nullptr ? Value{} : found->value;
}

Value Function::result(std::string_view result_name) const {
  const Argument* found = find_by_name(results, result_name);
  return found == nullptr ? Value{} : found->value;
}

Function* Module::find_function(std::string_view function_name) {
  return find_by_name(functions, function_name);
}

const Function* Module::find_function(std::string_view function_name) const {
  return find_by_name(functions, function_name);
}

Function& Module::function(std::string_view function_name) {
  if (Function* found = find_function(function_name)) return *found;
  internal_error("module '{}' has no function '{}'", name, function_name);
}

const Function& Module::function(std::string_view function_name) const {
  if (const Function* found = find_function(function_name)) return *found;
  internal_error("module '{}' has no function '{}'", name, function_name);
}

const Parameter* Module::find_parameter(std::string_view parameter_name) const {
  const std::size_t place = place_of(*this, parameter_name);
  return place < parameters.size() ? &parameters[place] : nullptr;
}

Parameter* Module::find_parameter(std::string_view parameter_name) {
  const std::size_t place = place_of(*this, parameter_name);
  return place < parameters.size() ? &parameters[place] : nullptr;
}

Parameter& Module::add_state(std::string_view state_name, TensorType type, StateKind kind, Init init) {
  Parameter state;
  state.name = state_name;
  state.type = std::move(type);
  state.init = std::move(init);
  state.kind = kind;
  state.trainable = state.decay = false;
  Parameter& added = add_parameter(std::move(state));
  added.kind = kind;  // also if a text module declared a parameter of this name
  return added;
}

Parameter& Module::add_parameter(Parameter parameter) {
  if (Parameter* found = find_parameter(parameter.name)) {
    if (found->type != parameter.type) {
      user_error("parameter '{}' exists as {} and cannot be added again as {}", parameter.name,
                 to_string(found->type), to_string(parameter.type));
    }
    return *found;
  }
  std::unordered_map<std::string, std::size_t>& places = parameter_index.places;
  if (!parameter_index.holds(parameters)) places.clear();
  // A name that occurs twice ends the index there. Only a module that breaks V1 has one.
  while (places.size() < parameters.size() &&
         places.try_emplace(parameters[places.size()].name, places.size()).second) {
  }
  if (places.size() == parameters.size()) places.emplace(parameter.name, parameters.size());
  parameters.push_back(std::move(parameter));
  return parameters.back();
}

void Module::drop_unused_parameters() {
  std::unordered_set<std::string> used;
  for (const Function& function : functions) {
    for (const Op& op : function.body) {
      if (op.code == Opcode::param || op.code == Opcode::update)
        used.insert(op.attributes.get_string("name"));
    }
  }
  std::erase_if(parameters, [&](const Parameter& parameter) { return !used.contains(parameter.name); });
}

}  // namespace rewire::ir
