// Learned augmented residual layers (Menghani, Kumar and Kumar, LAuReL, 2024, equations 3 to 6):
//   x' = a f + b (x + sum over j < k of c_j B A x_j)
// x_0 is the stream x, x_j the stream j joins before it. A [d, r] and B [r, d] are the join's own matrices, applied to
// rows: x A B. a and b are the paper's residual weights (RW), A B its low-rank part (LR), k > 1 its use of previous
// activations (PA).
#include <algorithm>
#include <rewire_plugin.hpp>
#include <string>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr double kMatrixStd = 0.02;

constexpr rewire_parameter kParameters[] = {
    enum_parameter(
        "weights", "sigmoid", "sigmoid|softmax|none",
        "a and b; sigmoid: twice the sigmoid of a trained number each; softmax: twice the softmax of two; "
        "none: 1 and 1"),
    int_parameter("rank", "16", "r, the rank of A B; 0 leaves the low-rank part out", at_least(0)),
    int_parameter("previous", "1", "k, how many streams the low-rank part reads, this one included",
                  at_least(1)),
};

/// Returns whether `join` follows `before` directly in the network, so that both are in one chain.
bool follows(const Join& join, const Join& before) {
  return join.scope == before.scope && join.join_index == before.join_index + 1 &&
         join.stream.type() == before.stream.type();
}

/// The weighted sum of the last k of `streams`, the last one first, times A B.
Value low_rank(const Join& join, const std::vector<Value>& streams, std::int64_t rank, std::int64_t k) {
  const std::int64_t d = join.channel_shape().at(static_cast<std::size_t>(join.channel_axis));
  Value read = streams.back();
  if (k > 1) {
    read = Value();
    for (std::int64_t j = 0; j < std::min(k, std::ssize(streams)); ++j) {
      const Value c = join.add_scalar("gamma_" + std::to_string(j), Init::constant(j == 0 ? 1 : 0));
      read += c * streams[streams.size() - 1 - static_cast<std::size_t>(j)];
    }
  }
  const Value a = join.add_weight("left", {d, rank}, Init::normal(kMatrixStd), Group::decay);
  const Value b = join.add_weight("right", {rank, d}, Init::zeros(), Group::decay);
  const ChannelsLast moved(join, std::ssize(read.shape()));
  return moved.back(matmul(matmul(moved.there(read), a), b));
}

void rewrite(const Rewrite& call) {
  const std::string weights = call.get_text("weights");
  const std::int64_t rank = call.get_int("rank"), previous = call.get_int("previous");
  if (rank == 0 && previous > 1) throw Error("previous needs the low-rank part: give a rank");
  if (rank == 0 && weights == "none") throw Error("rank=0 and weights=none leave nothing to add");
  const std::vector<Join> joins = call.joins();
  std::vector<Value> streams;  // of the chain of joins
  for (std::size_t i = 0; i < joins.size(); ++i) {
    const Join& join = joins[i];
    if (i > 0 && !follows(join, joins[i - 1])) streams.clear();
    streams.push_back(join.stream);
    Value shortcut = join.shortcut();
    if (rank > 0) shortcut += low_rank(join, streams, rank, previous);
    if (weights != "none") {
      const Value a = join.add_scalar("alpha", Init::zeros()), b = join.add_scalar("beta", Init::zeros());
      const bool compete = weights == "softmax";
      shortcut = 2 * sigmoid(compete ? b - a : b) * shortcut;
      join.change_branch(2 * sigmoid(compete ? a - b : a) * join.branch_slot());
    }
    join.change_shortcut(shortcut);
  }
}

}  // namespace

REWIRE_PLUGIN("laurel", "1.0.0", "adds trained weights and a low-rank layer to every shortcut: LAuReL",
              kParameters, rewrite)
