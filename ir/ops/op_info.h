// One row of the op table, as C++ reads it: everything the verifier, the text form, the evaluator, autodiff
// and the backends know of an op. The rows are ir/ops/ops.def; the functions they name stand in
// ir/ops/<class>.cpp.
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

/// How the magnitudes of an op's results follow from its operands'; see ops.def.
enum class Arithmetic : std::uint8_t { other, sums, product };

enum class AttributeKind : std::uint8_t { boolean, integer, floating, string, integers, floats };

struct AttributeSpec {
  std::string name;
  AttributeKind kind{};
  std::optional<Attribute> default_value;  // none: required
};

/// What a shape rule sees. It returns the result types, or throws UserError saying which operand or attribute
/// is wrong; the caller prefixes op, location and operand types. Attributes are complete and of the right
/// kind when it is called.
struct InferContext {
  const Module& module;
  const Attributes& attributes;
  std::vector<TensorType> operands;
  std::optional<TensorType> requested;  // typed ops: what stands after ':'

  const TensorType& operand(std::size_t i) const { return operands[i]; }
};

/// What an evaluator sees: operands as doubles, results to be filled (allocated, of the inferred type,
/// zeroed).
struct EvalContext {
  const Op& op;
  std::vector<const Tensor*> operands;
  std::vector<Tensor>& results;
  EvalState& state;

  const Tensor& in(std::size_t i) const { return *operands[i]; }
  Tensor& out(std::size_t i = 0) const { return results[i]; }
};

/// What a VJP sees. `builder` appends after the whole forward body; `cotangent(i)` is dL/d result i, invalid
/// where nothing flows (never for an op of one result); the rule calls `accumulate(i, value)` for each float
/// operand that needs a gradient.
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
  /// False for operands that no gradient is asked of: a rule may skip them, and must where work is costly.
  bool needs(std::size_t i) const { return needed[i]; }
  void accumulate(std::size_t i, Value gradient) { gradients[i] = gradient; }

  Builder& builder;
  const Op& op;
  std::vector<Value> cotangents;
  std::vector<bool> needed;
  std::vector<Value> gradients;  // per operand; invalid: none
};

/// What one run of an op computes.
struct Work {
  double flops = 0;          // roughly, as a vectorised kernel or a library does them
  double multiply_adds = 0;  // of products alone, as papers count a model's
};

struct WorkContext {
  const Attributes& attributes;
  std::vector<TensorType> operands;
  std::vector<TensorType> results;
};

using InferFunction = std::vector<TensorType> (*)(const InferContext&);
using EvalFunction = void (*)(EvalContext&);
using VjpFunction = void (*)(VjpContext&);
/// Emits the same meaning in smaller ops and returns the values that stand for the op's results.
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
  VjpFunction vjp = nullptr;              // nullptr: no gradient flows through
  DecomposeFunction decompose = nullptr;  // nullptr: not a composite, or stays whole for the tile level
  double tolerance = 0;
  WorkFunction work = nullptr;  // nullptr: it moves elements along, or is decomposed
  Arithmetic arithmetic{};
  bool open_to_plugins = false;

  const AttributeSpec* find_attribute(std::string_view attribute_name) const;
};

const OpInfo& op_info(Opcode code);
/// Operations that a pointwise op takes an element, as its row says: what backends weigh it by.
double operations_each(Opcode code);
std::span<const OpInfo> op_table();

/// Checks operand count and attributes (unknown, missing, wrong kind; fills in defaults), runs the shape
/// rule, returns the result types. UserError: "matmul at blocks.0.attn.qkv: inner extents differ: f32[8,3] x
/// f32[4,8]".
std::vector<TensorType> check_and_infer(const Module& module, const Function& function, Op& op,
                                        const std::optional<TensorType>& requested);

/// "add at blocks.0 (line 12)": how errors name an op.
std::string describe(const Op& op);

}  // namespace rewire::ir
