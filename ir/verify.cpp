#include "ir/verify.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ir/error.h"
#include "ir/init.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/residual.h"

namespace rewire::ir {
namespace {

/// Carries a message to find_violation, which adds the place to it.
struct Fault {
  std::string message;
};

template <class... Args>
[[noreturn]] void violate(int invariant, fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{fmt::format("V{}: {}", invariant, fmt::format(format, std::forward<Args>(args)...))};
}

using ParameterIndex = std::unordered_map<std::string_view, const Parameter*>;

template <class Items>
void check_unique_names(const Items& items, std::string_view what) {
  std::unordered_set<std::string_view> names;
  for (const auto& item : items) {
    if (item.name.empty()) violate(1, "{} without a name", what);
    if (!names.insert(item.name).second) violate(1, "{} '{}' is defined twice", what, item.name);
  }
}

class FunctionVerifier {
 public:
  FunctionVerifier(const Module& module, const Function& function, const ParameterIndex& parameters)
      : module_(module),
        function_(function),
        parameters_(parameters),
        defined_(function.types.size(), false) {}

  /// Returns the index of the current op, for the caller's message, or -1 outside the body.
  std::int32_t op_index() const { return op_index_; }

  void check_signature() {
    check_unique_names(function_.arguments, "argument");
    check_unique_names(function_.results, "result");
    for (const Argument& argument : function_.arguments) {
      define(argument.value, fmt::format("argument '{}'", argument.name));
      check_type(argument.value, fmt::format("argument '{}'", argument.name));
    }
  }

  void check_body() {
    for (op_index_ = 0; static_cast<std::size_t>(op_index_) < function_.body.size(); ++op_index_) {
      check_op(function_.body[static_cast<std::size_t>(op_index_)]);
    }
    op_index_ = -1;
  }

  void check_results() const {
    for (const Argument& result : function_.results) {
      if (!is_defined(result.value)) {
        violate(10, "result '{}' is not a value that the function defines", result.name);
      }
    }
  }

 private:
  void check_op(const Op& op) {
    const OpInfo& info = op_info(op.code);
    check_values(op);
    check_counts(op, info);
    check_attributes(op, info);
    check_parameter(op);
    if (op.code == Opcode::residual) check_residual(op);
    const Attribute* stream = op.attributes.find("stream");
    if (stream != nullptr && std::get<std::string>(*stream).empty()) {
      violate(10, "{}: the stream name is empty", describe(op));
    }
    check_result_types(op, info);
    check_state_order(op);
  }

  bool is_defined(Value value) const {
    return value.id >= 0 && static_cast<std::size_t>(value.id) < defined_.size() &&
           defined_[static_cast<std::size_t>(value.id)];
  }

  void define(Value value, const std::string& what) {
    if (value.id < 0 || static_cast<std::size_t>(value.id) >= defined_.size()) {
      violate(2, "{}: value id {} is out of range", what, value.id);
    }
    if (is_defined(value)) violate(2, "{}: value id {} is defined twice", what, value.id);
    defined_[static_cast<std::size_t>(value.id)] = true;
  }

  void check_values(const Op& op) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (!is_defined(op.operands[i])) {
        violate(2, "{}: operand {} (value id {}) is not defined before this use", describe(op), i,
                op.operands[i].id);
      }
    }
    for (Value result : op.results) define(result, describe(op));
  }

  static void check_counts(const Op& op, const OpInfo& info) {
    const auto operands = static_cast<std::int64_t>(op.operands.size());
    if (operands < info.min_operands || (info.max_operands >= 0 && operands > info.max_operands)) {
      violate(3, "{}: {} operands do not fit the op table", describe(op), operands);
    }
    if (op.results.size() != static_cast<std::size_t>(info.results)) {
      violate(3, "{}: {} results, but the op table has {}", describe(op), op.results.size(), info.results);
    }
  }

  static void check_attributes(const Op& op, const OpInfo& info) {
    for (const auto& [name, value] : op.attributes) {
      const AttributeSpec* spec = info.find_attribute(name);
      if (spec == nullptr) violate(4, "{}: unknown attribute '{}'", describe(op), name);
      // The variant's alternatives are in AttributeKind's order.
      if (value.index() != static_cast<std::size_t>(spec->kind)) {
        violate(4, "{}: attribute '{}' is of the wrong kind", describe(op), name);
      }
    }
    for (const AttributeSpec& spec : info.attributes) {
      if (!op.attributes.has(spec.name)) {
        violate(4, "{}: attribute '{}' is missing", describe(op), spec.name);
      }
    }
  }

  void check_parameter(const Op& op) const {
    if (op.code != Opcode::param && op.code != Opcode::update) return;
    const std::string& name = op.attributes.get_string("name");
    const auto found = parameters_.find(name);
    if (found == parameters_.end()) violate(6, "{}: the module has no parameter '{}'", describe(op), name);
    const TensorType& type = function_.type(op.code == Opcode::param ? op.results[0] : op.operands[0]);
    if (type != found->second->type) {
      violate(6, "{}: parameter '{}' is {}, not {}", describe(op), name, to_string(found->second->type),
              to_string(type));
    }
  }

  void check_type(Value value, const std::string& what) const {
    const std::string fault = type_fault(function_.type(value));
    if (!fault.empty()) violate(9, "{}: {}", what, fault);
  }

