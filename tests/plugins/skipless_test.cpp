// The network without shortcuts: no way around a branch, weights whose products are as well conditioned as
// the paper says, and what is refused. Row vectors, so that W is the transpose of a weight [out, in].
#include <cmath>
#include <set>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "ir/residual.h"
#include "models/model.h"
#include "runtime/linalg/lapack.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

using Doubles = std::vector<double>;

ir::Selection vit(std::int64_t dim, std::int64_t heads, std::int64_t depth, double mlp_ratio = 4) {
  ir::Selection options{"vit"};
  options.set("dim", dim).set("heads", heads).set("depth", depth).set("mlp_ratio", mlp_ratio);
  return options;
}

/// Whether the first result depends on the first argument by a way that passes none of `cut`.
bool reaches(const ir::Function& function, const std::set<ir::Value>& cut) {
  const std::vector<std::int32_t> definitions = function.definitions();
  std::vector<ir::Value> pending = {function.results.at(0).value};
  std::set<ir::Value> seen = cut;
  while (!pending.empty()) {
    const ir::Value value = pending.back();
    pending.pop_back();
    if (value == function.arguments.at(0).value) return true;
    const std::int32_t defined = definitions[static_cast<std::size_t>(value.id)];
    if (!seen.insert(value).second || defined < 0) continue;
    const ir::Op& op = function.body[static_cast<std::size_t>(defined)];
    // A join's value is the sum of its terms; the operands before them say where it came from.
    const std::size_t first = op.code == ir::Opcode::residual ? ir::kFirstJoinTerm : 0;
    pending.insert(pending.end(), op.operands.begin() + static_cast<std::ptrdiff_t>(first),
                   op.operands.end());
  }
  return false;
}

/// The branches of the joins of one site, each alone, or "" for all.
std::vector<std::set<ir::Value>> branches(const ir::Function& function, const std::string& site = "") {
  std::vector<std::set<ir::Value>> result;
  for (std::size_t at : ir::find_joins(function)) {
    const ir::Join join = ir::read_join(function.body[at]);
    if (site.empty() || join.site == site) result.push_back({join.branch});
  }
  return result;
}

TEST_CASE("No path from input to output avoids any branch") {
  const ir::Module plain = models::build(vit(16, 2, 3), 2);
  const ir::Module cut = rewritten(plain, {"skipless"});
  CHECK(reaches(cut.function("forward"), {}));
  for (const std::set<ir::Value>& branch : branches(plain.function("forward"))) {
    CHECK(reaches(plain.function("forward"), branch));
  }
  const auto all = branches(cut.function("forward"));
  CHECK(all.size() == 6);
  for (const std::set<ir::Value>& branch : all) CHECK_FALSE(reaches(cut.function("forward"), branch));

  const ir::Module attn = rewritten(plain, {"skipless:sites=attn"});
  for (const auto& branch : branches(attn.function("forward"), "attn")) {
    CHECK_FALSE(reaches(attn.function("forward"), branch));
  }
  for (const auto& branch : branches(attn.function("forward"), "mlp"))
    CHECK(reaches(attn.function("forward"), branch));
}

TEST_CASE("A join without its shortcut is the branch, and the slot is claimed") {
  const ir::TensorType type{ir::DType::f32, {2, 3, 5}};
  const ir::Module module = rewritten(single_join(type), {"skipless:reinit=false"});
  const ir::Function& forward = module.function("forward");
  CHECK(ir::read_join(forward.body.back()).shortcut_owner == "skipless");
  const ir::Tensor x = sample(type, 0.3), f = sample(type, 1.1);
  ir::EvalState state;
  CHECK(ir::evaluate(module, forward, {x, f}, state).at(0).data == f.data);
  CHECK_THAT(message_of<UserError>(
                 [&] { rewritten(single_join(type), {"skipless:reinit=false", "skipless:reinit=false"}); }),
             REWIRE_CATCH_CONTAINS("the shortcut of blocks.0.mlp is already claimed"));
}

/// Fresh weights of a ViT, by name.
class Fresh {
 public:
  Fresh(const ir::Selection& options, const std::string& spec, std::uint64_t seed = 1)
      : state_(started(rewritten(models::build(options, 1), {spec}, seed), {spec}, seed)) {}
  Doubles operator()(const std::string& name) const { return runtime::to_double(state_.at(name)).data; }
  const runtime::TensorMap& state() const { return state_; }

 private:
  runtime::TensorMap state_;
};

