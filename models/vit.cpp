// timm's vision transformer (timm.models.vision_transformer), with its blocks, parameter names, layouts,
// initialisation and options. The networks of DeiT (Touvron et al., ICML 2021) are settings of it.
#include "models/model.h"
#include "models/parameters.h"
#include "models/vision_transformer.h"

namespace rewire::models {

extern const Family kVit;

namespace {

void build_vit(Layers& net, const ir::Attributes& options, std::int64_t batch) {
  const auto count = [&](std::string_view name) { return options.get_int(name); };
  const auto number = [&](std::string_view name) { return options.get_double(name); };
  const auto holds = [&](std::string_view name) { return options.get_bool(name); };
  const bool averages = options.get_string("pool") == "avg";
  const std::string& class_token = options.get_string("class_token");
  const bool affine = holds("norm_affine");
  build_vision_transformer(net,
                           {.image = count("image"),
                            .channels = count("channels"),
                            .patch = count("patch"),
                            .dim = count("dim"),
                            .depth = count("depth"),
                            .heads = count("heads"),
                            .mlp_ratio = number("mlp_ratio"),
                            .classes = count("classes"),
                            .class_token = class_token == "auto" ? !averages : class_token == "true",
                            .distilled = holds("distilled"),
                            .reg_tokens = count("reg_tokens"),
                            .no_embed_class = holds("no_embed_class"),
                            .pre_norm = holds("pre_norm"),
                            .averages = averages,
                            .fc_norm = holds("fc_norm"),
                            .qkv_bias = holds("qkv_bias"),
                            .act_layer = options.get_string("act_layer"),
                            .init_values = number("init_values"),
                            .norm_epsilon = number("norm_eps"),
                            .head_std = number("head_std"),
                            .block_norms_affine = affine,
                            .outer_norms_affine = affine,
                            .drop_path = number("drop_path"),
                            .dropout = number("dropout")},
                           batch);
}

ir::Attributes vit(std::int64_t dim, std::int64_t depth, std::int64_t heads, std::int64_t patch,
                   std::int64_t image, std::int64_t channels, std::int64_t classes) {
  return {{"dim", dim},     {"depth", depth},       {"heads", heads},    {"patch", patch},
          {"image", image}, {"channels", channels}, {"classes", classes}};
}

}  // namespace

// The bounds keep every product of extents far from overflow. No real network of this kind comes near them.
const Family kVit{
    .name = "vit",
    .doc = "the pre-norm vision transformer, as timm builds it",
    .schema =
        {dim_parameter(192),
         depth_parameter(12),
         heads_parameter(3),
         mlp_ratio_parameter(4),
         patch_parameter(4),
         image_parameter(28),
         channels_parameter(1),
         classes_parameter(),
         ir::enum_parameter("pool", {"token", "avg"},
                            "input of the head; token: the class token; avg: the mean of the patch tokens"),
         ir::enum_parameter("class_token", {"auto", "true", "false"},
                            "whether the model has a class token; true, false; auto: if pool=token"),
         ir::bool_parameter(
             "distilled", false,
             "add DeiT's distillation token with a head of its own; the logits are the mean of both heads"),
         ir::int_parameter("reg_tokens", 0,
                           "number of register tokens after the class token; no head reads them")
             .at_least(0)
             .at_most(4096),
         ir::bool_parameter("no_embed_class", false,
                            "add position embeddings to patch tokens only, not to class token and registers"),
         ir::bool_parameter(
             "pre_norm", false,
             "apply a norm before the blocks (norm_pre) and leave out the bias of the patch embedding"),
         ir::bool_parameter("fc_norm", false, "apply the last norm after pooling, under the name fc_norm"),
         ir::bool_parameter("norm_affine", true, "give layer norms a weight and a bias"),
         ir::float_parameter("norm_eps", 1e-6, "epsilon that layer norms add to the variance")
             .above(0)
             .below(1),
         ir::bool_parameter("qkv_bias", true, "give the projections to queries, keys and values a bias"),
         ir::float_parameter("init_values", 0,
                             "LayerScale: initial value of ls1.gamma and ls2.gamma; 0: no LayerScale")
             .at_least(0),
         ir::enum_parameter("act_layer", {"gelu", "gelu_tanh", "quick_gelu"},
                            "activation of the MLP; gelu: exact, by erf; gelu_tanh: approximation by tanh; "
                            "quick_gelu: approximation by a sigmoid"),
         ir::float_parameter("head_std", 0.02, "standard deviation of the head's initial weight").above(0),
         drop_path_parameter(),
         ir::float_parameter(
             "dropout", 0, "dropout rate after the position embedding, attn.proj and both layers of the MLP")
             .at_least(0)
             .below(1)},
    .build = build_vit,
    .backbone = {{"classes", 0}},
    .variants = {{"vit_tiny_28", vit(192, 12, 3, 4, 28, 1, 10)},
                 {"vit_s_cifar", vit(384, 6, 6, 4, 32, 3, 10)},
                 {"vit_s16_224", vit(384, 12, 6, 16, 224, 3, 1000)},
                 {"vit_b16_224", vit(768, 12, 12, 16, 224, 3, 1000)},
                 {"deit_tiny", vit(192, 12, 3, 16, 224, 3, 1000)},
                 {"deit_small", vit(384, 12, 6, 16, 224, 3, 1000)},
                 {"deit_base", vit(768, 12, 12, 16, 224, 3, 1000)}}};

}  // namespace rewire::models
