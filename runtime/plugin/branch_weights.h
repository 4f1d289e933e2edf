// The weights that a join's branch reads, found by following the data: names would work for one family of
// models only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/residual.h"
#include "runtime/plugin/definitions.h"

namespace rewire::runtime {

/// Finds the weights that branches read, among the parameters that exist when it is made. Module and
/// function must outlive it, and the function's ops must not move.
class BranchWeights {
 public:
  BranchWeights(const ir::Module& module, const ir::Function& function);

  /// Returns the parameters of the join's block and site that the branch's input or output depends on, in
  /// the module's order. The search ends at the stream and at earlier joins.
  std::vector<const ir::Parameter*> of(const ir::Join& join) const;

 private:
  const ir::Module& module_;
  mutable Definitions definitions_;  // grows with the function
  std::map<std::pair<std::int32_t, std::string>, std::vector<std::size_t>> places_;  // by block and site
};

}  // namespace rewire::runtime
