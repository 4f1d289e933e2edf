// The verifier: an executable definition of a valid module. It runs after parsing, after every plugin
// rewrite, and after every pass in debug builds and CI.
//
//  V1  names of parameters, functions, arguments and results are unique and not empty
//  V2  every value is defined exactly once, before its first use; every id is in range
//  V3  operand and result counts fit the op table
//  V4  attributes are known, complete and of the right kind
//  V5  result types equal what the shape rule infers (for typed ops: are accepted by it)
//  V6  param and update name a parameter of the module; types agree
//  V7  every update follows all reads (`param`) of its state; at most one update per name and function
//  V8  a residual's stream, slots, paths and result have one shape and dtype; a slot that is not as in a
//      fresh join names the plugin that changed it
//  V9  extents are >= 1, a tensor has at most 16 axes, element counts stay below 2^40
//  V10 a function's results are values that it defines; the stream name of a random op is not empty
//  V11 a parameter's init draws only numbers of its dtype (ir/init.h)
//  V12 a parameter's optimizer hint is within its ranges (ir/optimizer_hint.h)
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/module.h"

namespace rewire::ir {

/// Limits of V9. Sizes in bytes, and sums of a few of them, cannot overflow.
inline constexpr int kMaxRank = 16;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

/// Returns the fault of a type by V9, or "".
std::string type_fault(const TensorType& type);

struct Violation {
  std::string message;         // "V5: in @forward, add at blocks.0: …"
  std::int32_t function = -1;  // index in Module::functions; -1: the module itself
  std::int32_t op = -1;        // index in Function::body; -1: the function itself
};

/// Returns the first violation, for callers that know the source line of its op.
std::optional<Violation> find_violation(const Module& module);

/// Throws UserError with the invariant, function, op and types of the first violation: "V5: …".
void verify(const Module& module);

}  // namespace rewire::ir
