// Norms behind the sum: what a join computes, which norm it has, how DeepNorm starts.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "models/model.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

using Row = std::vector<double>;

Row layer_norm(const Row& x, const std::vector<double>& weight, const std::vector<double>& bias) {
  double mean = 0, variance = 0;
  for (double v : x) mean += v / static_cast<double>(x.size());
  for (double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  Row y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back((x[i] - mean) / std::sqrt(variance + 1e-6) * weight[i] + bias[i]);
  }
  return y;
}

TEST_CASE("A join norms a x + f(x), and with keel L x + f(LN(x))") {
  struct Case {
    const char* kind;
    double factor;  // of two blocks, four joins
  };
  for (const Case& c : {Case{"postln", 1}, Case{"deepnorm", std::pow(4, 0.25)}, Case{"keel", 4}}) {
    CAPTURE(c.kind);
    const bool keel = c.kind == std::string("keel");
    const ir::Module module = rewritten(residual_net({.depth = 2}), {std::string("postnorm:kind=") + c.kind});
    ir::EvalState state = to_eval_state(started(module, {}, 3));
    double phase = 0;
    for (auto& [name, tensor] : state.tensors) tensor = sample(tensor.type, ++phase);
    const ir::Function& forward = module.function("forward");
    const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value), 0.5);
    const ir::Tensor y = ir::evaluate(module, forward, {x}, state).at(0);
    const auto weight = [&](const std::string& name) -> const std::vector<double>& {
      return state.tensors.at(name).data;
    };
    const std::size_t d = 4;
    for (std::size_t token = 0; token < x.data.size() / d; ++token) {
      Row stream(x.data.begin() + static_cast<std::ptrdiff_t>(token * d),
                 x.data.begin() + static_cast<std::ptrdiff_t>(token * d + d));
      for (const std::string block : {"blocks.0.", "blocks.1."}) {
        for (const std::string site : {"attn", "mlp"}) {
          const std::string norm = block + (site == "attn" ? "norm1" : "norm2");
          const std::string layer = block + (site == "attn" ? "attn.proj" : "mlp.fc2");
          const Row read =
              keel ? layer_norm(stream, weight(norm + ".weight"), weight(norm + ".bias")) : stream;
          Row sum;
          for (std::size_t i = 0; i < d; ++i) {
            sum.push_back(c.factor * stream[i] + weight(layer + ".bias")[i]);
            for (std::size_t j = 0; j < d; ++j) sum.back() += weight(layer + ".weight")[i * d + j] * read[j];
          }
          const std::string behind = keel ? block + "join_" + site + ".norm_" : norm + ".";
          stream = layer_norm(sum, weight(behind + "weight"), weight(behind + "bias"));
        }
      }
      for (std::size_t i = 0; i < d; ++i) CHECK(y.data[token * d + i] == Approx(stream[i]).margin(1e-12));
    }
  }
}

TEST_CASE("Post-LN and DeepNorm have the weights of the plain network, Keel a norm more a join") {
  const auto added = [](const std::string& kind) {
    std::set<std::string> names;
    const ir::Module module = rewritten(residual_net({.depth = 1}), {"postnorm:kind=" + kind});
    for (const ir::Parameter& parameter : module.parameters) {
      if (parameter.name.find(".join_") == std::string::npos) continue;
      CHECK_FALSE(parameter.decay);
      CHECK(parameter.init.kind ==
            (parameter.name.ends_with("weight") ? ir::InitKind::ones : ir::InitKind::zeros));
      names.insert(parameter.name);
    }
    return names;
  };
  CHECK(added("postln").empty());
  CHECK(added("deepnorm").empty());
  CHECK(added("keel") ==
        std::set<std::string>{"blocks.0.join_attn.norm_weight", "blocks.0.join_attn.norm_bias",
                              "blocks.0.join_mlp.norm_weight", "blocks.0.join_mlp.norm_bias"});
  CHECK(added("peri") == added("keel"));
  CHECK(added("peri,norm=rms") ==
        std::set<std::string>{"blocks.0.join_attn.norm_weight", "blocks.0.join_mlp.norm_weight"});
}

