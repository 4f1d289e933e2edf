// Declares every function that a row of the op table names. Shape rules and evaluators are defined in
// ir/ops/<class>.cpp, gradients in ir/autodiff/, decompositions beside their composites' gradients.
// `no_vjp`, `no_decompose` and `no_work` mean "none" in the table: table.cpp reads them as nullptr, and the
// functions declared here under these names have no definition.
#pragma once

#include <vector>

#include "ir/ops/op_info.h"

namespace rewire::ir {

#define REWIRE_OP(name, op_class, operands, results, typed, attributes, infer, evaluate, vjp, decompose, \
                  tolerance, work, arithmetic, plugins, doc)                                             \
  std::vector<TensorType> infer(const InferContext& context);                                            \
  void evaluate(EvalContext& context);                                                                   \
  void vjp(VjpContext& context);                                                                         \
  std::vector<Value> decompose(Builder& builder, const Op& op);                                          \
  Work work(const WorkContext& context);
#include "ir/ops/ops.def"
#undef REWIRE_OP

}  // namespace rewire::ir
