// The residual-free transformer: every chosen join is x' = f. The branch is initialised so that the network
// without shortcuts is as well conditioned as one with them (row vectors, y = x W; k = d / heads):
//   W_V W_O         = scale^2 times an orthogonal matrix, from two uniform orthogonal matrices per block
//   W_Q,h W_K,h^T   = the best rank-k approximation of alpha Z_h + beta I for head h, Z of variance 1 / d:
//                     with its decomposition U S V^T, W_Q = U_k S_k^1/2 and W_K = V_k S_k^1/2
//   W_1, W_2        = uniform semi-orthogonal times max(sqrt(out / in), 1), which keeps the mean square
// All their biases are set to zero, and norms stay unchanged. A branch that is dropped or scaled to nearly
// nothing would leave nothing of the stream. So the plugin refuses networks with drop path or LayerScale.
#include <algorithm>
#include <cmath>
#include <rewire_plugin.hpp>
#include <span>
#include <utility>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    float_parameter("alpha", "2", "alpha in W_Q W_K^T ~ alpha Z + beta I", at_least(0)),
    float_parameter("beta", "0.6",
                    "beta in W_Q W_K^T ~ alpha Z + beta I: how much a token attends to itself"),
    float_parameter("scale", "3", "factor of the orthogonal matrices that W_V and W_O start as", above(0)),
    enum_parameter("noise", "normal", "normal|uniform", "distribution of Z; normal or uniform"),
    bool_parameter("reinit", "true", "initialise as above; false: keep the model's initial weights"),
};

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Returns the branch's matrix of this role.
Weight matrix_of(const Join& join, std::string_view role) {
  for (const Weight& weight : join.weights(role)) {
    if (weight.type.shape.size() == 2) return weight;
  }
  throw Error(join.name + " has no matrix of role '" + std::string(role) +
              "' to re-initialise; set reinit=false to keep the weights");
}

std::size_t rows_of(const Weight& weight) {
  return static_cast<std::size_t>(weight.type.shape.at(0));
}
std::size_t cols_of(const Weight& weight) {
  return static_cast<std::size_t>(weight.type.shape.at(1));
}

/// Two matrices to draw, each from a stream of its own: [rows, cols], and [rows, cols] or its transpose.
struct Pair {
  std::string first, second;
  std::size_t rows, cols;
  bool transposed = false;  // whether the second is [cols, rows]
};

/// Returns q [rows, cols] as [cols, rows].
std::vector<double> transposed(std::span<const double> q, std::size_t rows, std::size_t cols) {
  std::vector<double> result(q.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) result[j * rows + i] = q[i * cols + j];
  }
  return result;
}

/// Returns uniformly distributed matrices with orthonormal rows or columns, whichever are fewer.
std::pair<std::vector<double>, std::vector<double>> semi_orthogonal(const Initialise& call,
                                                                    const Pair& pair) {
  const std::size_t tall = std::max(pair.rows, pair.cols), wide = std::min(pair.rows, pair.cols);
  std::vector<double> a = call.normal(pair.first, tall * wide);
  const std::vector<double> second = call.normal(pair.second, tall * wide);
  a.insert(a.end(), second.begin(), second.end());
  const std::vector<double> q = call.qr(a, 2, tall, wide).q;  // one matrix per thread
  const auto of = [&](std::size_t index, bool is_tall) {
    const auto one = std::span(q).subspan(index * tall * wide, tall * wide);
    return is_tall ? std::vector<double>(one.begin(), one.end()) : transposed(one, tall, wide);
  };
  const bool first_tall = pair.rows >= pair.cols;
  return {of(0, first_tall), of(1, pair.rows == pair.cols || first_tall != pair.transposed)};
}

std::vector<double> times(double factor, std::vector<double> values) {
  for (double& value : values) value *= factor;
  return values;
}

/// Returns alpha Z + beta I for each head, [heads, d, d].
std::vector<double> attention_targets(const Initialise& call, const std::string& stream, std::size_t heads,
                                      std::size_t d) {
  const bool normal = call.get_text("noise") == "normal";
  const std::size_t count = heads * d * d;
  std::vector<double> m = normal ? call.normal(stream, count) : call.uniform(stream, count);
  const double width = std::sqrt(static_cast<double>(d)), alpha = call.get_float("alpha");
  for (double& z : m) z = alpha * (normal ? z : std::sqrt(3.0) * (2 * z - 1)) / width;
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < d; ++i) m[(h * d + i) * d + i] += call.get_float("beta");
  }
  return m;
}

struct Attention {
  Weight qkv, proj;  // [3d, d]: W_Q, W_K, W_V, each transposed, one below the other; [d, d]: W_O transposed
  std::size_t d, heads;
};

