// Features against the values that they are of, computed from the network's stream in double precision.
#include "runtime/analyze/features.h"

#include <cmath>

#include "ir/error.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "models/model.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/initialise.h"
#include "runtime/network/weights.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"

namespace rewire::test::features_of {
namespace {

using runtime::FeatureKind;
using Doubles = std::vector<double>;

constexpr std::int64_t kBatch = 2, kWidth = 8, kSide = 3, kPatches = kSide * kSide;

ir::Selection small_vit(const std::string& pool = "token") {
  return {"vit",
          {{"dim", kWidth},
           {"depth", std::int64_t{3}},
           {"heads", std::int64_t{2}},
           {"patch", std::int64_t{2}},
           {"image", 2 * kSide},
           {"classes", std::int64_t{0}},
           {"pool", pool},
           {"class_token", std::string("true")},
           {"reg_tokens", std::int64_t{2}}}};
}
constexpr std::int64_t kPrefix = 3, kTokens = kPrefix + kPatches;

/// Weights that are not those of a fresh network, whose norms are 1 and biases 0.
runtime::TensorMap weights_of(const ir::Module& module) {
  runtime::TensorMap weights = runtime::initialise(module, 0);
  for (const ir::Parameter& p : module.parameters) {
    if (!p.is_weight()) weights.erase(p.name);
    if (p.trainable) weights.insert_or_assign(p.name, testing::noise(p.type.shape, 11, p.name.c_str()));
  }
  return weights;
}

/// Results of a program, in double precision.
std::map<std::string, Doubles> results(const ir::Module& module, const std::string& program,
                                       const runtime::TensorMap& weights) {
  ir::verify(module);
  const auto engine = runtime::make_engine("evaluator", module);
  runtime::start_state(*engine, module, weights, 0);
  const ir::Function& forward = module.function("forward");
  runtime::TensorMap inputs;
  inputs.emplace("image", testing::noise(forward.type(forward.argument("image")).shape, 5, "image"));
  std::map<std::string, Doubles> told;
  for (const auto& [name, tensor] : engine->run(program, inputs))
    told[name] = runtime::to_double(tensor).data;
  return told;
}

/// The network with its joins' values as results too.
ir::Module with_joins(const ir::Selection& model) {
  ir::Module module = models::build(model, kBatch);
  ir::Function& forward = module.function("forward");
  for (const std::size_t at : ir::find_joins(forward)) {
    const ir::Op& op = forward.body[at];
    forward.results.push_back({ir::read_join(op).describe(), op.results.front()});
  }
  return module;
}

struct Computed {
  runtime::FeatureFacts facts;
  Doubles numbers;
};
Computed features(const ir::Selection& model, const runtime::FeatureChoice& choice) {
  ir::Module module = models::build(model, kBatch);
  const runtime::TensorMap weights = weights_of(module);
  Computed computed;
  computed.facts = runtime::add_features_program(module, choice);
  computed.numbers = results(module, "features", weights).at("features");
  return computed;
}

void check_equal(const Doubles& found, const Doubles& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-5));
  }
}

/// Rows of each image's tokens [batch, tokens, width].
Doubles rows(const Doubles& tokens, std::int64_t begin, std::int64_t end) {
  Doubles some;
  for (std::int64_t i = 0; i < kBatch; ++i)
    some.insert(some.end(), tokens.begin() + (i * kTokens + begin) * kWidth,
                tokens.begin() + (i * kTokens + end) * kWidth);
  return some;
}

Doubles mean_of_patches(const Doubles& patches) {
  Doubles mean(kBatch * kWidth);
  for (std::size_t i = 0; i < patches.size(); ++i)
    mean[i / (kPatches * kWidth) * kWidth + i % kWidth] += patches[i] / kPatches;
  return mean;
}

Doubles normed(Doubles x, const runtime::TensorMap& weights, const std::string& name) {
  const Doubles gain = runtime::to_double(weights.at(name + ".weight")).data,
                shift = runtime::to_double(weights.at(name + ".bias")).data;
  for (std::size_t first = 0; first < x.size(); first += kWidth) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < kWidth; ++i) mean += x[first + i] / kWidth;
    for (std::size_t i = 0; i < kWidth; ++i) square += (x[first + i] - mean) * (x[first + i] - mean) / kWidth;
    for (std::size_t i = 0; i < kWidth; ++i)
      x[first + i] = (x[first + i] - mean) / std::sqrt(square + 1e-6) * gain[i] + shift[i];
  }
  return x;
}