  void check_result_types(const Op& op, const OpInfo& info) const {
    for (Value result : op.results) check_type(result, describe(op));
    if (op.code == Opcode::param) return;  // V6 checks it without a search through all parameters
    Op copy = op;
    std::optional<TensorType> requested;
    if (info.typed) requested = function_.type(op.results[0]);
    std::vector<TensorType> inferred;
    try {
      inferred = check_and_infer(module_, function_, copy, requested);
    } catch (const UserError& error) {
      violate(5, "{}", error.what());
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (inferred[i] != function_.type(op.results[i])) {
        violate(5, "{}: result {} is {}, but the operands give {}", describe(op), i,
                to_string(function_.type(op.results[i])), to_string(inferred[i]));
      }
    }
  }

  /// Operands: stream, branch, input, the shortcut slot if there is one, the branch slot, paths.
  void check_residual(const Op& op) const {
    const bool has_shortcut = op.attributes.get_bool("has_shortcut");
    const std::size_t branch_slot = has_shortcut ? 4 : 3;
    if (op.operands.size() <= branch_slot) violate(8, "{}: the branch slot is missing", describe(op));
    const TensorType& stream = function_.type(op.operands[0]);
    for (std::size_t i = 3; i < op.operands.size(); ++i) check_same(op, stream, op.operands[i]);
    check_same(op, stream, op.operands[1]);
    check_same(op, stream, op.results[0]);

    Join join;
    try {
      join = read_join(op);
    } catch (const UserError& error) {
      violate(8, "{}: {}", describe(op), error.what());
    }
    const auto is_told = [&](const std::string& owner, std::string_view place) {
      return !owner.empty() || !join.sum_owner.empty() ||
             std::any_of(join.changes.begin(), join.changes.end(), [&](const Join::Change& change) {
               return change.place == place || change.place == "sum";
             });
    };
    const bool shortcut_changed = !has_shortcut || op.operands[3] != op.operands[0];
    if (shortcut_changed && !is_told(join.shortcut_owner, "shortcut")) {
      violate(8, "{}: the shortcut slot was changed but has no owner", describe(op));
    }
    const bool branch_changed = op.operands[branch_slot] != op.operands[1];
    if (branch_changed && !is_told(join.branch_owner, "branch")) {
      violate(8, "{}: the branch slot was changed but has no owner", describe(op));
    }
  }

  void check_same(const Op& op, const TensorType& stream, Value value) const {
    if (function_.type(value) != stream) {
      violate(8, "{}: the stream is {}, but a slot, path or the result is {}", describe(op),
              to_string(stream), to_string(function_.type(value)));
    }
  }

  void check_state_order(const Op& op) {
    if (op.code != Opcode::param && op.code != Opcode::update) return;
    const std::string& name = op.attributes.get_string("name");
    if (op.code == Opcode::param && updated_.contains(name)) {
      violate(7, "{}: '{}' is read after its update", describe(op), name);
    }
    if (op.code == Opcode::update && !updated_.insert(name).second) {
      violate(7, "{}: '{}' is updated twice", describe(op), name);
    }
  }

  const Module& module_;
  const Function& function_;
  const ParameterIndex& parameters_;
  std::vector<bool> defined_;  // by Value::id
  std::unordered_set<std::string_view> updated_;
  std::int32_t op_index_ = -1;
};

void check_module(const Module& module) {
  check_unique_names(module.parameters, "parameter");
  check_unique_names(module.functions, "function");
  for (const Parameter& parameter : module.parameters) {
    const std::string fault = type_fault(parameter.type);
    if (!fault.empty()) violate(9, "parameter '{}': {}", parameter.name, fault);
    const std::string unsuited = init_fault(parameter.init, parameter.type);
    if (!unsuited.empty()) violate(11, "parameter '{}': {}", parameter.name, unsuited);
    const std::string excessive = hint_fault(parameter.hint);
    if (!excessive.empty()) violate(12, "parameter '{}': {}", parameter.name, excessive);
  }
}

/// "V5: add at …" becomes "V5: in @forward, add at …".
std::string add_function_name(const std::string& message, const Function& function) {
  const std::size_t colon = message.find(": ");
  return fmt::format("{}: in @{}, {}", message.substr(0, colon), function.name, message.substr(colon + 2));
}

}  // namespace

std::string type_fault(const TensorType& type) {
  if (type.rank() > kMaxRank) return fmt::format("{} axes; a tensor has at most {}", type.rank(), kMaxRank);
  std::int64_t count = 1;
  for (std::int64_t extent : type.shape) {
    if (extent < 1) return fmt::format("{} has an extent below 1", to_string(type));
    if (extent > (kMaxElements - 1) / count) {
      return fmt::format("{} has 2^40 elements or more", to_string(type));
    }
    count *= extent;
  }
  return {};
}

std::optional<Violation> find_violation(const Module& module) {
  ParameterIndex parameters;
  try {
    check_module(module);
  } catch (const Fault& fault) {
    return Violation{fault.message};
  }
  for (const Parameter& parameter : module.parameters) parameters.emplace(parameter.name, &parameter);
  for (std::size_t i = 0; i < module.functions.size(); ++i) {
    const Function& function = module.functions[i];
    FunctionVerifier verifier(module, function, parameters);
    try {
      verifier.check_signature();
      verifier.check_body();
      verifier.check_results();
    } catch (const Fault& fault) {
      return Violation{add_function_name(fault.message, function), static_cast<std::int32_t>(i),
                       verifier.op_index()};
    }
  }
  return std::nullopt;
}

void verify(const Module& module) {
  if (const std::optional<Violation> violation = find_violation(module)) throw UserError(violation->message);
}

}  // namespace rewire::ir