TEST_CASE("DeepNorm starts matrices Xavier normal, values, projection and MLP smaller by (8 N)^(-1/4)") {
  ir::Selection options{"vit"};
  options.set("dim", 64).set("depth", 2).set("heads", 2).set("patch", 14).set("mlp_ratio", 3);
  const ir::Module plain = models::build(options, 1);
  const std::vector<std::string> specs = {"postnorm:kind=deepnorm"};
  const runtime::TensorMap state = started(rewritten(plain, specs), specs, 11),
                           before = started(plain, {}, 11);
  const double gain = std::pow(16, -0.25);
  const auto check = [&](const std::string& name, std::size_t part, std::size_t parts, double std) {
    CAPTURE(name, part);
    const std::vector<double> data = runtime::to_double(state.at(name)).data;
    const std::size_t size = data.size() / parts;
    double mean = 0, square = 0;
    for (std::size_t i = part * size; i < (part + 1) * size; ++i)
      mean += data[i], square += data[i] * data[i];
    const auto n = static_cast<double>(size);
    // Five standard errors of n normal numbers.
    CHECK(std::abs(mean / n) < 5 * std / std::sqrt(n));
    CHECK(std::abs(std::sqrt(square / n) / std - 1) < 5 / std::sqrt(2 * n));
  };
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    const double square = std::sqrt(2.0 / 128);
    check(block + "attn.qkv.weight", 0, 3, square);
    check(block + "attn.qkv.weight", 1, 3, square);
    check(block + "attn.qkv.weight", 2, 3, gain * square);
    check(block + "attn.proj.weight", 0, 1, gain * square);
    check(block + "mlp.fc1.weight", 0, 1, gain * std::sqrt(2.0 / 256));
    check(block + "mlp.fc2.weight", 0, 1, gain * std::sqrt(2.0 / 256));
  }
  for (const auto& [name, tensor] : before) {
    if (name.find("blocks.") == 0 && name.find("norm") == std::string::npos && name.ends_with(".weight"))
      continue;
    CAPTURE(name);
    CHECK(std::ranges::equal(tensor.bytes(), state.at(name).bytes()));
  }
}

TEST_CASE("DeepNorm leaves queries and keys of Llama their size, and makes values and gate smaller") {
  ir::Selection options{"llama_nano"};
  options.set("depth", 2);
  const std::vector<std::string> specs = {"postnorm:kind=deepnorm,norm=rms"};
  const runtime::TensorMap state = started(rewritten(models::build(options, 1), specs), specs, 11);
  const auto deviation = [&](const std::string& layer) {
    double square = 0;
    const ir::Tensor tensor = runtime::to_double(state.at("model.layers.1." + layer + ".weight"));
    for (const double v : tensor.data) square += v * v;
    return std::sqrt(square / static_cast<double>(tensor.data.size()));
  };
  const double gain = std::pow(16, -0.25);
  CHECK(deviation("self_attn.q_proj") == Approx(std::sqrt(2.0 / 192)).epsilon(0.04));
  CHECK(deviation("self_attn.k_proj") == Approx(std::sqrt(2.0 / 144)).epsilon(0.04));
  CHECK(deviation("self_attn.v_proj") == Approx(gain * std::sqrt(2.0 / 144)).epsilon(0.04));
  CHECK(deviation("mlp.gate_proj") == Approx(gain * std::sqrt(2.0 / 352)).epsilon(0.04));
}

TEST_CASE("Without a norm of its own, or of that kind, a branch takes a new one alone") {
  const ir::Module bare = single_join({ir::DType::f32, {2, 3, 5}});
  CHECK(message_of<UserError>([&] { rewritten(bare, {"postnorm"}); }) ==
        "plugin 'postnorm': blocks.0.mlp has no layer norm to move after its sum; use the norm= that it has, "
        "or "
        "kind=keel or peri, which add one");
  CHECK_NOTHROW(rewritten(bare, {"postnorm:kind=keel"}));
  CHECK_THAT(message_of<UserError>([&] { rewritten(residual_net({}), {"postnorm:norm=rms"}); }),
             REWIRE_CATCH_CONTAINS("blocks.0.attn has no RMS norm"));
}

}  // namespace
}  // namespace rewire::test
