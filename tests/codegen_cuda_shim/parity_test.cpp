// Whole training steps as CUDA text on the fake device, against PyTorch in float64.
#include "tests/parity/parity.h"
#include "codegen/cuda/emit.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

TEST_CASE("A ViT as CUDA text computes PyTorch's logits, loss and gradients, and follows its AdamW and SGD") {
  cuda_shim::HostCompiler compiler(cuda_shim::kernel_folder(), codegen::cuda::prelude());
  const Backend device{
      [&](const ir::Module& module) { return make_device_engine(module, compiler); }, ir::DType::f32, {}};
  for (const char* name : {"vit_token_plain", "vit_avg_plain", "vit_registers_plain", "vit_oru_plain",
                           "gpt2_odd", "llama_groups"})
    check_gradients(read_golden(name), device, kSingle);
  check_run(read_golden("vit_token_plain"), "adamw", device, kSingle);
  for (const char* run : {"adamw", "sgd", "nesterov", "multistep"})
    check_run(read_golden("vit_avg_plain"), run, device, kSingle);
}

}  // namespace
}  // namespace rewire::parity
