#include "runtime/data/vision/presets.h"

#include "ir/registry.h"

namespace rewire::runtime {
namespace {

const ir::Doubles kImageNetMean = {0.485, 0.456, 0.406}, kImageNetStd = {0.229, 0.224, 0.225};

/// Random resized crops and flips at ImageNet's normalisation.
ir::Attributes crops(double least_share, double greatest_share = 1) {
  return {{"resize", "bicubic"},
          {"scale", ir::Doubles{least_share, greatest_share}},
          {"horizontal_flip", true},
          {"mean", kImageNetMean},
          {"std", kImageNetStd}};
}

/// Touvron et al., ICML 2021, table 9, except repeated augmentation, which is data.aug_repeats.
ir::Attributes deit() {
  return overlay(crops(0.08), {{"crop_pct", 0.875},
                               {"rand_augment", "timm"},
                               {"rand_augment_magnitude", 9.0},
                               {"rand_augment_mstd", 0.5},
                               {"rand_augment_fill", ir::Doubles{124, 116, 104}},
                               {"erase_prob", 0.25},
                               {"erase_mode", "pixel"},
                               {"mixup", 0.8},
                               {"cutmix", 1.0}});
}

/// He et al., CVPR 2016, section 4.2.
ir::Attributes cifar_crop() {
  return {{"crop_padding", std::int64_t{4}},
          {"crop_fill", "zero"},
          {"horizontal_flip", true},
          {"mean", ir::Doubles{0.4914, 0.4822, 0.4465}},
          {"std", ir::Doubles{0.2470, 0.2435, 0.2616}}};
}

/// Caron et al., ICCV 2021, with BYOL's colours: the transforms of the image itself, and of its views.
ir::Attributes dino() {
  return overlay(crops(0.4), {{"color_jitter", ir::Doubles{0.4, 0.4, 0.2, 0.1}},
                              {"color_jitter_prob", 0.8},
                              {"grayscale_prob", 0.2},
                              {"blur_sigma", ir::Doubles{0.1, 2}}});
}

const TransformPreset kNone{"none", "no values", {}};
const TransformPreset kDeit{"deit", "supervised training of vision transformers on ImageNet (DeiT)", deit()};
const TransformPreset kCifarCrop{
    "cifar_crop", "crops of images padded by 4 pixels, and flips, with CIFAR-10's statistics", cifar_crop()};
const TransformPreset kDino{"dino",
                            "two views of large parts of the image and eight of small ones (DINO)",
                            dino(),
                            {{"global1", 1, 0, {{"blur_prob", 1.0}}},
                             {"global2", 1, 0, {{"blur_prob", 0.1}, {"solarize_prob", 0.2}}},
                             {"local", 8, 96, {{"scale", ir::Doubles{0.05, 0.4}}, {"blur_prob", 0.5}}}}};
const TransformPreset kMae{"mae", "only crops and flips (masked autoencoders)", crops(0.2)};

}  // namespace

std::span<const TransformPreset* const> transform_presets() {
  static const TransformPreset* const kRows[] = {&kNone, &kDeit, &kCifarCrop, &kDino, &kMae};
  return kRows;
}

const TransformPreset& find_preset(std::string_view name) {
  return ir::find_row(transform_presets(), "transforms.preset", name);
}

ir::Attributes overlay(ir::Attributes base, const ir::Attributes& values) {
  for (const auto& [name, value] : values) base.set(name, value);
  return base;
}

}  // namespace rewire::runtime
