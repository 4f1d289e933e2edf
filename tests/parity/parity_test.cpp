// The evaluator against PyTorch in float64. In f64 it must agree to rounding; in f32 only its inputs, state
// and results are rounded.
#include "tests/parity/parity.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

Backend evaluator(ir::DType dtype) {
  return {[](const ir::Module& module) { return runtime::make_evaluator_engine(module); }, dtype, {}};
}

TEST_CASE("The evaluator computes PyTorch's logits, loss and gradients of a ViT") {
  for (const char* name : {"vit_token_plain", "vit_avg_plain", "vit_slim_tanh_plain", "vit_odd_tanh_plain"}) {
    check_gradients(read_golden(name), evaluator(ir::DType::f64), kExact);
  }
}

TEST_CASE("The evaluator computes what timm's options of whole networks compute, and follows twenty steps") {
  for (const char* name : {"vit_registers_plain", "vit_prefix_plain", "vit_clip_plain", "vit_bare_plain"})
    check_golden(read_golden(name), evaluator(ir::DType::f64), kExact);
}

TEST_CASE("The evaluator computes the network of the paper on orthogonal updates, and follows twenty steps") {
  const Golden golden = read_golden("vit_oru_plain");
  CHECK(golden.model.name == "oru_vit");
  check_golden(golden, evaluator(ir::DType::f64), kExact);
}

TEST_CASE("The evaluator computes Hugging Face's GPT-2 and Llama, and follows twenty steps") {
  for (const char* name :
       {"gpt2_odd", "gpt2_long", "llama_odd", "llama_groups", "llama_qwen", "gpt2_values", "llama_values"})
    check_golden(read_golden(name), evaluator(ir::DType::f64), kExact);
}

TEST_CASE("The evaluator follows twenty steps of PyTorch's AdamW") {
  for (const char* name : {"vit_token_plain", "vit_avg_plain", "vit_odd_tanh_plain"}) {
    check_run(read_golden(name), "adamw", evaluator(ir::DType::f64), kExact);
  }
}

TEST_CASE("The evaluator follows PyTorch's SGD with momentum, clipping, warm-up, cosine and smoothing") {
  check_run(read_golden("vit_avg_plain"), "sgd", evaluator(ir::DType::f64), kExact);
}

TEST_CASE("The evaluator follows PyTorch's SGD with Nesterov's momentum, clipped or with a multistep rate") {
  check_run(read_golden("vit_token_plain"), "nesterov", evaluator(ir::DType::f64), kExact);
  check_run(read_golden("vit_avg_plain"), "nesterov", evaluator(ir::DType::f64), kExact);
  check_run(read_golden("vit_avg_plain"), "multistep", evaluator(ir::DType::f64), kExact);
}

TEST_CASE("With f32 state the evaluator stays within the bounds that hold for a backend") {
  for (const char* name : {"vit_token_plain", "vit_avg_plain"})
    check_golden(read_golden(name), evaluator(ir::DType::f32), kSingle);
}

}  // namespace
}  // namespace rewire::parity
