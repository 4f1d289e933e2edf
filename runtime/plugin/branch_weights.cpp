// A backward walk from the branch. Block and site are asked for as well, because the walk of a join with a
// projection shortcut passes the raw stream and would reach what stands before the first join.
#include "runtime/plugin/branch_weights.h"

#include <set>
#include <string>

namespace rewire::runtime {

std::vector<const ir::Parameter*> branch_weights(const ir::Module& module, const ir::Function& function,
                                                 const ir::Join& join) {
  const std::vector<std::int32_t> definitions = function.definitions();
  std::set<ir::Value> seen = {join.stream};
  std::vector<ir::Value> pending = {join.branch};
  std::set<std::string, std::less<>> names;
  while (!pending.empty()) {
    const ir::Value value = pending.back();
    pending.pop_back();
    const std::int32_t defined = definitions[static_cast<std::size_t>(value.id)];
    if (!seen.insert(value).second || defined < 0) continue;
    const ir::Op& op = function.body[static_cast<std::size_t>(defined)];
    if (op.code == ir::Opcode::residual) continue;
    if (op.code == ir::Opcode::param) names.insert(op.attributes.get_string("name"));
    pending.insert(pending.end(), op.operands.begin(), op.operands.end());
  }
  std::vector<const ir::Parameter*> weights;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.block == join.block && parameter.site == join.site && names.contains(parameter.name)) {
      weights.push_back(&parameter);
    }
  }
  return weights;
}

}  // namespace rewire::runtime
