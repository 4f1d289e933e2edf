// The post-activation residual network of basic blocks (He et al., CVPR 2016), with torchvision's names:
//
//   y = relu(shortcut(x) + bn2(conv2(relu(bn1(conv1(x))))))     shortcut: x, or bn(1 x 1 conv(x))
//
// The join comes before a block's last ReLU. resnet18_depth is the network of the paper on decayed
// shortcuts; its third stage has more blocks.
#include <fmt/format.h>

#include <cmath>

#include "ir/error.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kResNet;

namespace {

using ir::Builder;
using ir::Value;

constexpr std::size_t kMostStages = 8;

struct ResNetForm {
  std::int64_t width = 64;
  std::vector<std::int64_t> depths;
  bool pooled_stem = true;
  double last_gamma = 1, drop_path = 0;

  std::int64_t stride() const { return (pooled_stem ? 4 : 1) << (depths.size() - 1); }
};

ResNetForm resnet_form(const ir::Attributes& options) {
  ResNetForm form;
  form.width = options.get_int("width");
  form.pooled_stem = options.get_string("stem") == "conv7_pool";
  form.last_gamma = options.get_bool("zero_init_last") ? 0 : 1;
  form.drop_path = options.get_double("drop_path");
  form.depths = stage_depths(options, kMostStages);
  check_image_side(options.get_int("image"), form.stride(), form.pooled_stem ? "model.stem=conv3" : "");
  return form;
}

/// Returns the options of a convolution that starts as torchvision's.
ConvOptions resnet_conv(std::int64_t kernel, std::int64_t stride) {
  return {.kernel = kernel, .stride = stride, .bias = false, .init = ConvInit::kaiming};
}

Value post_activation_block(Layers& net, const ResNetForm& form, std::int64_t width, std::int64_t stride,
                            double drop_path, Value x) {
  JoinOptions join = {
      .last = "bn2", .drop_path = drop_path, .token_axis = 2, .channel_axis = 1, .branch_in_site = false};
  if (stride != 1 || net.builder().shape(x).at(1) != width) {
    join.shortcut = [&](Value z, Value) {
      const Builder::Scope scope(net.builder(), "downsample");
      return net.batch_norm("1", net.conv("0", z, width, resnet_conv(1, stride)));
    };
  }
  x = net.join(
      "conv", x, [](Value z) { return z; },
      [&](Value z) {
        z = net.relu("act1", net.batch_norm("bn1", net.conv("conv1", z, width, resnet_conv(3, stride))));
        return net.batch_norm("bn2", net.conv("conv2", z, width, resnet_conv(3, 1)), form.last_gamma);
      },
      join);
  return net.relu("act2", x);
}

void build_resnet(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const ResNetForm form = resnet_form(options);
  const std::int64_t size = options.get_int("image");
  Builder& b = net.builder();
  Value x = b.argument("image", {ir::DType::f32, {batch, options.get_int("channels"), size, size}});
  x = net.conv("conv1", x, form.width, form.pooled_stem ? resnet_conv(7, 2) : resnet_conv(3, 1));
  x = net.relu("act1", net.batch_norm("bn1", x));
  if (form.pooled_stem) x = net.max_pool("maxpool", x, 3, 2, 1);
  std::int64_t blocks = 0, index = 0;
  for (const std::int64_t depth : form.depths) blocks += depth;
  for (std::size_t stage = 0; stage < form.depths.size(); ++stage) {
    for (std::int64_t i = 0; i < form.depths[stage]; ++i) {
      const Layers::Block place(net, fmt::format("layer{}.{}", stage + 1, i), "encoder",
                                static_cast<std::int64_t>(stage));
      x = post_activation_block(net, form, form.width << stage, stage > 0 && i == 0 ? 2 : 1,
                                drop_path_rate(form.drop_path, index++, blocks), x);
    }
  }
  net.classify(net.global_average(x), options.get_int("classes"), [&](Value z, std::int64_t classes) {
    return net.linear("fc", z, classes, {.role = "head", .start = LinearInit::pytorch});
  });
}

}  // namespace

const Family kResNet{
    .name = "resnet",
    .doc = "the post-activation residual network of basic blocks, as torchvision builds it",
    .schema = {stage_depths_parameter(), stage_width_parameter(),
               ir::enum_parameter(
                   "stem", {"conv7_pool", "conv3"},
                   "first layers; conv7_pool: a 7 x 7 convolution of stride 2 and a pool; conv3: a "
                   "3 x 3 convolution"),
               ir::bool_parameter("zero_init_last", false,
                                  "initialise the weights of each branch's last norm with 0"),
               image_parameter(224), channels_parameter(3), classes_parameter(), drop_path_parameter()},
    .build = build_resnet,
    .backbone = {{"classes", 0}},
    .variants = {{"resnet18", {{"depths", ir::Doubles{2, 2, 2, 2}}}},
                 {"resnet18_depth", {{"depths", ir::Doubles{2, 2, 6, 2}}}}}};

}  // namespace rewire::models
