#include "models/trial.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "ir/opcodes.h"
#include "models/layers.h"
#include "models/model.h"

namespace rewire::models {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

constexpr std::int64_t kClasses = 5;
const ir::Init kWide{ir::InitKind::trunc_normal, 0.2, 2.0};

ir::Module vit_token() {
  return build(
      {"vit", {{"dim", 8}, {"depth", 2}, {"heads", 2}, {"patch", 4}, {"image", 8}, {"classes", kClasses}}},
      2);
}

ir::Module vit_avg() {
  return build({"vit",
                {{"dim", 12},
                 {"depth", 3},
                 {"heads", 3},
                 {"mlp_ratio", 2},
                 {"patch", 3},
                 {"image", 9},
                 {"channels", 3},
                 {"classes", kClasses},
                 {"pool", "avg"},
                 {"dropout", 0.1},
                 {"drop_path", 0.2}}},
               3);
}

/// Blocks of x + W2 gelu(W1 LN(x)) on maps x [N, C, H, W]. W1 and W2 are 1 x 1 convolutions. This is
/// ConvNeXt's block (Liu et al., CVPR 2022) without its depthwise convolution.
void build_maps(Layers& net) {
  constexpr std::int64_t kBatch = 2, kChannels = 12, kHeight = 3, kWidth = 5, kDepth = 2;
  Builder& b = net.builder();
  // [N, C, H, W] -> [N, H, W, C] and back.
  const auto rows = [&](Value x) { return b.transpose(x, {0, 2, 3, 1}); };
  const auto maps = [&](Value x) { return b.transpose(x, {0, 3, 1, 2}); };

  const Value image = b.argument("image", {ir::DType::f32, {kBatch, 2, kHeight, kWidth}});
  Value x = maps(net.linear("stem", rows(image), kChannels, {.init = kWide}));
  for (std::int64_t i = 0; i < kDepth; ++i) {
    const Layers::Block block(net, fmt::format("blocks.{}", i));
    const auto conv = [&](std::string_view name, Value z, std::int64_t out) {
      return net.linear(name, z, out, {.role = "conv", .init = kWide});
    };
    x = net.join(
        "conv", x, [&](Value z) { return maps(net.layer_norm("norm", rows(z))); },
        [&](Value z) {
          const Value hidden = b.emit(Opcode::gelu, {conv("conv1", rows(z), 2 * kChannels)});
          return maps(conv("conv2", hidden, kChannels));
        },
        {.last = "conv2", .token_axis = 2, .channel_axis = 1});
  }
  const Value pooled = b.reshape(b.mean(x, {2, 3}), {kBatch, kChannels});
  b.result("logits", net.linear("head", pooled, kClasses, {.init = kWide}));
}

/// Row t of the result is the mean of rows 0 to t. x is [B, N, D].
Value mean_of_earlier(Builder& b, Value x) {
  const std::int64_t batch = b.shape(x).at(0), tokens = b.shape(x).at(1);
  ir::Doubles weights(static_cast<std::size_t>(tokens * tokens));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t s = 0; s <= t; ++s)
      weights[static_cast<std::size_t>(t * tokens + s)] = 1.0 / static_cast<double>(t + 1);
  }
  const Value earlier = b.emit(Opcode::constant, {}, {{"values", std::move(weights)}},
                               ir::TensorType{ir::DType::f32, {tokens, tokens}});
  return b.matmul(b.broadcast(b.reshape(earlier, {1, tokens, tokens}), {batch, tokens, tokens}), x);
}

/// Builds pre-norm blocks in which no token reads a later token.
void build_causal(Layers& net) {
  constexpr std::int64_t kBatch = 2, kTokens = 6, kPixels = 5, kChannels = 8, kDepth = 2;
  Builder& b = net.builder();
  const auto linear = [&](std::string_view name, Value x, std::int64_t out, std::string_view role = "") {
    return net.linear(name, x, out, {.role = role, .init = kWide});
  };
  const Value image = b.argument("image", {ir::DType::f32, {kBatch, 1, kTokens, kPixels}});
  Value x = linear("patch_embed", b.reshape(image, {kBatch, kTokens, kPixels}), kChannels, "stem");
  for (std::int64_t i = 0; i < kDepth; ++i) {
    const Layers::Block block(net, fmt::format("blocks.{}", i));
    x = net.join(
        "attn", x, [&](Value z) { return net.layer_norm("norm1", z); },
        [&](Value z) { return linear("proj", mean_of_earlier(b, linear("v", z, kChannels)), kChannels); },
        {.last = "proj"});
    x = net.join(
        "mlp", x, [&](Value z) { return net.layer_norm("norm2", z); },
        [&](Value z) {
          const Value hidden = b.emit(Opcode::gelu, {linear("fc1", z, 2 * kChannels)});
          return linear("fc2", hidden, kChannels);
        },
        {.last = "fc2"});
  }
  const Value last = b.reshape(b.slice(x, 1, kTokens - 1, kTokens), {kBatch, kChannels});
  b.result("logits", linear("head", last, kClasses));
}

}  // namespace

std::vector<TrialNetwork> trial_networks() {
  std::vector<TrialNetwork> networks;
  networks.push_back({"vit_token", "a plain ViT of width 8", vit_token()});
  networks.push_back({"vit_avg", "a ViT of width 12 with dropout and drop path", vit_avg()});
  networks.push_back(
      {"maps", "12 feature maps of 3 x 5, joined at conv sites", forward_module("maps", build_maps)});
  return networks;
}

TrialNetwork causal_network() {
  return {"causal", "6 tokens of width 8; each reads only earlier tokens",
          forward_module("causal", build_causal)};
}

}  // namespace rewire::models
