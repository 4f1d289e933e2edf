// Attention residuals (Kimi team, Attention Residuals, 2026). Each branch reads a weighted mean of all
// outputs before it, instead of their plain sum:
//   h = sum of a_i v_i,   a = softmax over i of q . RMSNorm(v_i)
// v_0 is the embedding, v_i the output of branch i, and q a learned vector of the join. What follows the
// last join reads such a mean too. block=S sums the branches in blocks of S joins: h then attends over the
// embedding, the blocks before and the sum so far of its own block. S = 1 is the full form.
#include <rewire_plugin.hpp>
#include <string>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr double kEpsilon = 1e-6;

constexpr rewire_parameter kParameters[] = {
    int_parameter("block", "1", "number of joins whose outputs are summed into one source; 1: the full form",
                  at_least(1)),
};

/// A value to attend to, and 1 over its root mean square, which all joins share.
struct Source {
  Value value, scale;

  Source(const Join& join, const Value& v) : value(v) {
    const Value wide = at_least_f32(v);
    scale = rsqrt(mean(wide * wide, {join.channel_axis}) + kEpsilon);
  }
};

/// Returns the sources' weighted mean by a new query. RMSNorm has no weight: it would only scale the query.
Value attend(const Join& join, const std::string& prefix, const std::vector<Source>& sources) {
  const Ints channels = {join.channel_shape().at(static_cast<std::size_t>(join.channel_axis))};
  const Value query = join.add_weight(prefix + "query", channels, Init::zeros(), Group::no_decay);
  // Broadcast over the tokens once, so that the query's gradient is one sum over tokens, not one per source.
  const Value q = emit("broadcast", {reshape(at_least_f32(query), join.channel_shape())}, {},
                       Type{sources.front().scale.dtype(), join.stream.shape()});
  std::vector<Value> logits;
  Value largest;
  for (const Source& source : sources) {
    logits.push_back(sum(at_least_f32(source.value) * q, {join.channel_axis}) * source.scale);
    largest = largest ? maximum(largest, logits.back()) : logits.back();
  }
  largest = stop_gradient(largest);
  Value weighted, total;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Value weight = exp(logits[i] - largest);
    weighted += weight * at_least_f32(sources[i].value);
    total += weight;
  }
  return cast(weighted / total, join.stream.dtype());
}

/// Returns whether `join` follows `before` directly in the network, so that both are in one chain.
bool follows(const Join& join, const Join& before) {
  return join.scope == before.scope && join.join_index == before.join_index + 1 &&
         join.stream.type() == before.stream.type();
}

void rewrite(const Rewrite& call) {
  const std::int64_t size = call.get_int("block");
  const std::vector<Join> joins = call.joins();
  std::vector<Source> sources;
  Value running;  // the sum of the block that is not complete yet
  std::int64_t summed = 0;
  for (std::size_t i = 0; i < joins.size(); ++i) {
    const Join& join = joins[i];
    const auto seen = [&] {
      std::vector<Source> all = sources;
      if (summed > 0) all.emplace_back(join, running);
      return all;
    };
    if (i == 0 || !follows(join, joins[i - 1])) {
      sources = {Source(join, join.stream)};
      summed = 0;
    } else {
      join.replace("norm_input", attend(join, "", seen()));
    }
    running = summed > 0 ? running + join.branch : join.branch;
    const Value result = running;
    if (++summed == size) {
      sources.emplace_back(join, running);
      summed = 0;
    }
    const bool last = i + 1 == joins.size() || !follows(joins[i + 1], join);
    join.set_sum(last ? attend(join, "output_", seen()) : result);
  }
}

}  // namespace

REWIRE_PLUGIN("attnres", "1.0.0", "lets every branch attend over the outputs of the branches before it",
              kParameters, rewrite)