/// x [n, k] times the transpose of y [m, k].
Doubles times_transposed(std::span<const double> x, std::span<const double> y, std::size_t k) {
  const std::size_t n = x.size() / k, m = y.size() / k;
  Doubles product(n * m);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += x[i * k + l] * y[j * k + l];
      product[i * m + j] = sum;
    }
  }
  return product;
}

Doubles transposed(std::span<const double> x, std::size_t cols) {
  const std::size_t rows = x.size() / cols;
  Doubles t(x.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) t[j * rows + i] = x[i * cols + j];
  }
  return t;
}

Doubles singular_values(std::span<const double> a, std::size_t d) {
  Doubles u(d * d), s(d), vt(d * d);
  runtime::svd({1, d, d}, a, u, s, vt);
  return s;
}

struct Moments {
  double sum = 0, squares = 0, count = 0;
  void add(double x) { sum += x, squares += x * x, ++count; }
  double mean() const { return sum / count; }
  double deviation() const { return std::sqrt(squares / count - mean() * mean()); }
};

/// W_V and W_O of a block of width d.
struct ValuePath {
  Doubles w_v, w_o;
};
ValuePath value_path(const Fresh& fresh, int block, std::size_t d) {
  const std::string prefix = "blocks." + std::to_string(block) + ".attn.";
  const Doubles qkv = fresh(prefix + "qkv.weight"), proj = fresh(prefix + "proj.weight");
  return {transposed(std::span(qkv).subspan(2 * d * d), d), transposed(proj, d)};
}

TEST_CASE("W_V W_O is scale squared times an orthogonal matrix, another in every block") {
  const auto check = [](std::size_t d, std::int64_t blocks, const std::string& spec, double scale) {
    CAPTURE(d, spec);
    // Two heads, also in the widths of a ViT-S and a ViT-B: each takes a decomposition of W_Q W_K^T.
    const Fresh fresh(vit(static_cast<std::int64_t>(d), 2, blocks), spec);
    std::set<Doubles> products;
    for (int block = 0; block < blocks; ++block) {
      const ValuePath path = value_path(fresh, block, d);
      const Doubles product = times_transposed(path.w_v, transposed(path.w_o, d), d);
      const Doubles s = singular_values(product, d);
      CHECK(s.front() / s.back() == Approx(1).epsilon(0).margin(1e-4));
      CHECK(s.front() == Approx(scale * scale).epsilon(1e-4));
      CHECK(products.insert(product).second);
    }
  };
  for (const std::size_t d : {std::size_t{18}, std::size_t{64}, std::size_t{384}}) {
    check(d, 2, "skipless:sites=attn", 3);
  }
  check(768, 1, "skipless:sites=attn", 3);
  check(18, 2, "skipless:sites=attn,scale=0.5", 0.5);
}

