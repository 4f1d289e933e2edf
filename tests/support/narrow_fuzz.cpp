#include "tests/support/narrow_fuzz.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "tests/support/accuracy.h"

namespace rewire::testing {
namespace {

using ir::Op;
using ir::Opcode;

/// Rounded in other places, a backend may err by this many times what rounding everything costs.
constexpr double kTimes = 4;
constexpr double kMeaningful = 0.1;

bool jumps(const ir::Function& function, const Op& op) {
  switch (op.code) {
    case Opcode::compare:
    case Opcode::floor:
    case Opcode::argmax:
    case Opcode::sort:
    case Opcode::max:
      return true;
    case Opcode::cast:
      return !ir::is_float(function.type(op.results[0]).dtype);
    default:
      return false;
  }
}

/// By result, over the largest of all.
std::vector<double> errors(const std::vector<ir::Tensor>& expected, const std::vector<ir::Tensor>& actual) {
  double largest = 1e-3;
  for (const ir::Tensor& tensor : expected) largest = std::max(largest, largest_magnitude(tensor));
  std::vector<double> result;
  for (std::size_t r = 0; r < expected.size(); ++r)
    result.push_back(scaled_error(expected[r], actual[r], 100 * largest));
  return result;
}

}  // namespace

std::optional<NarrowCase> narrow_case(const FuzzCase& fuzz) {
  NarrowCase narrow{fuzz.program, 0};
  ir::Function& main = narrow.program.module.function("main");
  const auto is_product = [](const Op& op) {
    return op.code == Opcode::matmul || op.code == Opcode::attention || op.code == Opcode::attention_grad;
  };
  if (std::ranges::none_of(main.body, is_product) ||
      std::ranges::any_of(main.body, [&](const Op& op) { return jumps(main, op); }))
    return std::nullopt;
  ir::mixed_precision(narrow.program.module, main, {});
  const std::vector<double> rounded = errors(fuzz.expected, evaluate_rounded(narrow.program));
  const double most = std::ranges::max(rounded);
  if (!(most <= kMeaningful)) return std::nullopt;
  narrow.allowed = kTimes * most + storage_error(ir::DType::bf16);
  return narrow;
}

std::string narrow_difference(const FuzzCase& fuzz, const NarrowCase& narrow,
                              const std::vector<ir::Tensor>& actual) {
  const std::vector<double> found = errors(fuzz.expected, actual);
  for (std::size_t r = 0; r < found.size(); ++r) {
    if (!(found[r] <= narrow.allowed))
      return fmt::format("in bf16: result {} is off by {:.1e}, allowed {:.1e}", r, found[r], narrow.allowed);
  }
  return {};
}

}  // namespace rewire::testing
