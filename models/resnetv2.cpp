// Pre-activation residual networks (He et al., ECCV 2016) in two forms:
//
//   paper   as the authors of the orthogonal residual update train them. Stem: convolution, norm, ReLU. A
//           block's shortcut is x itself, or a 1 x 1 convolution of x. A bottleneck's first convolution has
//           the stride. Convolutions have biases. After the last block comes the mean of each map, without
//           norm or ReLU.
//   timm    timm's resnetv2 with batch norms. Stem: one convolution. A projection reads norm1's output, like
//           the branch. A bottleneck's 3 x 3 convolution has the stride. There are no biases. Norm and ReLU
//           follow the last block.
//
//   branch(x) = conv2(relu(norm2(conv1(relu(norm1(x))))))     a bottleneck: 1 x 1, 3 x 3, 1 x 1
#include <fmt/format.h>

#include <cmath>

#include "ir/error.h"
#include "models/model.h"
#include "models/parameters.h"

namespace rewire::models {

extern const Family kResNetV2;

namespace {

using ir::Builder;
using ir::Value;

constexpr std::int64_t kExpansion = 4;    // of a bottleneck
constexpr std::int64_t kLargeImage = 96;  // from this side on, the stem `auto` has a pool

struct ResNetV2Form {
  bool timm = false, bottleneck = false, pooled_stem = false;
  std::int64_t width = 64;
  std::vector<std::int64_t> depths;
  ConvInit init = ConvInit::standard;
  double drop_path = 0;