double inner_product(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// For U and V uniform and independent, U V and U^T V are uniform: their trace has mean 0 and variance 1,
// whatever d. Were W_O the transpose of W_V, the trace of W_V W_O would be c^2 d; were W_O W_V itself, that
// of W_V^T W_O.
TEST_CASE("W_V and W_O are independent of each other, and of those of the next block") {
  constexpr int kBlocks = 16;
  constexpr double kSquared = 9;  // scale squared
  for (const std::size_t d : {std::size_t{18}, std::size_t{64}}) {
    const Fresh fresh(vit(static_cast<std::int64_t>(d), 2, kBlocks), "skipless:sites=attn");
    Moments with_o, with_transposed, with_next;
    double size = 0;
    for (int block = 0; block < kBlocks; ++block) {
      CAPTURE(d, block);
      const ValuePath path = value_path(fresh, block, d);
      const double trace = inner_product(path.w_v, transposed(path.w_o, d)) / kSquared;
      size += std::abs(trace) / static_cast<double>(d) / kBlocks;
      with_o.add(trace);
      with_transposed.add(inner_product(path.w_v, path.w_o) / kSquared);
      with_next.add(inner_product(path.w_v, value_path(fresh, (block + 1) % kBlocks, d).w_v) / kSquared);
    }
    CHECK(size < 2 / static_cast<double>(d));  // 0.8 / d on average
    for (const Moments& moments : {with_o, with_transposed, with_next}) {
      CAPTURE(d, moments.mean(), moments.squares / kBlocks);
      CHECK(std::abs(moments.mean()) < 4 / std::sqrt(kBlocks));
      CHECK(std::abs(moments.squares / kBlocks - 1) < 4 * std::sqrt(2.0 / kBlocks));
    }
  }
}

// With one head the approximation is of full rank: W_Q W_K^T is M itself, entry by entry.
TEST_CASE("The noise in W_Q W_K^T has variance 1 / d, and the shape that noise= says") {
  constexpr std::size_t d = 64, n = d * d;
  for (const bool uniform : {false, true}) {
    CAPTURE(uniform);
    const Fresh fresh(vit(d, 1, 2), std::string("skipless:alpha=2,beta=0.6,sites=attn,noise=") +
                                        (uniform ? "uniform" : "normal"));
    Doubles z;  // of both blocks
    for (const char* block : {"0", "1"}) {
      const Doubles qkv = fresh(std::string("blocks.") + block + ".attn.qkv.weight");
      const Doubles w_q = transposed(std::span(qkv).first(n), d),
                    w_k = transposed(std::span(qkv).subspan(n, n), d);
      const Doubles m = times_transposed(w_q, w_k, d);
      for (std::size_t i = 0; i < n; ++i) z.push_back((m[i] - (i % (d + 1) == 0 ? 0.6 : 0)) / 2);
    }
    const double count = static_cast<double>(z.size()), variance = 1.0 / d;
    double mean = 0, square = 0, fourth = 0, most = 0;
    for (const double entry : z) {
      mean += entry / count, square += entry * entry / count, fourth += std::pow(entry, 4) / count;
      most = std::max(most, std::abs(entry));
    }
    // Of 8192 draws: 4 standard deviations of each mean. The fourth moment over the squared variance is 3 for
    // normal numbers (with E z^8 = 105), 9/5 for uniform ones (E z^8 = 9).
    const double kurtosis = uniform ? 1.8 : 3, eighth = uniform ? 9 : 105;
    CHECK(std::abs(mean) < 4 * std::sqrt(variance / count));
    CHECK(square == Approx(variance).epsilon(4 * std::sqrt((kurtosis - 1) / count)));
    CHECK(fourth == Approx(kurtosis * variance * variance)
                        .epsilon(4 * std::sqrt((eighth / kurtosis / kurtosis - 1) / count)));
    const double edge = std::sqrt(3.0 / d);
    if (uniform) {
      CHECK(most < edge * (1 + 1e-5));
      CHECK(most > edge * (1 - 1e-2));
    } else {
      CHECK(most > 1.5 * edge);
    }
  }
}

/// The statistics of the attention that a block starts with, means over heads.
struct Attention {
  double first = 0, last = 0;  // the largest and the smallest of the k singular values of W_Q W_K^T
  double diagonal = 0, diagonal_deviation = 0, off = 0, off_deviation = 0;  // of the logits
  double weight_on_itself = 0;                                              // of the attention map
};

/// 197 independent tokens of normal numbers, each with mean 0 and variance 1.
Doubles normed_tokens(std::size_t d) {
  Doubles tokens(197 * d);
  const ir::PhiloxStream stream{99, 0, ir::stream_hash("tokens")};
  for (std::size_t t = 0; t < 197; ++t) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < d; ++i) {
      const double x = tokens[t * d + i] = stream.normal(t * d + i);
      sum += x, squares += x * x;
    }
    const double mean = sum / static_cast<double>(d);
    const double deviation = std::sqrt(squares / static_cast<double>(d) - mean * mean);
    for (std::size_t i = 0; i < d; ++i) tokens[t * d + i] = (tokens[t * d + i] - mean) / deviation;
  }
  return tokens;
}

