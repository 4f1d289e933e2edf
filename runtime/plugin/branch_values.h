// Values inside a network that a plugin may read and replace by their role at a join, such as the input of a
// norm, a branch or its attention. They are found by following the data from the join, so no model has to
// mark them.
//
//   norm_input  the input of the branch's norm, of the stream's type: x in a pre-norm block. A norm is a layer norm, or
//               ops with a sum or a batch norm, and without a contraction, between the stream and the branch's input
//   input       the input of the branch: the norm's result
//   q, k, v     the operands of the branch's attention, [batch, heads, tokens, width of a head]
//   attention   its result, of q's shape
//   hidden      the input of the branch's last layer
//   entry       the stream of the scope's first join: the embedding
//   exit        the result of the scope's last join: the input of the final norm
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/residual.h"
#include "runtime/plugin/definitions.h"

namespace rewire::runtime {

struct RoleValue {
  /// A place that reads the value: operand `index` of the op at `op`.
  struct Use {
    std::size_t op, index;
  };
  ir::Value value;
  std::vector<Use> uses;
  std::vector<std::size_t> results;  // indices of the function's results that are this value
  std::size_t join;                  // body index of its join; for `entry` the scope's first
};

/// Finds a value by its role. `join`: body index of a `residual` of the function. `old_ops`: the number of
/// ops that count as readers of entry and exit; later ones are the rewrite's. Returns nothing if the join
/// has no such value, or its branch no longer reads it. Throws UserError with all roles if there is no such
/// role.
std::optional<RoleValue> find_role(const ir::Function& function, Definitions& definitions, std::size_t join,
                                   std::string_view role, std::size_t old_ops);

}  // namespace rewire::runtime
