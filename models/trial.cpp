#include "models/trial.h"

#include <cstdint>
#include <string_view>

#include "ir/builder.h"
#include "models/model.h"

namespace rewire::models {
namespace {

using ir::Builder;
using ir::Init;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

constexpr std::int64_t kClasses = 5;

ir::Module vit_token() {
  ModelOptions options;
  options.dim = 8;
  options.depth = 2;
  options.heads = 2;
  options.patch = 4;
  options.image = 8;
  options.classes = kClasses;
  return build(options, 2);
}

ir::Module vit_avg() {
  ModelOptions options;
  options.dim = 12;
  options.depth = 3;
  options.heads = 3;
  options.mlp_ratio = 2;
  options.patch = 3;
  options.image = 9;
  options.channels = 3;
  options.classes = kClasses;
  options.pool = "avg";
  options.dropout = 0.1;
  options.drop_path = 0.2;
  return build(options, 3);
}

/// Blocks of x + W2 gelu(W1 LN(x)) on maps x [N, C, H, W], W1 and W2 convolutions of extent 1: ConvNeXt's
/// block (Liu et al., CVPR 2022) without its depthwise convolution.
class MapsBuilder {
 public:
  explicit MapsBuilder(Builder& builder) : b_(builder) {}

  void build() {
    const Value image = b_.argument("image", {ir::DType::f32, {kBatch, 2, kHeight, kWidth}});
    Value x = maps(linear("stem", "stem", rows(image), kChannels));
    for (std::int64_t i = 0; i < kDepth; ++i) x = block(x, i);
    const Value pooled = b_.reshape(b_.mean(x, {2, 3}), {kBatch, kChannels});
    b_.result("logits", linear("head", "head", pooled, kClasses));
  }

 private:
  static constexpr std::int64_t kBatch = 2, kChannels = 12, kHeight = 3, kWidth = 5, kDepth = 2;

  Value parameter(std::string_view leaf, ir::Shape shape, Init init, std::string_view role) {
    ir::Parameter p;
    p.name = b_.location() + "." + std::string(leaf);
    p.decay = shape.size() > 1;
    p.type = {ir::DType::f32, std::move(shape)};
    p.init = init;
    p.role = role;
    p.site = block_ < 0 ? "" : "conv";
    p.block = block_;
    return b_.param(b_.module().add_parameter(std::move(p)).name);
  }

  Value linear(std::string_view name, std::string_view role, Value x, std::int64_t out) {
    const Builder::Scope scope(b_, name);
    const Value weight =
        parameter("weight", {out, b_.shape(x).back()}, {InitKind::trunc_normal, 0.2, 2.0}, role);
    return b_.linear(x, weight, parameter("bias", {out}, {InitKind::zeros}, role));
  }

  /// [N, C, H, W] -> [N, H, W, C] and back.
  Value rows(Value x) { return b_.transpose(x, {0, 2, 3, 1}); }
  Value maps(Value x) { return b_.transpose(x, {0, 3, 1, 2}); }

  Value block(Value x, std::int64_t index) {
    const Builder::Scope blocks(b_, "blocks");
    const Builder::Scope scope(b_, std::to_string(index));
    block_ = static_cast<std::int32_t>(index);
    Value input;
    {
      const Builder::Scope inner(b_, "norm");
      const Value weight = parameter("weight", {kChannels}, {InitKind::ones}, "norm");
      const Value bias = parameter("bias", {kChannels}, {InitKind::zeros}, "norm");
      input = b_.emit(Opcode::layer_norm, {rows(x), weight, bias}, {{"epsilon", 1e-6}});
    }
    const Builder::Scope inner(b_, "conv");
    const Value hidden = b_.emit(Opcode::gelu, {linear("conv1", "conv", input, 2 * kChannels)});
    const Value branch = maps(linear("conv2", "conv", hidden, kChannels));
    input = maps(input);
    const Value joined = b_.emit(Opcode::residual, {x, branch, input, x, branch},
                                 {{"block", index},
                                  {"site", std::string("conv")},
                                  {"scope", std::string("encoder")},
                                  {"join_index", index},
                                  {"join_count", kDepth},
                                  {"batch_axis", std::int64_t{0}},
                                  {"token_axis", std::int64_t{2}},
                                  {"channel_axis", std::int64_t{1}},
                                  {"last_weight", b_.location() + ".conv2.weight"}});
    block_ = -1;
    return joined;
  }

  Builder& b_;
  std::int32_t block_ = -1;  // where the layer being built stands
};

ir::Module maps() {
  ir::Module module;
  module.name = "maps";
  ir::Function forward;
  forward.name = "forward";
  Builder builder(module, forward);
  MapsBuilder(builder).build();
  module.functions.push_back(std::move(forward));
  return module;
}

}  // namespace

std::vector<TrialNetwork> trial_networks() {
  std::vector<TrialNetwork> networks;
  networks.push_back({"vit_token", "a plain ViT of width 8", vit_token()});
  networks.push_back({"vit_avg", "a ViT of width 12 with dropout and drop path", vit_avg()});
  networks.push_back({"maps", "12 feature maps of 3 x 5, joined at conv sites", maps()});
  return networks;
}

}  // namespace rewire::models