TEST_CASE(
    "Features are the stream at a block's exit or behind the last norm: a token, the patches or their mean") {
  const ir::Module module = with_joins(small_vit());
  const runtime::TensorMap weights = weights_of(module);
  const std::map<std::string, Doubles> stream = results(module, "forward", weights);
  const Doubles &middle = stream.at("blocks.1.mlp"), &last = stream.at("blocks.2.mlp");
  check_equal(features(small_vit(), {FeatureKind::class_token, {"1"}}).numbers, rows(middle, 0, 1));
  check_equal(features(small_vit(), {FeatureKind::class_token, {"-2"}}).numbers, rows(middle, 0, 1));
  check_equal(features(small_vit(), {FeatureKind::tokens, {"blocks.1"}}).numbers,
              rows(middle, kPrefix, kTokens));
  check_equal(features(small_vit(), {FeatureKind::mean, {"-1"}}).numbers,
              mean_of_patches(rows(last, kPrefix, kTokens)));
  // What the head would see is the class token behind the norm: what is taken without a layer.
  const Computed token = features(small_vit(), {});
  CHECK(token.facts.layers == std::vector<std::string>{"norm"});
  check_equal(token.numbers, stream.at("features"));
  check_equal(token.numbers, normed(rows(last, 0, 1), weights, "norm"));
  check_equal(features(small_vit(), {FeatureKind::tokens, {"norm"}}).numbers,
              normed(rows(last, kPrefix, kTokens), weights, "norm"));
  const Computed patches = features(small_vit(), {FeatureKind::tokens});
  CHECK(patches.facts.layers == std::vector<std::string>{"blocks.2"});
  CHECK(patches.facts.width == kWidth);
  CHECK(patches.facts.patches == kPatches);
  CHECK(patches.facts.rows == kSide);
  CHECK(patches.facts.columns == kSide);
  check_equal(patches.numbers, rows(last, kPrefix, kTokens));
}

TEST_CASE("Features of several layers stand one behind the other") {
  const Doubles first = features(small_vit(), {FeatureKind::tokens, {"0"}}).numbers,
                last = features(small_vit(), {FeatureKind::tokens, {"2"}}).numbers;
  const Computed both = features(small_vit(), {FeatureKind::tokens, {"0", "blocks.2"}});
  CHECK(both.facts.layers == std::vector<std::string>{"blocks.0", "blocks.2"});
  CHECK(both.facts.width == 2 * kWidth);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::size_t at = i / kWidth * 2 * kWidth + i % kWidth;
    CHECK(both.numbers[at] == first[i]);
    CHECK(both.numbers[at + kWidth] == last[i]);
  }
}

TEST_CASE("A norm behind the pooling is of the mean, where the mean is taken") {
  ir::Selection model = small_vit("avg");
  model.set("fc_norm", true);
  const std::map<std::string, Doubles> stream =
      results(models::build(model, kBatch), "forward", weights_of(models::build(model, kBatch)));
  check_equal(features(model, {FeatureKind::mean, {"norm"}}).numbers, stream.at("features"));
  // And one before it of each patch.
  const ir::Selection before = small_vit("avg");
  check_equal(features(before, {FeatureKind::mean, {"norm"}}).numbers,
              results(models::build(before, kBatch), "forward", weights_of(models::build(before, kBatch)))
                  .at("features"));
}

TEST_CASE(
    "Keys are what attention reads: the norm of the stream times its middle third, heads side by side") {
  const ir::Module module = with_joins(small_vit());
  const runtime::TensorMap weights = weights_of(module);
  const Doubles x = normed(rows(results(module, "forward", weights).at("blocks.1.mlp"), kPrefix, kTokens),
                           weights, "blocks.2.norm1");
  const Doubles w = runtime::to_double(weights.at("blocks.2.attn.qkv.weight")).data,
                bias = runtime::to_double(weights.at("blocks.2.attn.qkv.bias")).data;
  Doubles keys;
  for (std::size_t first = 0; first < x.size(); first += kWidth) {
    for (std::size_t out = kWidth; out < 2 * kWidth; ++out) {
      double sum = bias[out];
      for (std::size_t in = 0; in < kWidth; ++in) sum += x[first + in] * w[out * kWidth + in];
      keys.push_back(sum);
    }
  }
  const Computed found = features(small_vit(), {FeatureKind::keys});
  CHECK(found.facts.layers == std::vector<std::string>{"blocks.2"});
  CHECK(found.facts.rows == kSide);
  check_equal(found.numbers, keys);
}

