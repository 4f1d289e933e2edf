// Convolutional networks, plain and with strategies on their joins, against PyTorch in float64: logits of evaluation
// by running statistics and of training by the batch's, gradients, twenty steps of SGD with Nesterov's momentum,
// clipping and decay, and running statistics after three of them.
#include <string>

#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

std::string convnet() {
  const std::string model =
      GENERATE(as<std::string>{}, "resnetv2_basic", "resnetv2_neck", "resnetv2_large", "resnetv2_large_neck",
               "resnetv2_timm", "resnetv2_timm_basic", "resnet_post", "resnet_small");
  const std::string option = GENERATE(as<std::string>{}, "plain", "orthogonal", "orthogonal_global", "decay",
                                      "decay_learnable", "augment");
  return model + "_" + option;
}

std::string without_shortcuts() {
  return GENERATE(as<std::string>{}, "resnetv2_basic", "resnetv2_neck", "resnet_post", "resnet_small") +
         "_skipless";
}

TEST_CASE("A convolutional network computes and learns as in PyTorch, with strategies on its joins") {
  check_both_in_slice(convnet());
}

TEST_CASE("A convolutional network without shortcuts computes and learns as in PyTorch") {
  check_both_in_slice(without_shortcuts());
}

}  // namespace
}  // namespace rewire::parity
