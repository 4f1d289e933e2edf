// lowering="auto" = the lowering that the context's chooser answers, for each op that has several; without a
// chooser nothing changes, and `decompose` takes the cost model's. One answer for all the ops of a function
// that share work: a circulant product, its transpose and the gradient of its lags read the same matrices
// and transforms. The key of a circulant product:
//
//   circulant_matmul conv|corr rows=R blocks=PxQ lags=N f32 [tf32] forward|training
//
// R rows are the rows of x, at most kTrialRows: from there on time is linear in them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/passes/pass.h"

namespace rewire::ir {

inline constexpr std::int64_t kTrialRows = 4096;

void choose_lowerings(Module& module, PassContext& context);

/// The kinds of keys, their first words.
std::vector<std::string> choice_kinds();
/// All that a choice of this kind may ever be answered; empty for an unknown kind.
std::vector<std::string> choice_candidates(std::string_view kind);

}  // namespace rewire::ir
