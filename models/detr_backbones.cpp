// See detr_backbones.h. ResNet-50 is the post-activation network of bottlenecks (He et al., CVPR 2016):
//   y = relu(shortcut(x) + bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))))     shortcut: x, or bn(conv(x))
#include "models/detr_backbones.h"

#include <fmt/format.h>

#include "models/pvt.h"
#include "models/vision_transformer.h"

namespace rewire::models {
namespace {

using ir::Builder;
using ir::Value;

constexpr std::string_view kBackboneScope = "backbone";
constexpr std::int64_t kBottleneckExpansion = 4;

Value deit_tokens(Layers& net, const DetrBackbone& s, Value image, Value valid) {
  return vision_transformer_patches(net,
                                    {.image = s.height,
                                     .channels = net.builder().shape(image).at(1),
                                     .patch = s.stride(),
                                     .image_width = s.width,
                                     .dim = s.dims.front(),
                                     .depth = s.depths.front(),
                                     .heads = s.heads.front(),
                                     .drop_path = s.drop_path,
                                     .scope = kBackboneScope},
                                    image, valid);
}

Value pvt_tokens(Layers& net, const DetrBackbone& s, Value image) {
  constexpr std::int64_t kPatches[] = {4, 2, 2, 2}, kReductions[] = {8, 4, 2, 1}, kMlpRatios[] = {8, 8, 4, 4};
  std::vector<PyramidStage> stages;
  std::int64_t rows = s.height, columns = s.width;
  for (std::size_t i = 0; i < s.dims.size(); ++i) {
    stages.push_back({.dim = s.dims[i],
                      .depth = s.depths[i],
                      .heads = s.heads[i],
                      .hidden = s.dims[i] * kMlpRatios[i],
                      .patch = kPatches[i],
                      .rows = rows /= kPatches[i],
                      .columns = columns /= kPatches[i],
                      .reduction = kReductions[i],
                      .has_cls = i + 1 == s.dims.size()});
  }
  const Value x = pyramid_tokens(net, stages, image, 0, s.drop_path, kBackboneScope);
  return net.layer_norm("norm", net.builder().slice(x, 1, 1, 1 + rows * columns));
}

ConvOptions frozen_norm_conv(std::int64_t kernel, std::int64_t stride, bool trains) {
  return {.kernel = kernel, .stride = stride, .bias = false, .trains = trains, .init = ConvInit::kaiming};
}

Value bottleneck(Layers& net, std::int64_t width, std::int64_t stride, double drop_path, bool trains,
                 Value x) {
  const auto normed = [&](std::string_view conv, std::string_view norm, Value z, std::int64_t outputs,
                          const ConvOptions& options) {
    return net.frozen_batch_norm(norm, net.conv(conv, z, outputs, options));
  };
  const std::int64_t outputs = kBottleneckExpansion * width;
  JoinOptions join = {
      .last = "conv3", .drop_path = drop_path, .token_axis = 2, .channel_axis = 1, .branch_in_site = false};
  if (stride != 1 || net.builder().shape(x).at(1) != outputs) {
    join.shortcut = [&](Value z, Value) {
      const Builder::Scope scope(net.builder(), "downsample");
      return normed("0", "1", z, outputs, frozen_norm_conv(1, stride, trains));
    };
  }
  x = net.join(
      "conv", x, [](Value z) { return z; },
      [&](Value z) {
        z = net.relu("act1", normed("conv1", "bn1", z, width, frozen_norm_conv(1, 1, trains)));
        z = net.relu("act2", normed("conv2", "bn2", z, width, frozen_norm_conv(3, stride, trains)));
        return normed("conv3", "bn3", z, outputs, frozen_norm_conv(1, 1, trains));
      },
      join);
  return net.relu("act3", x);
}

Value resnet_tokens(Layers& net, const DetrBackbone& s, Value image) {
  Builder& b = net.builder();
  std::int64_t blocks = 0, index = 0;
  for (const std::int64_t depth : s.depths) blocks += depth;
  Value x = net.conv("conv1", image, s.dims.front(), frozen_norm_conv(7, 2, false));
  x = net.max_pool("maxpool", net.relu("act1", net.frozen_batch_norm("bn1", x)), 3, 2, 1);
  for (std::size_t stage = 0; stage < s.depths.size(); ++stage) {
    for (std::int64_t i = 0; i < s.depths[stage]; ++i) {
      const Layers::Block place(net, fmt::format("layer{}.{}", stage + 1, i), kBackboneScope,
                                static_cast<std::int64_t>(stage));
      x = bottleneck(net, s.dims.front() << stage, stage > 0 && i == 0 ? 2 : 1,
                     drop_path_rate(s.drop_path, index++, blocks), stage > 0, x);
    }
  }
  const ir::Shape shape = b.shape(x);
  return b.transpose(b.reshape(x, {shape.at(0), shape.at(1), shape.at(2) * shape.at(3)}), {0, 2, 1});
}

}  // namespace

DetrBackbone published_backbone(const std::string& name) {
  if (name == "deit_small") return {.name = name, .dims = {384}, .depths = {12}, .heads = {6}};
  if (name == "pvt_small")
    return {.name = name, .dims = {64, 128, 320, 512}, .depths = {3, 4, 6, 3}, .heads = {1, 2, 5, 8}};
  return {.name = name, .dims = {64}, .depths = {3, 4, 6, 3}};
}

Value backbone_tokens(Layers& net, const DetrBackbone& s, Value image, Value valid) {
  if (s.name == "deit_small") return deit_tokens(net, s, image, valid);
  return s.name == "pvt_small" ? pvt_tokens(net, s, image) : resnet_tokens(net, s, image);
}

}  // namespace rewire::models
