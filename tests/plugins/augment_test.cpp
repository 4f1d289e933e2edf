// Augmented shortcuts against their formula, written here as loops over full matrices; the weights they add;
// what they refuse.
#include <cmath>
#include <numbers>

#include "ir/error.h"
#include "ir/ops/work.h"
#include "ir/residual.h"
#include "ir/text.h"
#include "models/model.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

using Row = std::vector<double>;

/// The entry of input place s and output place r of the matrix that c [T, b, b, n] tells of path i.
double entry(const ir::Tensor& c, std::size_t i, std::size_t r, std::size_t s, bool correlation) {
  const auto b = static_cast<std::size_t>(c.type.shape[1]), n = static_cast<std::size_t>(c.type.shape[3]);
  const std::size_t lag = correlation ? (s % n + n - r % n) % n : (r % n + n - s % n) % n;
  return c.data[((i * b + r / n) * b + s / n) * n + lag];
}

/// Sum over the paths of one token u.
template <class Entry>
Row paths_of(const Row& u, std::size_t count, const std::string& order, Entry weight) {
  Row total(u.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < u.size(); ++r) {
      double product = 0;
      for (std::size_t s = 0; s < u.size(); ++s)
        product += (order == "act_circ" ? gelu(u[s]) : u[s]) * weight(i, r, s);
      total[r] += order == "act" ? gelu(u[r]) : order == "circ_act" ? gelu(product) : product;
    }
  }
  return total;
}

struct Case {
  std::string values;
  std::size_t paths;
  std::string order = "circ_act";
  bool correlation = false, dense = false;
};
const std::vector<Case> kCases = {
    {"blocks=2", 2},
    {"blocks=1,paths=1,circulant=corr", 1, "circ_act", true},
    {"blocks=6,paths=3", 3},
    {"blocks=3,order=act_circ,circulant=corr", 2, "act_circ", true},
    {"blocks=2,order=circ,paths=3", 3, "circ"},
    {"order=act,paths=3", 3, "act"},
    {"projection=dense", 2, "circ_act", false, true},
    {"projection=dense,order=circ,paths=1", 1, "circ", false, true},
};

TEST_CASE("The join is x + f + the sum of the paths, whatever axis the channels stand on") {
  constexpr std::size_t kWidth = 6;
  for (const Case& c : kCases) {
    for (const bool channels_last : {true, false}) {
      CAPTURE(c.values, channels_last);
      const ir::TensorType type{ir::DType::f32,
                                channels_last ? ir::Shape{2, 3, kWidth} : ir::Shape{2, kWidth, 3, 1}};
      const JoinAxes axes = channels_last ? JoinAxes{} : JoinAxes{.batch = 0, .token = 2, .channel = 1};
      const std::string spec = "augment:" + c.values;
      const ir::Module module = rewritten(single_join(type, axes), {spec});
      ir::EvalState state = to_eval_state(started(module, {spec}, 7));
      const ir::Tensor x = sample(type, 0.3), f = sample(type, 1.1);
      const ir::Tensor y = ir::evaluate(module, module.function("forward"), {x, f}, state).at(0);

      const auto weight = [&](std::size_t i, std::size_t r, std::size_t s) {
        if (c.order == "act") return 0.0;
        if (c.dense) return state.tensors.at("blocks.0.join_mlp.weight").data[(i * kWidth + r) * kWidth + s];
        return entry(state.tensors.at("blocks.0.join_mlp.c"), i, r, s, c.correlation);
      };
      for (std::size_t token = 0; token < 6; ++token) {
        const std::size_t first = channels_last ? token * kWidth : token / 3 * 3 * kWidth + token % 3;
        const std::size_t stride = channels_last ? 1 : 3;
        Row u(kWidth);
        for (std::size_t s = 0; s < kWidth; ++s) u[s] = x.data[first + s * stride];
        const Row paths = paths_of(u, c.paths, c.order, weight);
        for (std::size_t r = 0; r < kWidth; ++r) {
          const std::size_t at = first + r * stride;
          CHECK(y.data[at] == Approx(x.data[at] + f.data[at] + paths[r]).epsilon(0).margin(1e-12));
        }
      }
    }
  }
}

TEST_CASE("No paths leave the module as it was, to the letter") {
  const ir::Module before = residual_net({});
  CHECK(ir::print(rewritten(before, {"augment:paths=0"})) == ir::print(before));
}

