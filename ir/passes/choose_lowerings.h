// Sets lowering="auto" to the answer of the context's chooser, for each op with several lowerings. Without a
// chooser nothing changes, and `decompose` takes the cost model's. All ops of a function that share work get
// one answer: a circulant product, its transpose and the gradient of its lags read the same matrices and
// transforms. The key of a circulant product:
//
//   circulant_matmul conv|corr rows=R blocks=PxQ lags=N f32 [tf32] forward|training
//
// R is the number of rows of x, at most kTrialRows: beyond that, time is linear in them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/passes/pass.h"

namespace rewire::ir {

inline constexpr std::int64_t kTrialRows = 4096;

void choose_lowerings(Module& module, PassContext& context);

/// Returns the kinds of keys, their first words.
std::vector<std::string> choice_kinds();
/// Returns all possible answers to a choice of this kind; empty for an unknown kind.
std::vector<std::string> choice_candidates(std::string_view kind);

}  // namespace rewire::ir