Attention attention_of(const Join& join) {
  Attention a{matrix_of(join, "qkv"), matrix_of(join, "proj"), 0, 0};
  a.d = cols_of(a.qkv), a.heads = static_cast<std::size_t>(std::max<std::int64_t>(join.heads, 1));
  if (rows_of(a.qkv) != 3 * a.d || rows_of(a.proj) != a.d || cols_of(a.proj) != a.d || a.d % a.heads != 0) {
    throw Error(join.name + ": " + a.qkv.name + " is not [3d, d], or " + a.proj.name +
                " not [d, d]; set reinit=false to keep the weights");
  }
  return a;
}

/// Throws Error if the branch lacks a weight that initialise writes.
void check_weights(const Join& join) {
  if (join.site == "attn") {
    attention_of(join);
  } else if (join.site == "mlp") {
    const Weight fc1 = matrix_of(join, "fc1"), fc2 = matrix_of(join, "fc2");
    if (rows_of(fc1) != cols_of(fc2) || cols_of(fc1) != rows_of(fc2)) {
      throw Error(join.name + ": " + fc2.name + " does not have the shape of " + fc1.name +
                  " transposed; set reinit=false to keep the weights");
    }
  } else {
    throw Error(join.name + ": " + join.site +
                " joins have no initialisation here; choose other sites=, or set reinit=false");
  }
}

void rewrite(const Rewrite& call) {
  for (const Join& join : call.joins()) {
    if (join.drop_path > 0) {
      throw Error(
          join.name +
          " has drop path: without a shortcut, a dropped branch leaves nothing; set model.drop_path=0");
    }
    for (const Weight& weight : join.weights()) {
      if (weight.role == "layer_scale" || ends_with(weight.name, ".gamma")) {
        throw Error(join.name + " has LayerScale (" + weight.name +
                    "): without a shortcut it would scale the stream down at every join; use a model without "
                    "LayerScale");
      }
    }
    if (call.get_bool("reinit")) check_weights(join);
    join.clear_shortcut();
  }
}

void initialise_attention(const Initialise& call, const Join& join) {
  const auto [qkv, proj, d, heads] = attention_of(join);
  const std::size_t k = d / heads;
  const Svd svd = call.svd_of_largest(attention_targets(call, join.name + ".qk", heads, d), heads, d, d, k);
  std::vector<double> weight(3 * d * d);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t j = 0; j < k; ++j) {
      const double root = std::sqrt(svd.s[h * k + j]);
      double* q = &weight[(h * k + j) * d];
      double* key = &weight[(d + h * k + j) * d];
      for (std::size_t i = 0; i < d; ++i) {
        q[i] = svd.u[(h * d + i) * k + j] * root;
        key[i] = svd.vt[(h * k + j) * d + i] * root;
      }
    }
  }
  const double scale = call.get_float("scale");
  const auto [v, o] = semi_orthogonal(call, {join.name + ".v", join.name + ".o", d, d});
  std::copy(v.begin(), v.end(), weight.begin() + static_cast<std::ptrdiff_t>(2 * d * d));
  for (std::size_t i = 2 * d * d; i < weight.size(); ++i) weight[i] *= scale;
  call.write(qkv, weight);
  call.write(proj, times(scale, o));
}

void initialise_mlp(const Initialise& call, const Join& join) {
  const Weight fc1 = matrix_of(join, "fc1"), fc2 = matrix_of(join, "fc2");
  const std::size_t hidden = rows_of(fc1), in = cols_of(fc1);
  const auto [first, second] =
      semi_orthogonal(call, {join.name + ".fc1", join.name + ".fc2", hidden, in, true});
  const auto gain = [](std::size_t out, std::size_t from) {
    return std::max(std::sqrt(static_cast<double>(out) / static_cast<double>(from)), 1.0);
  };
  call.write(fc1, times(gain(hidden, in), first));
  call.write(fc2, times(gain(in, hidden), second));
}

void initialise(const Initialise& call) {
  if (!call.get_bool("reinit")) return;
  for (const Join& join : call.joins()) {
    join.site == "attn" ? initialise_attention(call, join) : initialise_mlp(call, join);
    for (const Weight& weight : join.weights()) {
      if (weight.role != "norm" && weight.type.shape.size() == 1) {
        call.write(weight, std::vector<double>(weight.elements(), 0.0));
      }
    }
  }
}

}  // namespace

REWIRE_PLUGIN("skipless", "1.0.0", "removes the shortcut and initialises the branch to work without it",
              kParameters, rewrite, initialise)
