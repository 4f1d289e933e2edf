// Mixed precision as CUDA text on the fake device: forward and every gradient of a ViT, against the
// evaluator, within what rounding to bf16 costs there (runtime/verify/engine_check.h).
#include "ir/passes/mixed_precision.h"
#include "codegen/cuda/emit.h"
#include "ir/verify.h"
#include "models/model.h"
#include "models/trial.h"
#include "programs/programs.h"
#include "runtime/network/weights.h"
#include "runtime/verify/engine_check.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/support/catch.h"
#include "tests/support/random_casts.h"

using namespace rewire;

namespace {

ir::Selection small_vit(const std::string& pool, std::int64_t dim, std::int64_t heads) {
  ir::Selection options{"vit"};
  options.set("image", 9).set("patch", 3).set("channels", 3).set("classes", 7);
  options.set("dim", dim).set("heads", heads).set("depth", 2);
  options.set("mlp_ratio", 1.4);
  options.set("pool", pool);
  options.set("drop_path", 0.2).set("dropout", 0.1);
  return options;
}

}  // namespace

TEST_CASE("A ViT in bf16, as CUDA text, computes what the evaluator does, with either stream") {
  cuda_shim::HostCompiler compiler(cuda_shim::kernel_folder(), codegen::cuda::prelude());
  for (const ir::DType stream : {ir::DType::f32, ir::DType::bf16}) {
    for (const ir::Selection& options : {small_vit("token", 21, 3), small_vit("avg", 32, 1)}) {
      ir::Module module = models::build(options, 3);
      ir::mixed_precision(module, module.function("forward"), {stream});
      programs::add_grad_program(module, {});
      ir::verify(module);
      const runtime::TensorMap weights = runtime::fresh_weights(module, {}, 5);
      const auto device = cuda_shim::make_device_engine(module, compiler);
      const auto evaluator = runtime::make_evaluator_engine(module);
      const runtime::EngineCheck check = runtime::check_engine(*device, *evaluator, module, weights, 5);
      for (const runtime::EngineCheckRow& row : check.rows) {
        CAPTURE(ir::dtype_name(stream), options.values.get_string("pool"), row.worst, row.error,
                row.tolerance);
        CHECK(row.passed());
        CHECK(row.error < 0.1);
      }
    }
  }
}

TEST_CASE("Networks with casts at random places, as CUDA text, compute what the evaluator does") {
  cuda_shim::HostCompiler compiler(cuda_shim::kernel_folder(), codegen::cuda::prelude());
  std::uint64_t seed = 1;
  for (const models::TrialNetwork& network : models::trial_networks()) {
    for (int i = 0; i < 3; ++i, ++seed) {
      CAPTURE(network.name, seed);
      ir::Module module = network.module;
      testing::cast_at_random(module, seed);
      programs::add_grad_program(module, {});
      const auto device = cuda_shim::make_device_engine(module, compiler);
      const auto evaluator = runtime::make_evaluator_engine(module);
      for (const runtime::EngineCheckRow& row :
           runtime::check_engine(*device, *evaluator, module, {}, seed).rows) {
        CAPTURE(row.what, row.worst, row.error, row.tolerance, row.bound);
        CHECK(row.passed());
      }
    }
  }
}
