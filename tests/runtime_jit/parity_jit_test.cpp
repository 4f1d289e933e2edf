// The compiling engine against PyTorch in float64, at the tolerances f32 is held to.
#include "tests/parity/parity.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

Backend jit(bool fuse) {
  return {[fuse](const ir::Module& module) -> std::unique_ptr<runtime::Engine> {
            runtime::JitEngineOptions options;
            options.threads = 2;
            options.fuse = fuse;
            options.check_memory = true;
            return runtime::make_jit_engine(module, options);
          },
          ir::DType::f32,
          {}};
}

TEST_CASE("The compiled ViT computes PyTorch's logits, loss and gradients") {
  for (bool fuse : {true, false}) {
    for (const char* name :
         {"vit_token_plain", "vit_avg_plain", "vit_slim_tanh_plain", "vit_odd_tanh_plain",
          "vit_registers_plain", "vit_prefix_plain", "vit_clip_plain", "vit_bare_plain", "vit_oru_plain",
          "gpt2_odd", "gpt2_long", "llama_odd", "llama_groups", "llama_qwen", "gpt2_values", "llama_values"})
      check_gradients(read_golden(name), jit(fuse), kSingle);
  }
}

TEST_CASE("The compiled step follows twenty steps of PyTorch's AdamW and SGD") {
  for (const char* name : {"vit_token_plain", "vit_avg_plain"}) {
    const Golden golden = read_golden(name);
    for (const auto& [run, options] : golden.runs) check_run(golden, run, jit(true), kSingle);
  }
}

}  // namespace
}  // namespace rewire::parity
