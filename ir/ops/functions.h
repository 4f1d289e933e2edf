// Declares every function that a row of the op table names. Shape rules and evaluators are defined in
// ir/ops/<class>.cpp, gradients in ir/autodiff/, decompositions beside their composites' gradients.
// `no_vjp`, `no_decompose` and `no_work` are the table's words for "none": table.cpp reads them as nullptr, and nothing
// defines the functions of that name declared here.
#pragma once

#include <vector>

#include "ir/ops/op_info.h"

namespace rewire::ir {

#define REWIRE_OP(name, op_class, operands, results, typed, attributes, infer, evaluate, vjp, decompose, \
                  tolerance, work, arithmetic, plugins)                                                  \
  std::vector<TensorType> infer(const InferContext& context);                                            \
  void evaluate(EvalContext& context);                                                                   \
  void vjp(VjpContext& context);                                                                         \
  std::vector<Value> decompose(Builder& builder, const Op& op);                                          \
  Work work(const WorkContext& context);
#include "ir/ops/ops.def"
#undef REWIRE_OP

}  // namespace rewire::ir
