#include "ir/ops/work.h"

#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

Work each(double flops, const WorkContext& context) {
  return {flops * static_cast<double>(context.results[0].elements()), 0};
}

}  // namespace

// The operations per element in a vectorised kernel: a
// polynomial for exp, a reciprocal and its correction for div.
Work each_1(const WorkContext& context) {
  return each(1, context);
}
Work each_4(const WorkContext& context) {
  return each(4, context);
}
Work each_20(const WorkContext& context) {
  return each(20, context);
}
Work each_40(const WorkContext& context) {
  return each(40, context);
}
Work each_80(const WorkContext& context) {
  return each(80, context);
}

Work op_work(const Function& function, const Op& op) {
  const WorkFunction work = op_info(op.code).work;
  if (work == nullptr) return {};
  WorkContext context{op.attributes, {}, {}};
  for (Value operand : op.operands) context.operands.push_back(function.type(operand));
  for (Value result : op.results) context.results.push_back(function.type(result));
  return work(context);
}

std::int64_t flops_per_element(const Function& function, const Op& op) {
  const double flops = op_work(function, op).flops;
  return flops == 0 ? 0 : static_cast<std::int64_t>(flops) / function.type(op.results[0]).elements();
}

double multiply_adds(const Function& function) {
  double sum = 0;
  for (const Op& op : function.body) sum += op_work(function, op).multiply_adds;
  return sum;
}

}  // namespace rewire::ir
