// The IR: a Module of Functions over shared Parameters, in SSA form without branches. A Function's body is
// a vector of ops in execution order; a Value is an index into the function's table of types. Everything is
// a plain value, and copying a Module clones it. A rewrite can therefore be tried on a copy and dropped,
// and each phase and program can change a copy of its own.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/attribute.h"
#include "ir/opcode.h"
#include "ir/optimizer_hint.h"
#include "ir/types.h"

namespace rewire::ir {

/// An SSA value of one function: an index into Function::types.
struct Value {
  std::int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
  auto operator<=>(const Value&) const = default;
};

struct Op {
  Opcode code{};
  std::vector<Value> operands;
  std::vector<Value> results;
  Attributes attributes;
  /// Provenance, such as "blocks.3.attn.qkv". It is printed as loc("…"), and every pass carries it into
  /// emitted kernels.
  std::string location;
  /// Line in the .rir file, for errors; 0 if built in memory. It is neither printed nor compared.
  std::int32_t line = 0;
};

struct Argument {
  std::string name;
  Value value;
};

struct Function {
  std::string name;
  std::vector<TensorType> types;  // by Value::id
  std::vector<Argument> arguments;
  std::vector<Op> body;
  std::vector<Argument> results;  // named results: `return logits = %7`
  bool trains = false;            // the value of is_training in it

  Value new_value(TensorType type);
  const TensorType& type(Value value) const { return types.at(static_cast<std::size_t>(value.id)); }
  /// Returns for each value the index in `body` of the op that defines it; -1 for arguments, and for values
  /// that no op defines any more.
  std::vector<std::int32_t> definitions() const;
  /// Replaces `from` by `to` in all results, and in the operands of the ops from body index `first_op` on.
  void replace_uses(Value from, Value to, std::size_t first_op = 0);
  /// Returns the argument or named result of this name; an invalid Value if there is none.
  Value argument(std::string_view argument_name) const;
  Value result(std::string_view result_name) const;
};

enum class InitKind : std::uint8_t {
  zeros,
  ones,
  constant,
  normal,
  trunc_normal,
  uniform,
  xavier_uniform,
  values,
  orthonormal,
  sinusoid,
  sinusoid_2d
};

/// The initial value of a parameter:
///   constant        a
///   normal          normal numbers of mean 0 and std a
///   trunc_normal    the same, cut at -b and b, as timm's trunc_normal_
///   uniform         uniform numbers in [a, b)
///   xavier_uniform  the fans are the last two axes, out by in
///   values          the given numbers, one per element, row-major
///   orthonormal     as a matrix of the first axis by all others: orthonormal rows, or columns if these are
///                   fewer; uniformly distributed among such matrices
///   sinusoid        the last two axes are place p by width: sin(p / 10000^(2i / width)) at 2i, its cosine
///                   at 2i + 1 (Vaswani et al., 2017, section 3.5)
///   sinusoid_2d     `a` rows of 0, then the places of a square grid, row by row. The first half of the
///                   width encodes the column x, the second half the row y, each as sin(x / 10000^(4i /
///                   width)) for i in [0, width / 4), then the cosines (MAE: He et al., CVPR 2022)
struct Init {
  InitKind kind = InitKind::zeros;
  double a = 0;
  double b = 0;
  std::vector<double> values = {};
  bool operator==(const Init&) const = default;
};

/// The role of a parameter in a run. Files of weights contain the kinds that evaluation may read: weight,
/// statistic and average. After a step that is not finite, the parameters of kind partial are cleared.
enum class StateKind : std::uint8_t {
  weight,
  statistic,  // statistics of values in forward
  average,    // averages of weights
  moment,     // a state of the optimizer
  counter,    // counts the run's steps
  random,     // a state of random numbers
  flag,       // whether the run is still finite
  partial     // values of an unfinished step
};
std::string_view state_kind_name(StateKind kind);

/// A named tensor that persists between programs, which share it in one state arena.
struct Parameter {
  std::string name;
  TensorType type;
  Init init;
  bool trainable = true;
  bool decay =
      true;  // is in the weight-decay group (matrices are; norms, biases, cls_token, pos_embed are not)
  std::string role;         // norm, qkv, proj, fc1, fc2, patch_embed, head, cls_token, pos_embed, join
  std::string site;         // attn | mlp | conv, or "" outside a branch
  std::int32_t block = -1;  // block index, -1 outside the blocks
  std::int32_t layer = -1;  // depth, for layer-wise learning rates; 0: the stem; -1: unknown
  OptimizerHint hint = {};
  StateKind kind = StateKind::weight;
  std::string average_of = {};  // for an average kept in addition to its weight: the weight's name

  /// Returns whether it belongs in the file of weights. Averages with `average_of` have a file of their
  /// own, under the names of the weights.
  bool is_weight() const { return kind <= StateKind::average && average_of.empty(); }
};

/// An index of parameters by name. It covers the first `places.size()` parameters of a module, and is valid
/// if the last of these is still at its place. Module::add_parameter maintains it; if it is invalid, names
/// are compared one by one.
struct ParameterPlaces {
  std::unordered_map<std::string, std::size_t> places;

  bool holds(const std::vector<Parameter>& parameters) const {
    if (places.empty()) return true;
    if (places.size() > parameters.size()) return false;
    const auto last = places.find(parameters[places.size() - 1].name);
    return last != places.end() && last->second == places.size() - 1;
  }
};

/// The module; ir/text.h describes its text form. Parameters and functions keep their order.
struct Module {
  std::string name;
  Attributes attributes;  // facts about the model for readers: image, patch, dim, …
  std::vector<Parameter> parameters;
  std::vector<Function> functions;
  ParameterPlaces parameter_index = {};

  Function* find_function(std::string_view function_name);
  const Function* find_function(std::string_view function_name) const;
  /// Returns a function that the caller knows to exist. Throws InternalError if there is none.
  Function& function(std::string_view function_name);
  const Function& function(std::string_view function_name) const;
  const Parameter* find_parameter(std::string_view parameter_name) const;
  Parameter* find_parameter(std::string_view parameter_name);
  /// Adds a parameter, or returns the existing one of this name. Throws UserError if the existing one has
  /// another type.
  Parameter& add_parameter(Parameter parameter);
  /// Adds a parameter without training and weight decay. If one of this name exists, sets its kind.
  Parameter& add_state(std::string_view state_name, TensorType type, StateKind kind, Init init = {});
  /// Drops the parameters that no function reads or updates.
  void drop_unused_parameters();
};

}  // namespace rewire::ir
