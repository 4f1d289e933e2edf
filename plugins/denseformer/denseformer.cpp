// Depth-weighted averages (Pagliardini et al., DenseFormer, 2024). After every block, the stream becomes a
// learned sum of the outputs of all blocks so far,
//   x' = sum over j <= i of a_ij X_j,
// with X_0 the embedding and X_j the output of block j (from 1) before its own average. a_ii starts at 1 and
// the others at 0, which is the plain network. dilation=k: only those j with j = i mod k. period=p: only
// after every p-th block. dynamic=true adds to the a_ij of each token a function of X_i,
//   W_2^T gelu(W_1^T RMSNorm(X_i)),
// which is MUDD (Xiao et al., MUDDFormer, 2025) with one way, the stream.
#include <cmath>
#include <rewire_plugin.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr double kEpsilon = 1e-6;

constexpr rewire_parameter kParameters[] = {
    int_parameter("dilation", "1", "k: the average after block i reads blocks i, i - k, i - 2k, ...",
                  at_least(1)),
    int_parameter("period", "1", "p: averages come after blocks p, 2p, 3p, ...", at_least(1)),
    bool_parameter("dynamic", "false", "adds a function of each token to the weights: one-way MUDD"),
};

/// Returns whether join i is the last one of its block.
bool ends_block(const std::vector<Join>& joins, std::size_t i) {
  return i + 1 == joins.size() || joins[i + 1].block != joins[i].block ||
         joins[i + 1].scope != joins[i].scope;
}

/// Returns `count` numbers for each token, on the axis of the channels, as a function of a block's output.
Value numbers_of(const Join& join, const Value& output, std::int64_t count) {
  const std::int64_t d = join.channel_shape().at(static_cast<std::size_t>(join.channel_axis));
  const Value first =
      join.add_weight("w1", {d, count}, Init::normal(1 / std::sqrt(static_cast<double>(d))), Group::decay);
  const Value second = join.add_weight("w2", {count, count}, Init::zeros(), Group::decay);
  const Value wide = at_least_f32(output);
  const Value normed = wide * rsqrt(mean(wide * wide, {join.channel_axis}) + kEpsilon);
  const ChannelsLast moved(join, std::ssize(output.shape()));
  return moved.back(matmul(gelu(matmul(moved.there(cast(normed, output.dtype())), first)), second));
}

void rewrite(const Rewrite& call) {
  const bool dynamic = call.get_bool("dynamic");
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
    Value average, numbers;
    if (dynamic) numbers = numbers_of(join, outputs.back(), static_cast<std::int64_t>(block / dilation + 1));
    std::int64_t read = 0;
    for (std::size_t j = block % dilation; j <= block; j += dilation, ++read) {
      Value weight = join.add_scalar("alpha_" + std::to_string(j), Init::constant(j == block ? 1 : 0));
      if (dynamic) weight += slice(numbers, join.channel_axis, read, read + 1);
      average += weight * outputs[j];
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
