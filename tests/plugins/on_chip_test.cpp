// No kernel of any strategy keeps more on chip than a GPU's block has. Small networks are the hard ones: all
// of their rows and channels may be one kernel's lanes.
#include "codegen/cuda/emit.h"
#include "ir/passes/pass.h"
#include "models/model.h"
#include "programs/programs.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

TEST_CASE("Every kernel of a small network's step fits every GPU") {
  for (const std::string plugin :
       {"attnres", "augment", "denseformer", "denseformer:dynamic=true", "hyper", "hyper:kind=mhc",
        "hyper:kind=mhc_lite", "hyper:kind=static", "laurel:previous=3", "orthogonal", "postnorm:kind=keel",
        "postnorm:kind=peri", "x0_lambdas:backout=true"}) {
    for (const std::int64_t batch : {2, 3}) {
      ir::Selection options = ir::Selection{"vit_tiny_28"};
      options.set("dim", 48);
      options.set("depth", 2);
      ir::Module module = rewritten(models::build(options, batch), {plugin});
      programs::add_step_program(module, {});
      std::erase_if(module.functions, [](const ir::Function& function) { return function.name != "step"; });
      for (const int arch : {80, 89, 90}) {
        CAPTURE(plugin, batch, arch);
        const codegen::cuda::DeviceTarget target = codegen::cuda::device_target(arch);
        ir::PassContext context;
        const codegen::Program program =
            codegen::compile(module, module.function("step"), codegen::cuda::machine(target), context)
                .program;
        for (const codegen::Launch& launch : program.launches) {
          const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
          if (kernel == nullptr) continue;
          const auto source = codegen::cuda::emit(*kernel, "k", target);
          CHECK(source.launch.shared_bytes <= target.shared_bytes_per_block);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewire::test
