// Which weights a join's branch reads, by following the data: names say it for one family of models only.
#pragma once

#include <vector>

#include "ir/module.h"
#include "ir/residual.h"

namespace rewire::runtime {

/// The parameters of the join's block and site that the branch's output depends on, without going back beyond
/// the stream or an earlier join. In order of the module.
std::vector<const ir::Parameter*> branch_weights(const ir::Module& module, const ir::Function& function,
                                                 const ir::Join& join);

}  // namespace rewire::runtime
