// Hyper-connections: n lanes H_i replace the one stream.
// At each join, the branch reads h, and the lanes become
//   h = sum over i of m_i H_i,   H_j' = sum over i of r_ij H_i + b_j f(h).
// All H_i start as the embedding. After the last join, the stream is their sum. static, dynamic: Zhu et al.,
// Hyper-Connections, 2024. m, r and b are weights, or weights plus the output of a layer that reads the
// normed lane. mhc: Xie et al., Manifold-Constrained Hyper-Connections, 2025. m and b are sigmoids of a
// layer of all lanes, and Sinkhorn's iterations make r doubly stochastic. mhc_lite: Yang and Gao, mHC-lite, 2026.
// As mhc, but r is the weighted mean of all permutation matrices, by a softmax of the layer's outputs.
#include <algorithm>
#include <numeric>
#include <rewire_plugin.hpp>
#include <string>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr double kEpsilon = 1e-6, kScaleInit = 0.01;
constexpr double kChosen = 4, kUnmixed = -8;  // start of mhc: sigmoid(+-4), and exp(-8) off the diagonal
constexpr double kChosenLite = 1;             // start of mhc_lite: sigmoid(+-1)
constexpr std::int64_t kMostLanesLite = 5;    // of mhc_lite, whose layer has n! outputs

constexpr rewire_parameter kParameters[] = {
    enum_parameter("kind", "dynamic", "static|dynamic|mhc|mhc_lite",
                   "weights of the lanes; static: trained numbers; dynamic: trained numbers and a function "
                   "of the lanes; mhc: a function of the lanes, normalised by Sinkhorn; mhc_lite: a function "
                   "of the lanes that weighs permutations"),
    int_parameter("lanes", "4", "number of lanes, n", at_least(1)),
    int_parameter("iterations", "20", "Sinkhorn iterations, with kind=mhc", at_least(1)),
};

using Values = std::vector<Value>;

/// m_i, r_ij as [from][to], and b_j: each is one number, or one number per token.
struct Mixing {
  Values m, b;
  std::vector<Values> r;
};

