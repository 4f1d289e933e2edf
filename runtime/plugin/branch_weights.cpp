// Walks back from the branch. Block and site are compared too: the walk of a join with a projection shortcut
// passes the raw stream and would reach weights before the first join.
#include "runtime/plugin/branch_weights.h"

#include <set>
#include <string_view>

#include "ir/opcodes.h"

namespace rewire::runtime {

BranchWeights::BranchWeights(const ir::Module& module, const ir::Function& function)
    : module_(module), definitions_(function) {
  for (std::size_t i = 0; i < module.parameters.size(); ++i) {
    const ir::Parameter& parameter = module.parameters[i];
    places_[{parameter.block, parameter.site}].push_back(i);
  }
}

std::vector<const ir::Parameter*> BranchWeights::of(const ir::Join& join) const {
  std::set<ir::Value> seen = {join.stream};
  std::vector<ir::Value> pending = {join.branch, join.input};
  std::set<std::string_view> names;
  while (!pending.empty()) {
    const ir::Value value = pending.back();
    pending.pop_back();
    const ir::Op* op = definitions_.op(value);
    if (!seen.insert(value).second || op == nullptr || op->code == ir::Opcode::residual) continue;
    if (op->code == ir::Opcode::param) names.insert(op->attributes.get_string("name"));
    pending.insert(pending.end(), op->operands.begin(), op->operands.end());
  }
  std::vector<const ir::Parameter*> weights;
  const auto place = places_.find({static_cast<std::int32_t>(join.block), join.site});
  if (place == places_.end()) return weights;
  for (const std::size_t at : place->second) {
    if (names.contains(module_.parameters[at].name)) weights.push_back(&module_.parameters[at]);
  }
  return weights;
}

}  // namespace rewire::runtime
