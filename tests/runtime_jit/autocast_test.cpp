// The compiled network in mixed precision is as close to float64 as PyTorch's bf16 autocast.
#include "tests/parity/autocast.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT in bf16 errs no more than under PyTorch's autocast") {
  for (const char* name : {"vit_token_plain", "vit_avg_plain", "vit_slim_tanh_plain"})
    check_against_autocast(name, {});
}

TEST_CASE("A convolutional network in bf16 errs no more than under PyTorch's autocast") {
  for (const char* name : {"resnetv2_basic_plain", "resnetv2_timm_plain"}) check_against_autocast(name, {});
}

}  // namespace
}  // namespace rewire::parity