std::size_t index_of(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Returns element (row, column) of a matrix as [1, 1], which broadcasts to any shape.
Value element(const Value& matrix, std::int64_t row, std::int64_t column) {
  return slice(slice(matrix, 0, row, row + 1), 1, column, column + 1);
}

/// Returns the columns of a matrix [d, columns] as vectors of the channels, for the inner product with every
/// token. They are broadcast over the tokens once for all lanes. So the gradient of each is one sum over
/// tokens, not one per lane.
Values columns_of(const Join& join, const Value& matrix) {
  Values columns;
  const std::int64_t count = matrix.shape().at(1);
  for (std::int64_t k = 0; k < count; ++k) {
    const Value column = at_least_f32(reshape(slice(matrix, 1, k, k + 1), join.channel_shape()));
    columns.push_back(emit("broadcast", {column}, {}, Type{column.dtype(), join.stream.shape()}));
  }
  return columns;
}

/// Returns (x - mean) / sqrt(variance + epsilon) over the channels.
Value normed(const Join& join, const Value& lane) {
  const Value x = at_least_f32(lane);
  const Value centred = x - mean(x, {join.channel_axis});
  return centred * rsqrt(mean(centred * centred, {join.channel_axis}) + kEpsilon);
}

Mixing hyper_connections(const Join& join, const Values& lanes, bool dynamic) {
  const std::int64_t n = std::ssize(lanes), d = join.channel_shape().at(index_of(join.channel_axis));
  std::vector<double> start(index_of(n * (n + 1)));
  start[index_of(join.join_index % n * (n + 1))] = 1;
  for (std::int64_t i = 0; i < n; ++i) start[index_of(i * (n + 1) + i + 1)] = 1;
  const Value alpha = join.add_weight("alpha", {n, n + 1}, Init::values(start), Group::no_decay);
  const Value beta = join.add_weight("beta", {n}, Init::ones(), Group::no_decay);
  Values alpha_fn(index_of(n + 1)), beta_fn(1);
  Value alpha_scale, beta_scale;
  if (dynamic) {
    alpha_fn = columns_of(join, join.add_weight("alpha_fn", {d, n + 1}, Init::zeros(), Group::decay));
    beta_fn = columns_of(join, join.add_weight("beta_fn", {d, 1}, Init::zeros(), Group::decay));
    alpha_scale = join.add_scalar("alpha_scale", Init::constant(kScaleInit));
    beta_scale = join.add_scalar("beta_scale", Init::constant(kScaleInit));
  }
  Mixing mixing;
  for (std::int64_t i = 0; i < n; ++i) {
    const Value x = dynamic ? normed(join, lanes[index_of(i)]) : Value();
    const auto number = [&](const Value& constant, const Value& column, const Value& scale) {
      if (!dynamic) return constant;
      return constant + scale * cast(tanh(sum(x * column, {join.channel_axis})), constant.dtype());
    };
    mixing.m.push_back(number(element(alpha, i, 0), alpha_fn[0], alpha_scale));
    mixing.r.emplace_back();
    for (std::int64_t j = 0; j < n; ++j)
      mixing.r.back().push_back(number(element(alpha, i, j + 1), alpha_fn[index_of(j + 1)], alpha_scale));
    mixing.b.push_back(number(slice(beta, 0, i, i + 1), beta_fn[0], beta_scale));
  }
  return mixing;
}

/// Returns x W over the channels, on whatever axis they are: [.., d, ..] to [.., outputs, ..].
Value project(const Join& join, const Value& x, const Value& w) {
  const ChannelsLast moved(join, std::ssize(x.shape()));
  return moved.back(matmul(moved.there(x), w));
}

/// Sinkhorn's iterations over one positive matrix per token, given by its rows. Each iteration scales the
/// columns and then the rows to sums of 1.
void make_doubly_stochastic(const Join& join, Values& rows, std::int64_t iterations) {
  for (std::int64_t k = 0; k < iterations; ++k) {
    Value of_columns;
    for (const Value& row : rows) of_columns += row;
    for (Value& row : rows) row /= of_columns;
    for (Value& row : rows) row /= sum(row, {join.channel_axis});
  }
}

/// r of mhc, from the rows of a positive matrix.
std::vector<Values> by_sinkhorn(const Join& join, Values rows, std::int64_t iterations) {
  make_doubly_stochastic(join, rows, iterations);
  std::vector<Values> r(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto from = static_cast<std::int64_t>(i);
    for (const Value& row : rows) r[i].push_back(slice(row, join.channel_axis, from, from + 1));
  }
  return r;
}

/// r of mhc_lite: the mean of all permutations of the lanes, in lexicographic order, weighted by softmax(logits).
std::vector<Values> by_permutations(const Join& join, const Value& logits, std::int64_t n) {
  const Value weights = softmax(logits, join.channel_axis);
  std::vector<std::size_t> permutation(index_of(n));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::vector<Values> r(index_of(n), Values(index_of(n)));
  std::int64_t p = 0;
  do {
    const Value weight = slice(weights, join.channel_axis, p, p + 1);
    for (std::size_t from = 0; from < permutation.size(); ++from) r[from][permutation[from]] += weight;
    ++p;
  } while (std::next_permutation(permutation.begin(), permutation.end()));
  return r;
}

/// m, r and b as functions of all lanes: those of mhc, or of mhc_lite.
Mixing manifold_constrained(const Join& join, const Values& lanes, bool lite, std::int64_t iterations) {
  const std::int64_t n = std::ssize(lanes), d = join.channel_shape().at(index_of(join.channel_axis));
  std::int64_t mixings = lite ? 1 : n * n;
  for (std::int64_t i = 1; lite && i <= n; ++i) mixings *= i;
  const std::int64_t outputs = 2 * n + mixings;  // n of m, n of b, then those of r
  const double chosen = lite ? kChosenLite : kChosen;
  std::vector<double> start(index_of(outputs), kUnmixed);
  for (std::int64_t i = 0; i < n; ++i) {
    start[index_of(i)] = i == join.join_index % n ? chosen : -chosen;
    start[index_of(n + i)] = lite ? start[index_of(i)] : 0;
  }
  for (std::int64_t i = 2 * n; i < outputs; i += n + 1) {
    start[index_of(i)] = 0;
    if (lite) break;  // the first permutation changes nothing
  }
  const Value phi = join.add_weight("phi", {n * d, outputs}, Init::zeros(), Group::decay);
  const Value bias = join.add_weight("bias", {outputs}, Init::values(start), Group::no_decay);
  const Value scale = join.add_weight("scale", {3}, Init::constant(kScaleInit), Group::no_decay);

  // The norm over all lanes divides the layer's output, not its input.
  Value raw = project(join, concat(lanes, join.channel_axis), phi), squares;
  for (const Value& lane : lanes) {
    const Value wide = at_least_f32(lane);
    squares += sum(wide * wide, {join.channel_axis});
  }
  raw = at_least_f32(raw) * rsqrt(squares / static_cast<double>(n * d) + kEpsilon);

  /// Returns scale * raw + bias of `count` outputs.
  const auto part = [&](std::int64_t which, std::int64_t begin, std::int64_t count) {
    Ints along = join.channel_shape();
    along.at(index_of(join.channel_axis)) = count;
    const Value constant = at_least_f32(reshape(slice(bias, 0, begin, begin + count), along));
    return slice(raw, join.channel_axis, begin, begin + count) *
               at_least_f32(slice(scale, 0, which, which + 1)) +
           constant;
  };
  const auto of_stream = [&](const Value& x) { return cast(x, join.stream.dtype()); };
  Mixing mixing;
  if (lite) {
    mixing.r = by_permutations(join, part(2, 2 * n, mixings), n);
  } else {
    Values rows;
    for (std::int64_t i = 0; i < n; ++i) rows.push_back(exp(part(2, 2 * n + i * n, n)));
    mixing.r = by_sinkhorn(join, rows, iterations);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    mixing.m.push_back(of_stream(sigmoid(part(0, i, 1))));
    mixing.b.push_back(of_stream(2 * sigmoid(part(1, n + i, 1))));
    for (Value& r : mixing.r[index_of(i)]) r = of_stream(r);
  }
  return mixing;
}

/// Returns whether `join` follows `before` directly in the network, so that both are in one chain.
bool follows(const Join& join, const Join& before) {
  return join.scope == before.scope && join.join_index == before.join_index + 1 &&
         join.stream.type() == before.stream.type();
}

void rewrite(const Rewrite& call) {
  const std::string kind = call.get_text("kind");
  const auto n = index_of(call.get_int("lanes"));
  if (kind == "mhc_lite" && call.get_int("lanes") > kMostLanesLite)
    throw Error("kind=mhc_lite weighs all permutations of the lanes, so lanes is at most " +
                std::to_string(kMostLanesLite));
  const std::vector<Join> joins = call.joins();
  Values lanes;
  for (std::size_t k = 0; k < joins.size(); ++k) {
    const Join& join = joins[k];
    if (k == 0 || !follows(join, joins[k - 1])) lanes.assign(n, join.stream);
    const Mixing mixing = kind.starts_with("mhc") ? manifold_constrained(join, lanes, kind == "mhc_lite",
                                                                         call.get_int("iterations"))
                                                  : hyper_connections(join, lanes, kind == "dynamic");
    Value read;
    Values next(n);
    for (std::size_t j = 0; j < n; ++j) {
      read += mixing.m[j] * lanes[j];
      for (std::size_t i = 0; i < n; ++i) next[j] += mixing.r[i][j] * lanes[i];
      next[j] += mixing.b[j] * join.branch;
    }
    lanes = next;
    join.replace("norm_input", read);
    Value stream = lanes.front();  // read only after the last join
    if (k + 1 == joins.size() || !follows(joins[k + 1], join)) {
      for (std::size_t j = 1; j < n; ++j) stream += lanes[j];
    }
    join.set_sum(stream);
  }
}

}  // namespace

REWIRE_PLUGIN("hyper", "1.0.0",
              "widens the stream to several lanes: hyper-connections and their constrained form", kParameters,
              rewrite)
