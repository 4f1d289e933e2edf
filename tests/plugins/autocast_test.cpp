// Strategies in mixed precision: as close to float64 as the same network under PyTorch's bf16 autocast.
#include "tests/parity/autocast.h"
#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A strategy in bf16 errs no more than under PyTorch's autocast", "[whole]") {
  const std::string name = GENERATE(as<std::string>{}, "vit_token_orthogonal_feature",
                                    "vit_avg_orthogonal_global", "vit_slim_decay", "vit_odd_decay_learnable",
                                    "vit_slim_decay_branch", "vit_slim_augment", "vit_odd_augment_dense",
                                    "vit_slim_augment_stream", "vit_slim_skipless", "vit_odd_skipless_attn");
  check_against_autocast(name, rewriting_evaluator(read_golden(name)).rewrite);
}

}  // namespace
}  // namespace rewire::parity
