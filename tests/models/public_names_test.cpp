// What timm and other public code call the zoo's networks.
#include "models/public_names.h"

#include "ir/error.h"
#include "models/model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::models {
namespace {

TEST_CASE("timm's names, and those of MAE's and DINO's code, lead to the zoo's networks and their options") {
  const std::pair<const char*, const char*> rows[] = {
      {"deit_tiny_patch16_224", "deit_tiny"},
      {"deit_small_patch16_224.fb_in1k", "deit_small"},
      {"deit_base_patch16_384", "deit_base with --set model.image=384"},
      {"deit_tiny_distilled_patch16_224", "deit_tiny with --set model.distilled=true"},
      {"vit_small_patch16_224.augreg_in21k", "vit_s16_224"},
      {"vit_base_patch16_224", "vit_b16_224"},
      {"vit_base_patch32_clip_quickgelu_224",
       "vit_b16_224 with --set model.patch=32 --set model.pre_norm=true --set model.norm_eps=1e-05 --set "
       "model.act_layer=quick_gelu"},
      {"vit_small_patch14_dinov2",
       "vit_s16_224 with --set model.patch=14 --set model.image=518 --set model.init_values=1e-05"},
      {"mae_vit_base_patch16", "mae_vit_b16"},
      {"dino_vits16", "dino_vit_s16"}};
  for (const auto& [theirs, ours] : rows) {
    CAPTURE(theirs);
    CHECK(zoo_network_of(theirs) == ours);
  }
  for (const char* other : {"vit_tiny", "vit_small_patch16_gap_224", "swin_tiny_patch4_window7_224", ""})
    CHECK(zoo_network_of(other).empty());
  CHECK(test::message_of<UserError>([] { find_model("deit_tiny_patch16_224"); }) ==
        "unknown model 'deit_tiny_patch16_224': that network is called deit_tiny here; `rewire models` lists "
        "the zoo");
}

}  // namespace
}  // namespace rewire::models