  std::int64_t outputs(std::size_t stage) const { return (width << stage) * (bottleneck ? kExpansion : 1); }
  std::int64_t blocks() const {
    std::int64_t sum = 0;
    for (const std::int64_t depth : depths) sum += depth;
    return sum;
  }
  /// Returns how many pixels per side of the image become one pixel of the last stage.
  std::int64_t stride() const { return (pooled_stem ? 4 : 1) << (depths.size() - 1); }
  ConvOptions conv(std::int64_t kernel, std::int64_t stride = 1, std::string_view role = "") const {
    return {.kernel = kernel, .stride = stride, .bias = !timm, .init = init, .role = role};
  }
};

ConvInit conv_init(const std::string& name, bool timm) {
  if (name == "auto") return timm ? ConvInit::kaiming : ConvInit::standard;
  if (name == "kaiming") return ConvInit::kaiming;
  if (name == "xavier") return ConvInit::xavier;
  if (name == "trunc_normal") return ConvInit::trunc_normal;
  return name == "orthogonal" ? ConvInit::orthogonal : ConvInit::standard;
}

ResNetV2Form form_of(const ir::Attributes& options) {
  ResNetV2Form form;
  form.timm = options.get_string("form") == "timm";
  form.bottleneck = options.get_string("block") == "bottleneck";
  form.width = options.get_int("width");
  form.init = conv_init(options.get_string("init"), form.timm);
  form.drop_path = options.get_double("drop_path");
  const std::int64_t image = options.get_int("image");
  const std::string& stem = options.get_string("stem");
  form.pooled_stem = stem == "conv7_pool" || (stem == "auto" && (form.timm || image >= kLargeImage));
  if (form.timm && options.get_bool("head_norm"))
    user_error("model.head_norm=true needs model.form=paper: timm's form has a norm before the pool");
  form.depths = stage_depths(options, 8);
  check_image_side(image, form.stride(), form.pooled_stem ? "model.stem=conv3" : "");
  return form;
}

Value stem(Layers& net, const ResNetV2Form& form, Value image) {
  const Builder::Scope scope(net.builder(), "stem");
  Value x = net.conv("conv", image, form.width,
                     form.pooled_stem ? form.conv(7, 2, "stem") : form.conv(3, 1, "stem"));
  if (!form.timm) x = net.relu("act", net.batch_norm("norm", x));
  return form.pooled_stem ? net.max_pool("pool", x, 3, 2, 1) : x;
}

struct ResNetV2Block {
  std::int64_t width = 0, outputs = 0, stride = 1;
  bool projects = false;
};

Value block(Layers& net, const ResNetV2Form& form, const ResNetV2Block& shape, double drop_path, Value x) {
  const auto activated = [&](std::string_view norm, Value z) {
    return net.relu("act", net.batch_norm(norm, z));
  };
  const Layer input = [&](Value z) { return activated("norm1", z); };
  const Layer basic = [&](Value z) {
    z = net.conv("conv1", z, shape.width, form.conv(3, shape.stride));
    return net.conv("conv2", activated("norm2", z), shape.outputs, form.conv(3));
  };
  const Layer bottleneck = [&](Value z) {
    z = net.conv("conv1", z, shape.width, form.conv(1, form.timm ? 1 : shape.stride));
    z = net.conv("conv2", activated("norm2", z), shape.width, form.conv(3, form.timm ? shape.stride : 1));
    return net.conv("conv3", activated("norm3", z), shape.outputs, form.conv(1));
  };
  JoinOptions join = {.last = form.bottleneck ? "conv3" : "conv2",
                      .drop_path = drop_path,
                      .token_axis = 2,
                      .channel_axis = 1,
                      .branch_in_site = false};
  if (shape.projects) {
    join.shortcut = [&](Value z, Value activated_z) {
      const Builder::Scope scope(net.builder(), "downsample");
      return net.conv("conv", form.timm ? activated_z : z, shape.outputs,
                      form.conv(1, shape.stride, "downsample"));
    };
  }
  return net.join("conv", x, input, form.bottleneck ? bottleneck : basic, join);
}

void classify_maps(Layers& net, const ir::Attributes& options, const ResNetV2Form& form, Value x) {
  if (form.timm) x = net.relu("act", net.batch_norm("norm", x));
  x = net.global_average(x);
  const Builder::Scope scope(net.builder(), "head");
  if (options.get_bool("head_norm")) x = net.layer_norm("norm", x, {.epsilon = 1e-5});
  net.classify(x, options.get_int("classes"), [&](Value z, std::int64_t classes) {
    if (!form.timm) return net.linear("fc", z, classes, {.role = "head", .start = LinearInit::pytorch});
    Builder& b = net.builder();  // timm has a 1 x 1 convolution of one pixel here
    const Builder::Scope fc(b, "fc");
    const std::int64_t width = b.shape(z).back();
    const Value weight =
        net.parameter("weight", {classes, width, 1, 1}, {ir::InitKind::normal, 0.01}, "head");
    const Value bias = net.parameter("bias", {classes}, {ir::InitKind::zeros}, "head");
    return b.linear(z, b.reshape(weight, {classes, width}), bias);
  });
}

void build_resnetv2(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const ResNetV2Form form = form_of(options);
  const std::int64_t size = options.get_int("image");
  Builder& b = net.builder();
  Value x = stem(net, form,
                 b.argument("image", {ir::DType::f32, {batch, options.get_int("channels"), size, size}}));
  std::int64_t index = 0;
  for (std::size_t stage = 0; stage < form.depths.size(); ++stage) {
    const Builder::Scope scope(b, fmt::format("stages.{}", stage));
    for (std::int64_t i = 0; i < form.depths[stage]; ++i) {
      const Layers::Block place(net, fmt::format("blocks.{}", i), "encoder",
                                static_cast<std::int64_t>(stage));
      ResNetV2Block shape{form.width << stage, form.outputs(stage), stage > 0 && i == 0 ? 2 : 1};
      shape.projects = shape.stride != 1 || b.shape(x).at(1) != shape.outputs;
      x = block(net, form, shape, drop_path_rate(form.drop_path, index++, form.blocks()), x);
    }
  }
  classify_maps(net, options, form, x);
}

ir::Attributes resnetv2(const char* block, ir::Doubles depths) {
  return {{"block", std::string(block)}, {"depths", std::move(depths)}};
}

}  // namespace

const Family kResNetV2{
    .name = "resnetv2",
    .doc = "the pre-activation residual network, in the orthogonal paper's form or timm's",
    .schema =
        {ir::enum_parameter("form", {"paper", "timm"},
                            "whose network; paper: the orthogonal paper's, with biases, projections of x and "
                            "no norm after the last block; timm: timm's"),
         ir::enum_parameter(
             "block", {"basic", "bottleneck"},
             "layers of a branch; basic: two 3 x 3 convolutions; bottleneck: 1 x 1, 3 x 3, 1 x 1"),
         stage_depths_parameter(), stage_width_parameter(),
         ir::enum_parameter("stem", {"auto", "conv3", "conv7_pool"},
                            "first layers; conv3: a 3 x 3 convolution; conv7_pool: a 7 x 7 convolution of "
                            "stride 2 and a pool; auto: by image and form"),
         ir::bool_parameter("head_norm", false, "apply a layer norm between the pool and the classifier"),
         ir::enum_parameter("init", {"auto", "standard", "kaiming", "xavier", "orthogonal", "trunc_normal"},
                            "initial weights of convolutions; standard: PyTorch's default; kaiming, xavier, "
                            "orthogonal: the distributions of these names; trunc_normal: standard deviation "
                            "0.02; auto: standard, with form=timm kaiming"),
         image_parameter(32), channels_parameter(3), classes_parameter(), drop_path_parameter()},
    .build = build_resnetv2,
    .backbone = {{"classes", 0}},
    .variants = {{"resnetv2_18", resnetv2("basic", {2, 2, 2, 2})},
                 {"resnetv2_34", resnetv2("basic", {3, 4, 6, 3})},
                 {"resnetv2_50", resnetv2("bottleneck", {3, 4, 6, 3})},
                 {"resnetv2_101", resnetv2("bottleneck", {3, 4, 23, 3})}}};

}  // namespace rewire::models