Attention attention_of(const ir::Selection& options, const std::string& spec) {
  const Fresh fresh(options, spec);
  const std::int64_t depth = options.values.get_int("depth");
  const auto d = static_cast<std::size_t>(options.values.get_int("dim"));
  const auto heads = static_cast<std::size_t>(options.values.get_int("heads")), k = d / heads;
  const Doubles tokens = normed_tokens(d);
  constexpr std::size_t n = 197;
  const double draws = static_cast<double>(heads) * static_cast<double>(depth);
  Attention mean;
  Moments diagonal, off;
  for (std::int64_t block = 0; block < depth; ++block) {
    const Doubles qkv = fresh("blocks." + std::to_string(block) + ".attn.qkv.weight");
    for (std::size_t h = 0; h < heads; ++h) {
      const auto w_q = std::span(qkv).subspan(h * k * d, k * d),
                 w_k = std::span(qkv).subspan((d + h * k) * d, k * d);
      const Doubles gram_q = times_transposed(w_q, w_q, d), gram_k = times_transposed(w_k, w_k, d);
      // Columns of U S^1/2 are orthogonal, of squared length s; V's likewise.
      for (std::size_t i = 0; i < k; ++i) {
        for (std::size_t j = 0; j < k; ++j) {
          CHECK(std::abs(gram_q[i * k + j] - (i == j ? gram_k[i * k + i] : 0)) < 1e-4 * gram_q[0]);
        }
      }
      mean.first += gram_q[0] / draws;
      mean.last += gram_q[k * k - 1] / draws;
      Doubles logits =
          times_transposed(times_transposed(tokens, w_q, d), times_transposed(tokens, w_k, d), k);
      for (std::size_t i = 0; i < n; ++i) {
        double total = 0;
        for (std::size_t j = 0; j < n; ++j) {
          const double logit = logits[i * n + j] / std::sqrt(static_cast<double>(k));
          (i == j ? diagonal : off).add(logit);
          total += std::exp(logit);
        }
        mean.weight_on_itself +=
            std::exp(logits[i * n + i] / std::sqrt(static_cast<double>(k))) / total / n / draws;
      }
    }
  }
  mean.diagonal = diagonal.mean(), mean.diagonal_deviation = diagonal.deviation();
  mean.off = off.mean(), mean.off_deviation = off.deviation();
  return mean;
}

void check_near(double got, double want) {
  CHECK(got == Approx(want).epsilon(0.15));
}

void check_attention(const Attention& got, const Attention& want) {
  check_near(got.first, want.first);
  check_near(got.last, want.last);
  check_near(got.diagonal, want.diagonal);
  check_near(got.diagonal_deviation, want.diagonal_deviation);
  CHECK(std::abs(got.off) < 0.15 * want.off_deviation);
  check_near(got.off_deviation, want.off_deviation);
  check_near(got.weight_on_itself, want.weight_on_itself);
}

// Means over twelve draws of Z, against figures that were measured apart from this code (197 independent
// normed normal tokens, k = 64).
TEST_CASE("The first attention of a ViT-B and of a ViT-S is as diagonal as the paper's, and as mimetic's") {
  check_attention(attention_of(vit(768, 12, 1), "skipless:sites=attn"), {4.2, 3.5, 14.0, 4.15, 0, 3.8, 0.75});
  check_attention(attention_of(vit(384, 6, 2), "skipless:alpha=1.8,beta=1,sites=attn"),
                  {4.0, 3.0, 18.45, 3.87, 0, 3.4, 0.985});
  // Mimetic initialisation's alpha and beta, for contrast.
  check_attention(attention_of(vit(384, 6, 2), "skipless:alpha=0.7,beta=0.7,sites=attn"),
                  {1.8, 1.4, 10.64, 1.89, 0, 1.6, 0.954});
}

TEST_CASE(
    "The MLP's matrices are semi-orthogonal and keep the mean square, biases and norms are as they should") {
  for (const double ratio : {4.0, 1.5, 0.5}) {
    CAPTURE(ratio);
    const std::size_t d = 24, hidden = static_cast<std::size_t>(24 * ratio);
    const Fresh fresh(vit(24, 2, 1, ratio), "skipless");
    const auto check = [&](const std::string& name, std::size_t out, std::size_t in) {
      CAPTURE(name);
      const Doubles weight = fresh(name);
      const std::size_t fewer = std::min(out, in);
      const Doubles rows = out < in ? weight : transposed(weight, in);
      const Doubles gram = times_transposed(rows, rows, std::max(out, in));
      const double square = std::max(static_cast<double>(out) / static_cast<double>(in), 1.0);
      for (std::size_t i = 0; i < fewer * fewer; ++i) {
        CHECK(gram[i] == Approx(i % (fewer + 1) == 0 ? square : 0).epsilon(0).margin(1e-5));
      }
    };
    check("blocks.0.mlp.fc1.weight", hidden, d);
    check("blocks.0.mlp.fc2.weight", d, hidden);
    for (const auto& [name, tensor] : fresh.state()) {
      if (!name.starts_with("blocks.") || !name.ends_with("bias")) continue;
      CAPTURE(name);
      CHECK(fresh(name) == Doubles(fresh(name).size(), 0.0));
    }
    CHECK(fresh("blocks.0.norm1.weight") == Doubles(d, 1.0));
  }
}

