// Every option of augment against the same network in PyTorch, whose circulants are products of Fourier
// transforms: logits, loss, every gradient, twenty steps of AdamW and SGD; in f64 by the evaluator, in f32 compiled
// with every lowering.
#include <string>

#include "ir/opcodes.h"
#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

/// The compiling engine with one way to compute circulant products.
Backend compiled(const Golden& golden, const std::string& lowering) {
  Backend backend = compiled(golden);
  backend.rewrite = [rewrite = backend.rewrite, lowering](ir::Module& module) {
    rewrite(module);
    for (ir::Op& op : module.function("forward").body) {
      if (op.code == ir::Opcode::circulant_matmul) op.attributes.set("lowering", lowering);
    }
  };
  return backend;
}

TEST_CASE("A ViT with the augment plugin computes and learns as in PyTorch, with every option", "[whole]") {
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const std::string option = GENERATE(as<std::string>{}, "augment", "augment_one_block", "augment_corr",
                                      "augment_stream", "augment_act_circ", "augment_circ", "augment_act",
                                      "augment_dense", "augment_dense_act_circ", "augment_none");
  const Golden golden = read_golden("vit_" + model + "_" + option);
  CAPTURE(golden.name);
  check_both(golden);
}

TEST_CASE("Every lowering of the circulants computes what PyTorch does") {
  const std::string option = GENERATE(as<std::string>{}, "augment", "augment_one_block", "augment_circ");
  const std::string model = GENERATE(as<std::string>{}, "slim", "odd");
  const Golden golden = read_golden("vit_" + model + "_" + option);
  const bool one_block = option == "augment_one_block";
  for (const char* lowering : {"dense", "split2", "split4", "split8", "fft"}) {
    if (model == "odd" && std::string_view(lowering).starts_with("split")) continue;  // odd lags
    if (!one_block && std::string_view(lowering) == "split8") continue;  // 4 lags; one block has 16
    CAPTURE(golden.name, lowering);
    check_gradients(golden, compiled(golden, lowering), kSingle);
  }
}

}  // namespace
}  // namespace rewire::parity