TEST_CASE(
    "Of maps the features are what the network pools, its pixels row by row, and no class token or keys") {
  ir::Selection model{"resnet"};
  model.set("depths", ir::Doubles{1, 1}).set("width", std::int64_t{4}).set("image", std::int64_t{8});
  model.set("stem", std::string("conv3")).set("classes", std::int64_t{0});
  const Computed mean = features(model, {FeatureKind::mean});
  CHECK(mean.facts.layers == std::vector<std::string>{"pool"});
  check_equal(mean.numbers,
              results(models::build(model, kBatch), "forward", weights_of(models::build(model, kBatch)))
                  .at("features"));
  // Behind the join, before its activation: of 4 x 4 pixels of 8 channels.
  const Computed map = features(model, {FeatureKind::tokens, {"layer2.0"}});
  CHECK(map.facts.rows == 4);
  CHECK(map.facts.width == 8);
  const ir::Module module = with_joins(model);
  const Doubles maps = results(module, "forward", weights_of(module)).at("layer2.0.conv");
  for (std::size_t i = 0; i < map.numbers.size(); ++i) {
    const std::size_t channel = i % 8, pixel = i / 8 % 16, image = i / 128;
    CHECK(map.numbers[i] == Approx(maps[(image * 8 + channel) * 16 + pixel]));
  }
  const auto refusal = [&](const runtime::FeatureChoice& choice) {
    return message_of<UserError>([&] { features(model, choice); });
  };
  CHECK(refusal({FeatureKind::class_token}) ==
        "--kind class: the network has no class token but maps; --kind mean averages its patches");
  CHECK(refusal({FeatureKind::keys}) ==
        "--kind keys: layer2.0 has no attention, and so no keys; --kind tokens gives its stream");
  CHECK(refusal({FeatureKind::mean, {"norm"}}) ==
        "--layer norm: the network has no norm of tokens after its last block");
}

TEST_CASE("A class token counts from the stage on that it joins") {
  ir::Selection model{"pvt"};
  model.set("image", std::int64_t{8}).set("classes", std::int64_t{0});
  model.set("embed_dims", ir::Doubles{4, 8}).set("depths", ir::Doubles{1, 1});
  const Computed first = features(model, {FeatureKind::tokens, {"0"}}),
                 last = features(model, {FeatureKind::tokens, {"-1"}});
  CHECK(first.facts.patches == 16);
  CHECK(last.facts.patches == 4);
  CHECK(features(model, {FeatureKind::keys, {"0"}}).facts.patches == 4);  // of reduced maps
  CHECK(message_of<UserError>([&] { features(model, {FeatureKind::class_token, {"0"}}); }) ==
        "--kind class: the network has no class token there; --kind mean averages its patches");
  CHECK(message_of<UserError>([&] { features(model, {FeatureKind::tokens, {"0", "1"}}); }) ==
        "features of block1.0 and block2.0 cannot be concatenated: [2,16,4] and [2,4,8]");
}

TEST_CASE("A layer that is not there is refused with the nearest, and how many there are") {
  const auto refusal = [&](const std::string& layer) {
    return message_of<UserError>([&] { features(small_vit(), {FeatureKind::tokens, {layer}}); });
  };
  CHECK(refusal("3") == "--layer 3: the network has 3 blocks, 0 (blocks.0) to 2 (blocks.2), or -3 to -1");
  CHECK(refusal("-4") == "--layer -4: the network has 3 blocks, 0 (blocks.0) to 2 (blocks.2), or -3 to -1");
  CHECK(refusal("block.1") ==
        "--layer block.1: the network has no such layer (did you mean 'blocks.1'?); it has 3 blocks, "
        "blocks.0 to "
        "blocks.2, and norm");
  CHECK(message_of<UserError>([&] { features(small_vit(), {FeatureKind::keys, {"norm"}}); }) ==
        "--layer norm has no keys: only a block's attention has them");
  CHECK(message_of<UserError>([&] { runtime::feature_kind("token"); }) ==
        "unknown kind of features 'token' (did you mean 'tokens'?); choose from class, mean, tokens, keys");
}

TEST_CASE("The encoder of a masked autoencoder sees all patches as a vit of its weights does") {
  ir::Selection mae{"mae"}, vit{"vit"};
  for (ir::Selection* model : {&mae, &vit})
    model->set("dim", kWidth)
        .set("depth", std::int64_t{2})
        .set("heads", std::int64_t{2})
        .set("patch", std::int64_t{2})
        .set("image", 2 * kSide);
  mae.set("decoder", false);
  vit.set("classes", std::int64_t{0});
  const ir::Module module = models::build(mae, kBatch);
  const runtime::TensorMap weights = weights_of(module);
  const Doubles features = results(module, "forward", weights).at("features");
  check_equal(features, results(models::build(vit, kBatch), "forward", weights).at("features"));
  // With skips there is no last norm.
  const ir::Module bare = models::build(ir::Selection(mae).set("skips", std::string("unet")), kBatch);
  CHECK(bare.find_parameter("norm.weight") == nullptr);
  check_equal(normed(results(bare, "forward", weights_of(bare)).at("features"), weights, "norm"), features);
}

}  // namespace
}  // namespace rewire::test::features_of
