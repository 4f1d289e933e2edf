// Every strategy as CUDA text on the fake device, against PyTorch in float64, at the tolerances f32 is held
// to: logits, loss, every gradient, and twenty steps of AdamW where a strategy trains weights of its own.
#include <string>
#include <string_view>

#include "codegen/cuda/emit.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT with any strategy, as CUDA text, computes and learns as in PyTorch") {
  cuda_shim::HostCompiler compiler(cuda_shim::kernel_folder(), codegen::cuda::prelude());
  constexpr std::string_view kAlways = "vit_token_orthogonal_feature";
  for (const std::string name :
       {"vit_slim_decay", "vit_odd_decay", "vit_odd_decay_both", "vit_slim_decay_learnable",
        "vit_token_orthogonal_feature", "vit_avg_orthogonal_global", "vit_odd_orthogonal_tiny",
        "vit_odd_orthogonal_tiny_global", "vit_odd_orthogonal_probability", "vit_slim_augment",
        "vit_odd_augment", "vit_slim_skipless", "vit_odd_skipless", "vit_odd_skipless_attn",
        "vit_slim_decay_augment", "vit_odd_decay_orthogonal", "vit_slim_orthogonal_attn_decay_mlp",
        "vit_odd_skipless_augment"}) {
    if (name != kAlways && !testing::slice().takes(name)) continue;
    const Golden golden = read_golden(name);
    Backend device = rewriting_evaluator(golden);
    device.dtype = ir::DType::f32;
    device.make_engine = [&](const ir::Module& module) {
      return cuda_shim::make_device_engine(module, compiler);
    };
    check_golden(golden, device, kSingle);
  }
}

}  // namespace
}  // namespace rewire::parity
