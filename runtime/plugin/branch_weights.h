// Which weights a join's branch reads, by following the data: names say it for one family of models only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/residual.h"

namespace rewire::runtime {

/// Answers for the ops and parameters that there are when it is made: what is added behind them changes
/// nothing. Both must outlive it.
class BranchWeights {
 public:
  BranchWeights(const ir::Module& module, const ir::Function& function);

  /// The parameters of the join's block and site that the branch's output depends on, without going back
  /// beyond the stream or an earlier join. In order of the module.
  std::vector<const ir::Parameter*> of(const ir::Join& join) const;
  /// The op that defines a value; nullptr for arguments.
  const ir::Op* definition(ir::Value value) const;

 private:
  const ir::Module& module_;
  const ir::Function& function_;
  std::vector<std::int32_t> definitions_;
  std::map<std::pair<std::int32_t, std::string>, std::vector<std::size_t>> places_;  // by block and site
};

}  // namespace rewire::runtime
