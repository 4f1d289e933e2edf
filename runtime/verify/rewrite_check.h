// Examines a rewritten network on the evaluator: does the rewrite change anything, is all of it used, do its
// new weights learn, and does a sample or a token depend on what it should not?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

struct JoinCounts {
  std::size_t changed = 0, all = 0;
};
/// Counts the joins of `forward` whose slots are no longer stream and branch, or that have paths.
JoinCounts count_joins(const ir::Module& module);

/// Returns the parts of the rewrite that nothing reads: "blocks.0.attn: sum, mul" for ops of a place, "the
/// weight blocks.0.join_attn.a". An op is read if a result of forward depends on it through the terms of the
/// joins' sums. `plugin`: the name in the places of its ops.
std::vector<std::string> unused_parts(const ir::Module& original, const ir::Module& rewritten,
                                      const std::string& plugin);

/// Returns the weights whose gradient is all zero at each of some perturbed points, in the module's order.
/// `module` has the program `grad`.
std::vector<std::string> weights_without_gradient(const ir::Module& module, const TensorMap& weights,
                                                  std::uint64_t seed);

/// Returns the modes in which another image of sample 0 changes forward's results for another sample: "in
/// training", "in evaluation", both or neither.
std::vector<std::string> modes_that_mix_samples(const ir::Module& module, const TensorMap& weights,
                                                std::uint64_t seed);

/// For a network whose branches read earlier tokens only (models::causal_network), returns the first join at
/// which a token reads a later one, as "blocks.0.attn: token 2 reads token 5"; "" if none does.
std::string token_that_reads_a_later_one(const ir::Module& module, const TensorMap& weights,
                                         std::uint64_t seed);

}  // namespace rewire::runtime