TEST_CASE("Paths claim no slot, and stand beside what others do to the join") {
  const ir::Module module = rewritten(residual_net({.dim = 8}), {"augment:paths=3,sites=mlp"});
  const ir::Function& forward = module.function("forward");
  for (std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    CHECK(join.shortcut == join.stream);
    CHECK(join.shortcut_owner.empty());
    CHECK(join.branch_owner.empty());
    CHECK(join.paths.size() == (join.site == "mlp" ? 3 : 0));
  }
}

TEST_CASE("Its weights hang on the join, decay, and start as a truncated normal of 0.02") {
  for (const auto& [values, name, shape] :
       {std::tuple{"paths=3,blocks=2", "blocks.1.join_attn.c", ir::Shape{3, 2, 2, 4}},
        std::tuple{"projection=dense", "blocks.0.join_mlp.weight", ir::Shape{2, 8, 8}}}) {
    const ir::Module module = rewritten(residual_net({.dim = 8}), {std::string("augment:") + values});
    CAPTURE(values);
    const ir::Parameter* weight = module.find_parameter(name);
    REQUIRE(weight != nullptr);
    CHECK(weight->type == ir::TensorType{ir::DType::f32, shape});
    CHECK(weight->init == ir::Init{ir::InitKind::trunc_normal, 0.02, 2});
    CHECK(weight->trainable);
    CHECK(weight->decay);
  }
  const ir::Module act = rewritten(residual_net({}), {"augment:order=act"});
  CHECK(act.parameters.size() == residual_net({}).parameters.size());
}

std::int64_t weights_added(const std::string& spec) {
  const ir::Module plain = models::build(ir::Selection{"vit_s16_224"}, 1);
  const auto count = [](const ir::Module& module) {
    std::int64_t total = 0;
    for (const ir::Parameter& parameter : module.parameters) total += parameter.type.elements();
    return total;
  };
  return count(rewritten(plain, {spec})) - count(plain);
}

TEST_CASE("On a ViT-S the paper's numbers of weights are added: .02 .03 .07 .15 M, 7.1 M if dense") {
  // 12 blocks of 2 joins, T = 2 paths of b d lags, or of d^2.
  CHECK(weights_added("augment:blocks=1") == 18'432);
  CHECK(weights_added("augment:blocks=2") == 36'864);
  CHECK(weights_added("augment") == 73'728);
  CHECK(weights_added("augment:blocks=8") == 147'456);
  CHECK(weights_added("augment:projection=dense") == 7'077'888);
}

/// To two digits behind the point, as the paper prints it.
double gmacs_added(const std::string& spec) {
  const ir::Module plain = models::build(ir::Selection{"vit_s16_224"}, 1);
  const double added = ir::multiply_adds(rewritten(plain, {spec}).function("forward")) -
                       ir::multiply_adds(plain.function("forward"));
  return std::round(added * 1e-7) / 100;
}

TEST_CASE("On a ViT-S the paper's multiply-adds are added, for every number of paths, blocks and place") {
  CHECK(gmacs_added("augment:paths=1") == 0.04);
  CHECK(gmacs_added("augment") == 0.08);
  CHECK(gmacs_added("augment:paths=3") == 0.12);
  CHECK(gmacs_added("augment:sites=attn") == 0.04);
  CHECK(gmacs_added("augment:sites=mlp") == 0.04);
  CHECK(gmacs_added("augment:blocks=1") == 0.07);
  CHECK(gmacs_added("augment:blocks=2") == 0.07);
  CHECK(gmacs_added("augment:blocks=8") == 0.10);
  CHECK(gmacs_added("augment:projection=dense") == 1.39);  // printed 1.4: 24 x 2 x 197 x 384^2
  CHECK(gmacs_added("augment:paths=0") == 0);
}

TEST_CASE("It refuses blocks that do not divide the width, in one line that names divisors") {
  const auto refused = [](const std::string& spec) {
    return message_of<UserError>([&] { rewritten(residual_net({.dim = 8}), {spec}); });
  };
  CHECK(refused("augment:blocks=3") ==
        "plugin 'augment': blocks=3 does not divide the width 8 of blocks.0.attn: use a divisor, such as 2 "
        "or 4");
  CHECK(refused("augment:blocks=9") ==
        "plugin 'augment': blocks=9 does not divide the width 8 of blocks.0.attn: use a divisor, such as 8");
  CHECK(refused("augment:blocks=9000000000000") ==
        "plugin 'augment': blocks=9000000000000 does not divide the width 8 of blocks.0.attn: use a divisor, "
        "such as 8");
  CHECK(refused("augment:paths=-1") == "plugin 'augment': paths=-1 is out of range: it takes an int >= 0");
}

}  // namespace
}  // namespace rewire::test
