// Depth-weighted averages (Pagliardini et al., DenseFormer, 2024). After every block, the stream becomes a
// learned sum of the outputs of all blocks so far,
//   x' = sum over j <= i of a_ij X_j,
// with X_0 the embedding and X_j the output of block j (from 1) before its own average. a_ii starts at 1 and
// the others at 0, which is the plain network. dilation=k: only those j with j = i mod k. period=p: only
// after every p-th block.
#include <rewire_plugin.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    int_parameter("dilation", "1", "k: the average after block i reads blocks i, i - k, i - 2k, ...",
                  at_least(1)),
    int_parameter("period", "1", "p: averages come after blocks p, 2p, 3p, ...", at_least(1)),
};

/// Returns whether join i is the last one of its block.
bool ends_block(const std::vector<Join>& joins, std::size_t i) {
  return i + 1 == joins.size() || joins[i + 1].block != joins[i].block ||
         joins[i + 1].scope != joins[i].scope;
}

void rewrite(const Rewrite& call) {
  const auto dilation = static_cast<std::size_t>(call.get_int("dilation"));
  const auto period = static_cast<std::size_t>(call.get_int("period"));
  const std::vector<Join> joins = call.joins();
  std::vector<Value> outputs;  // X_0, X_1, ...
  bool averages = false;
  std::string scope;
  for (std::size_t i = 0; i < joins.size(); ++i) {
    const Join& join = joins[i];
    // Another scope, or feature maps of another size, start a new list of outputs.
    if (outputs.empty() || join.scope != scope || join.stream.type() != outputs.front().type()) {
      scope = join.scope;
      outputs = {join.stream};
    }
    if (!ends_block(joins, i)) continue;
    outputs.push_back(join.sum());
    const std::size_t block = outputs.size() - 1;
    if (block % period != 0) continue;
    Value average;
    for (std::size_t j = block % dilation; j <= block; j += dilation) {
      average +=
          join.add_scalar("alpha_" + std::to_string(j), Init::constant(j == block ? 1 : 0)) * outputs[j];
    }
    join.change_sum(average);
    averages = true;
  }
  if (!averages) {
    throw Error("period=" + std::to_string(period) +
                " is more than the number of blocks that it counts: use a smaller one");
  }
}

}  // namespace

REWIRE_PLUGIN("denseformer", "1.0.0", "averages the outputs of all blocks so far, after every block",
              kParameters, rewrite)
