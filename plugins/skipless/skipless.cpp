// The residual-free transformer: every chosen join is x' = f, and the branch is initialised so that the
// network without shortcuts is as well conditioned as one with them (row vectors, y = x W; k = d / heads):
//   W_V W_O         = scale^2 times an orthogonal matrix, of two uniform orthogonal matrices a block
//   W_Q,h W_K,h^T   = the best rank-k approximation of alpha Z_h + beta I, Z of variance 1 / d, for each
//   head:
//                     with its decomposition U S V^T, W_Q = U_k S_k^1/2 and W_K = V_k S_k^1/2
//   W_1, W_2        = uniform semi-orthogonal times max(sqrt(out / in), 1), which keeps the mean square
// and all their biases zero. Norms stay. A dropped branch or a branch scaled to nearly nothing would leave
// nothing of the stream, so drop path and LayerScale are refused.
#include <algorithm>
#include <cmath>
#include <rewire_plugin.hpp>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    float_parameter("alpha", "2", "of W_Q W_K^T ~ alpha Z + beta I", at_least(0)),
    float_parameter("beta", "0.6", "of W_Q W_K^T ~ alpha Z + beta I: how much a token attends to itself"),
    float_parameter("scale", "3", "W_V and W_O are this times orthogonal matrices", above(0)),
    enum_parameter("noise", "normal", "normal|uniform", "how Z is distributed"),
    bool_parameter("reinit", "true", "initialise as above; false: the model's own initialisation"),
};

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// The branch's matrix of one role.
Weight matrix_of(const Join& join, std::string_view role) {
  for (const Weight& weight : join.weights(role)) {
    if (weight.type.shape.size() == 2) return weight;
  }
  throw Error(join.name + " has no matrix of role '" + std::string(role) +
              "', which it re-initialises; reinit=false leaves the weights as they are");
}

std::size_t rows_of(const Weight& weight) {
  return static_cast<std::size_t>(weight.type.shape.at(0));
}
std::size_t cols_of(const Weight& weight) {
  return static_cast<std::size_t>(weight.type.shape.at(1));
}

/// A [rows, cols] matrix of orthonormal rows or columns, whichever are fewer, uniformly distributed.
std::vector<double> semi_orthogonal(const Initialise& call, const std::string& stream, std::size_t rows,
                                    std::size_t cols) {
  const std::size_t tall = std::max(rows, cols), wide = std::min(rows, cols);
  std::vector<double> q = call.qr(call.normal(stream, tall * wide), 1, tall, wide).q;
  if (rows >= cols) return q;
  std::vector<double> transposed(q.size());
  for (std::size_t i = 0; i < tall; ++i) {
    for (std::size_t j = 0; j < wide; ++j) transposed[j * tall + i] = q[i * wide + j];
  }
  return transposed;
}

std::vector<double> times(double factor, std::vector<double> values) {
  for (double& value : values) value *= factor;
  return values;
}

/// alpha Z + beta I for each head, [heads, d, d].
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
  Weight qkv, proj;  // [3d, d]: the transposes of W_Q, W_K, W_V one below the other; [d, d]: that of W_O
  std::size_t d, heads;
};

Attention attention_of(const Join& join) {
  Attention a{matrix_of(join, "qkv"), matrix_of(join, "proj"), 0, 0};
  a.d = cols_of(a.qkv), a.heads = static_cast<std::size_t>(std::max<std::int64_t>(join.heads, 1));
  if (rows_of(a.qkv) != 3 * a.d || rows_of(a.proj) != a.d || cols_of(a.proj) != a.d || a.d % a.heads != 0) {
    throw Error(join.name + ": " + a.qkv.name + " is not [3d, d], or " + a.proj.name +
                " not [d, d]; reinit=false leaves the weights as they are");
  }
  return a;
}

/// Whether the branch has the weights that initialise writes.
void check_weights(const Join& join) {
  if (join.site == "attn") {
    attention_of(join);
  } else if (join.site == "mlp") {
    for (const char* role : {"fc1", "fc2"}) matrix_of(join, role);
  } else {
    throw Error(join.name + ": " + join.site +
                " joins have no initialisation here; choose others by sites=, or reinit=false");
  }
}

void rewrite(const Rewrite& call) {
  for (const Join& join : call.joins()) {
    if (join.drop_path > 0) {
      throw Error(join.name +
                  " has drop path: a dropped branch leaves nothing without its shortcut; set "
                  "model.drop_path=0");
    }
    for (const Weight& weight : join.weights()) {
      if (weight.role == "layer_scale" || ends_with(weight.name, ".gamma")) {
        throw Error(
            join.name + " has LayerScale (" + weight.name +
            "): without its shortcut the stream would be scaled down at every join; use a model without");
      }
    }
    if (call.get_bool("reinit")) check_weights(join);
    join.clear_shortcut();
  }
}

void initialise_attention(const Initialise& call, const Join& join) {
  const auto [qkv, proj, d, heads] = attention_of(join);
  const std::size_t k = d / heads;
  const Svd svd = call.svd(attention_targets(call, join.name + ".qk", heads, d), heads, d, d);
  std::vector<double> weight(3 * d * d);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t j = 0; j < k; ++j) {
      const double root = std::sqrt(svd.s[h * d + j]);
      double* q = &weight[(h * k + j) * d];
      double* key = &weight[(d + h * k + j) * d];
      for (std::size_t i = 0; i < d; ++i) {
        q[i] = svd.u[(h * d + i) * d + j] * root;
        key[i] = svd.vt[(h * d + j) * d + i] * root;
      }
    }
  }
  const double scale = call.get_float("scale");
  const std::vector<double> v = times(scale, semi_orthogonal(call, join.name + ".v", d, d));
  std::copy(v.begin(), v.end(), weight.begin() + static_cast<std::ptrdiff_t>(2 * d * d));
  call.write(qkv, weight);
  call.write(proj, times(scale, semi_orthogonal(call, join.name + ".o", d, d)));
}

void initialise_mlp(const Initialise& call, const Join& join) {
  for (const char* role : {"fc1", "fc2"}) {
    const Weight weight = matrix_of(join, role);
    const std::size_t out = rows_of(weight), in = cols_of(weight);
    const double gain = std::max(std::sqrt(static_cast<double>(out) / static_cast<double>(in)), 1.0);
    call.write(weight, times(gain, semi_orthogonal(call, join.name + "." + role, out, in)));
  }
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

REWIRE_PLUGIN("skipless", "1.0.0", "takes the shortcut away and initialises the branch to do without",
              kParameters, rewrite, initialise)
