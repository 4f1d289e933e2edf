// A row of the op table in C++: all that the verifier, the text form, the evaluator, autodiff and the
// backends know of an op. ir/ops/ops.def has the rows, ir/ops/<class>.cpp the functions that they name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::ir {

enum class OpClass : std::uint8_t {
  pointwise,
  reduce,
  contract,
  shape,
  spectral,
  random,
  composite,
  residual,
  state,
  comm
};
std::string_view op_class_name(OpClass op_class);

/// The relation of an op's result magnitudes to its operands'; see ops.def.
enum class Arithmetic : std::uint8_t { other, sums, product };

enum class AttributeKind : std::uint8_t { boolean, integer, floating, string, integers, floats };

struct AttributeSpec {
  std::string name;
  AttributeKind kind{};
  std::optional<Attribute> default_value;  // none: required
};

/// The input of a shape rule. The rule returns the result types, or throws UserError naming the wrong
/// operand or attribute; the caller adds op, location and operand types. Attributes are complete and of the
/// right kind.
struct InferContext {
  const Module& module;
  const Attributes& attributes;
  std::vector<TensorType> operands;
  std::optional<TensorType> requested;  // typed ops: the type after ':'

  const TensorType& operand(std::size_t i) const { return operands[i]; }
};

/// The input of an evaluator: operands as doubles, and results to fill, which are allocated with the
/// inferred type and zeroed.
struct EvalContext {
  const Op& op;
  std::vector<const Tensor*> operands;
  std::vector<Tensor>& results;
  EvalState& state;

  const Tensor& in(std::size_t i) const { return *operands[i]; }
  Tensor& out(std::size_t i = 0) const { return results[i]; }
};

/// The input of a VJP. `builder` appends after the whole forward body. `cotangent(i)` is dL/d result i,
/// invalid if the loss does not depend on it (never for an op of one result). The rule calls `accumulate(i,
/// value)` for each float operand that needs a gradient.
class VjpContext {
 public:
  VjpContext(Builder& target, const Op& forward, std::vector<Value> result_cotangents,
             std::vector<bool> needed_operands)
      : builder(target),
        op(forward),
        cotangents(std::move(result_cotangents)),
        needed(std::move(needed_operands)),
        gradients(forward.operands.size()) {}

  Value operand(std::size_t i) const { return op.operands[i]; }
  Value result(std::size_t i = 0) const { return op.results[i]; }
  Value cotangent(std::size_t i = 0) const { return cotangents[i]; }
  /// Returns whether operand i needs a gradient. A rule may skip the others, and must if they are costly.
  bool needs(std::size_t i) const { return needed[i]; }
  void accumulate(std::size_t i, Value gradient) { gradients[i] = gradient; }

  Builder& builder;
  const Op& op;
  std::vector<Value> cotangents;
  std::vector<bool> needed;
  std::vector<Value> gradients;  // per operand; invalid: none
};

/// The work of one run of an op.
struct Work {
  double flops = 0;          // roughly, as a vectorised kernel or a library does them
  double multiply_adds = 0;  // of products only, as papers count a model's
};

struct WorkContext {
  const Attributes& attributes;
  std::vector<TensorType> operands;
  std::vector<TensorType> results;
};

using InferFunction = std::vector<TensorType> (*)(const InferContext&);
using EvalFunction = void (*)(EvalContext&);
using VjpFunction = void (*)(VjpContext&);
/// Emits smaller ops of the same meaning and returns the values that replace the op's results.
using DecomposeFunction = std::vector<Value> (*)(Builder&, const Op&);
using WorkFunction = Work (*)(const WorkContext&);

struct OpInfo {
  Opcode code{};
  std::string_view name;
  OpClass op_class{};
  int min_operands = 0;
  int max_operands = 0;  // -1: any number
  int results = 1;
  bool typed = false;
  std::vector<AttributeSpec> attributes;
  InferFunction infer = nullptr;
  EvalFunction evaluate = nullptr;
  VjpFunction vjp = nullptr;              // nullptr: it passes no gradient
  DecomposeFunction decompose = nullptr;  // nullptr: not a composite, or kept whole for the tile level
  double tolerance = 0;
  WorkFunction work = nullptr;  // nullptr: it only moves elements, or is decomposed
  Arithmetic arithmetic{};
  bool open_to_plugins = false;
  std::string_view doc;  // one line: operands, result and attributes

  const AttributeSpec* find_attribute(std::string_view attribute_name) const;
};

const OpInfo& op_info(Opcode code);
/// Returns the operations per element of a pointwise op, from its row. Backends use them as its cost.
double operations_each(Opcode code);
std::span<const OpInfo> op_table();

/// Checks operand count and attributes (unknown, missing, wrong kind), fills in defaults, runs the shape
/// rule and returns the result types. Throws UserError such as "matmul at blocks.0.attn.qkv: inner extents
/// differ: f32[8,3] x f32[4,8]".
std::vector<TensorType> check_and_infer(const Module& module, const Function& function, Op& op,
                                        const std::optional<TensorType>& requested);

/// Returns an op's name in errors: "add at blocks.0 (line 12)".
std::string describe(const Op& op);

}  // namespace rewire::ir
