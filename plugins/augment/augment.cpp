// Augmented shortcuts: T cheap learned shortcuts run parallel to the plain shortcut and the branch,
//   x' = x + f + sum over i < T of gelu(u Theta_i),   u is the branch's input (its norm of x) or x itself.
// Theta_i [d, d] is block-circulant: b x b blocks of d / b lags each, which is T b d numbers per join.
// order: the activation after Theta (circ_act), before it (act_circ), Theta alone (circ), or gelu alone
// (act, T times). projection=dense uses T full matrices instead. Drop path does not drop these paths.
#include <algorithm>
#include <rewire_plugin.hpp>
#include <string>
#include <utility>

namespace {

using namespace rewire::plugin;

constexpr double kInitStd = 0.02, kInitCut = 2;

constexpr rewire_parameter kParameters[] = {
    int_parameter("paths", "2", "number of learned shortcuts beside each branch; 0: the plain join",
                  at_least(0)),
    int_parameter("blocks", "4",
                  "number of blocks of a circulant matrix along each side; a divisor of the width",
                  at_least(1)),
    enum_parameter("order", "circ_act", "circ_act|act_circ|act|circ",
                   "order of projection and gelu; circ_act: projection, then gelu; act_circ: gelu, then "
                   "projection; act: gelu alone; circ: projection alone"),
    enum_parameter("projection", "circulant", "circulant|dense",
                   "matrices of the projection; circulant: block-circulant; dense: full, which ignores "
                   "blocks and circulant"),
    enum_parameter("input", "norm", "norm|stream",
                   "input of the shortcuts; norm: what the branch reads; stream: the stream"),
    enum_parameter("circulant", "conv", "conv|corr",
                   "lag of a circulant's entry for input s and output r; conv: r - s, a convolution; corr: s "
                   "- r, a correlation"),
};

/// The permutation that makes a join's channels the last axis, and its inverse.
struct ChannelsLast {
  Ints there, back;

  explicit ChannelsLast(const Join& join) {
    const auto rank = std::ssize(join.stream.shape());
    const std::int64_t channels = (join.channel_axis + rank) % rank;
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      if (axis != channels) there.push_back(axis);
    }
    there.push_back(channels);
    back.resize(there.size());
    for (std::size_t i = 0; i < there.size(); ++i)
      back[static_cast<std::size_t>(there[i])] = static_cast<std::int64_t>(i);
  }
  bool changes() const { return there.back() + 1 != std::ssize(there); }
};

/// The projections of one join: [..., d] to [..., outputs d]. outputs is T, or 1 for their sum. If no
/// activation follows the projections, sum of u Theta_i = u (sum of Theta_i).
class Projection {
 public:
  Projection(const Rewrite& call, const Join& join, std::int64_t width)
      : paths_(call.get_int("paths")),
        blocks_(call.get_int("blocks")),
        width_(width),
        dense_(call.get_text("projection") == "dense"),
        correlation_(call.get_text("circulant") == "corr") {
    if (!dense_ && width % blocks_ != 0) refuse_blocks(join);
    const Init init = Init::trunc_normal(kInitStd, kInitCut);
    weight_ = dense_ ? join.add_weight("weight", {paths_, width, width}, init, Group::decay)
                     : join.add_weight("c", {paths_, blocks_, blocks_, width / blocks_}, init, Group::decay);
  }

  Value all(const Value& u) const { return project(u, weight_, paths_); }
  Value summed(const Value& u) const { return project(u, sum(weight_, {0}), 1); }

 private:
  Value project(const Value& u, const Value& weight, std::int64_t outputs) const {
    if (dense_) return matmul(u, reshape(weight, {outputs * width_, width_}), false, true);
    const Value lags = reshape(weight, {outputs * blocks_, blocks_, width_ / blocks_});
    return emit("circulant_matmul", {u, lags}, {{"correlation", correlation_}});
  }

  [[noreturn]] void refuse_blocks(const Join& join) const {
    std::int64_t below = std::min(blocks_, width_), above = blocks_;
    while (width_ % below != 0) --below;
    while (above < width_ && width_ % above != 0) ++above;
    throw Error("blocks=" + std::to_string(blocks_) + " does not divide the width " + std::to_string(width_) +
                " of " + join.name + ": use a divisor, such as " + std::to_string(below) +
                (above <= width_ ? " or " + std::to_string(above) : std::string()));
  }

  std::int64_t paths_, blocks_, width_;
  bool dense_, correlation_;
  Value weight_;
};

/// Returns the paths of one join. Its channels are the last axis of u.
std::vector<Value> paths_of(const Rewrite& call, const Join& join, const Value& u) {
  const Ints shape = u.shape();
  const std::int64_t count = call.get_int("paths"), width = shape.at(shape.size() - 1);
  const std::string order = call.get_text("order");
  if (order == "act") return {gelu(u) * static_cast<double>(count)};
  const Projection projection(call, join, width);
  if (order == "act_circ") return {projection.summed(gelu(u))};
  if (order == "circ") return {projection.summed(u)};
  const Value all = gelu(projection.all(u));
  std::vector<Value> paths;
  for (std::int64_t i = 0; i < count; ++i) paths.push_back(slice(all, -1, i * width, (i + 1) * width));
  return paths;
}

void rewrite(const Rewrite& call) {
  if (call.get_int("paths") == 0) return;
  for (const Join& join : call.joins()) {
    const Value input = call.get_text("input") == "norm" ? join.input : join.stream;
    if (input.shape() != join.stream.shape()) {
      throw Error("the branch of " + join.name +
                  " reads another shape than the stream: leave it out, or set input=stream");
    }
    const ChannelsLast order(join);
    const Value u = order.changes() ? transpose(input, order.there) : input;
    for (const Value& path : paths_of(call, join, u)) {
      join.add_path(order.changes() ? transpose(path, order.back) : path);
    }
  }
}

}  // namespace

REWIRE_PLUGIN("augment", "1.0.0", "adds learned shortcuts parallel to every branch", kParameters, rewrite)