TEST_CASE(
    "The same seed gives the same weights, another seed, block or noise others; reinit=false leaves them") {
  const ir::Selection options = vit(16, 2, 2);
  const std::string name = "blocks.1.attn.qkv.weight";
  const Doubles weights = Fresh(options, "skipless")(name);
  CHECK(Fresh(options, "skipless")(name) == weights);
  CHECK(Fresh(options, "skipless:layers=1")(name) == weights);
  CHECK(Fresh(options, "skipless", 2)(name) != weights);
  CHECK(Fresh(options, "skipless:noise=uniform")(name) != weights);
  CHECK(Fresh(options, "skipless")("blocks.0.attn.qkv.weight") != weights);
  const runtime::TensorMap plain = runtime::initialise(models::build(options, 1), 1);
  CHECK(Fresh(options, "skipless:reinit=false")(name) == runtime::to_double(plain.at(name)).data);
  const Fresh mlp(options, "skipless:sites=mlp");
  CHECK(mlp(name) == runtime::to_double(plain.at(name)).data);
  CHECK(mlp("blocks.1.mlp.fc1.weight") != runtime::to_double(plain.at("blocks.1.mlp.fc1.weight")).data);
}

TEST_CASE("With alpha = 0 the attention's target is beta I: queries and keys are equal and orthonormal") {
  const Fresh fresh(vit(16, 2, 1), "skipless:alpha=0,beta=0.25");
  const Doubles qkv = fresh("blocks.0.attn.qkv.weight");
  for (std::size_t i = 0; i < 256; ++i) CHECK(qkv[i] == Approx(qkv[256 + i]).epsilon(0).margin(1e-6));
  const auto head = std::span(qkv).first(8 * 16);
  const Doubles gram = times_transposed(head, head, 16);
  for (std::size_t i = 0; i < 64; ++i)
    CHECK(gram[i] == Approx(i % 9 == 0 ? 0.25 : 0).epsilon(0).margin(1e-6));
}

TEST_CASE("Drop path, LayerScale and joins that it cannot initialise are refused") {
  ir::Selection options = vit(16, 2, 2);
  options.set("drop_path", 0.1);
  const auto refused = [](const ir::Module& module, const std::string& spec) {
    return message_of<UserError>([&] { started(rewritten(module, {spec}), {spec}); });
  };
  CHECK(refused(models::build(options, 1), "skipless") ==
        "plugin 'skipless': blocks.1.attn has drop path: without a shortcut, a dropped branch leaves "
        "nothing; set model.drop_path=0");
  // Drop path begins at 0 in the first block.
  CHECK(refused(models::build(options, 1), "skipless:layers=0") == "(nothing was thrown)");

  ir::Module scaled = residual_net({.depth = 1});
  for (ir::Parameter& parameter : scaled.parameters) {
    if (parameter.name == "blocks.0.mlp.fc2.bias") parameter.role = "layer_scale";
  }
  CHECK(refused(scaled, "skipless:sites=mlp") ==
        "plugin 'skipless': blocks.0.mlp has LayerScale (blocks.0.mlp.fc2.bias): without a shortcut it would "
        "scale the stream down at every join; use a model without LayerScale");
  CHECK(refused(residual_net({.depth = 1}), "skipless") ==
        "plugin 'skipless': blocks.0.attn has no matrix of role 'qkv' to re-initialise; set reinit=false to "
        "keep the weights");
  CHECK(refused(residual_net({.depth = 1}), "skipless:reinit=false") == "(nothing was thrown)");
  // Weights that the matrices' dtype has no number for.
  CHECK_THAT(
      refused(models::build(vit(16, 2, 1), 1), "skipless:scale=1e60"),
      REWIRE_CATCH_CONTAINS("plugin 'skipless': it wrote ") &&
          REWIRE_CATCH_CONTAINS("into 'blocks.0.attn.qkv.weight' at element 512, which is not a finite f32"));
  ir::Module images = single_join({ir::DType::f32, {2, 4, 3, 3}}, {.batch = 0, .token = 2, .channel = 1});
  images.function("forward").body.back().attributes.set("site", std::string("conv"));
  CHECK(refused(images, "skipless") ==
        "plugin 'skipless': blocks.0.conv: conv joins have no initialisation here; choose other sites=, or "
        "set reinit=false");
  CHECK(refused(residual_net({.depth = 1}), "skipless:scale=0") ==
        "plugin 'skipless': scale=0 is out of range: it takes a float > 0");
}

}  // namespace
}  // namespace rewire::test
