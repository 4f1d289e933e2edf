// Kernels at the widths that models have: a block of each zoo model, its results and gradients as CUDA text
// against the CPU's compiling engine. The smaller models of the other tests never fill a block's threads.
#include <cstdint>
#include <string>

#include "codegen/cuda/emit.h"
#include "models/model.h"
#include "programs/objective.h"
#include "programs/programs.h"
#include "runtime/verify/engine_check.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/parity/mean_squares.h"
#include "tests/support/catch.h"
#include "tests/support/slice.h"

namespace rewire::cuda_shim {
namespace {

/// The model with one block, or one a stage, and as small an image as keeps it quick.
ir::Selection one_block(const std::string& name) {
  ir::Selection options{name};
  const ir::Attributes whole = models::options_of(options);
  options.set("dropout", 0.1).set("drop_path", 0.1);
  if (whole.has("backbone")) {
    const std::size_t stages = whole.get_string("backbone") == "deit_small" ? 1 : 4;
    options.set("backbone_depths", ir::Doubles(stages, 1)).set("encoder_depth", 1).set("decoder_depth", 1);
    options.set("image_height", 32).set("image_width", 64);
  } else if (whole.has("depths")) {
    options.set("depths", ir::Doubles(whole.get<ir::Doubles>("depths").size(), 1));
  } else {
    options.set("depth", 1).set("decoder_depth", 1);
  }
  // Products in double precision take their time.
  if (whole.has("out_dim")) options.set("hidden_dim", 24).set("bottleneck_dim", 16).set("out_dim", 40);
  if (whole.has("context")) {
    options.set("context", 40).set("vocab", 61).set("dropout", 0.1);
    if (whole.get_int("dim") > 768) options.set("dim", 16 * whole.get_int("heads"));
    if (whole.has("mlp_hidden"))
      options.set("mlp_hidden", std::min<std::int64_t>(whole.get_int("mlp_hidden"), 300));
  } else if (whole.has("width")) {
    options.set("image", 32).set("width", 8);
  } else if (!whole.has("patch")) {
    options.set("image", 32);
  } else if (whole.get_int("dim") > 384) {
    const std::int64_t patch = whole.get_int("patch") > 0 ? whole.get_int("patch") : 4;  // 0: by the image
    options.set("image", 4 * patch).set("patch", patch);
  }
  return options;
}

TEST_CASE("a block of every zoo model as CUDA text agrees with the CPU's engine") {
  HostCompiler compiler(kernel_folder(), codegen::cuda::prelude());
  std::uint64_t number = 0;
  for (const models::Model* model : models::models()) {
    if (model->values.empty()) continue;  // the family
    if (!testing::slice().takes(number++)) continue;
    const std::string& name = model->name;
    const ir::Selection options = one_block(name);
    programs::TrainOptions training;
    training.objective = {std::string(model->family->objective)};
    if (model->family->name == "detr") training.objective = parity::mean_squares();  // boxes need labels
    if (training.objective.name == "dino") training.objective.set("local_crops", std::int64_t{0});
    const ir::Attributes settled = models::options_of(options);
    const std::int64_t batch = settled.has("image") && settled.get_int("image") > 32 ? 1 : 2,
                       images = programs::make_objective(training.objective)->forms().front().images;
    ir::Module module = models::build(options, batch * images);
    programs::add_grad_program(module, training);
    const auto device = make_device_engine(module, compiler);
    const auto cpu = runtime::make_jit_engine(module);
    for (const runtime::EngineCheckRow& row : runtime::check_engine(*device, *cpu, module, {}, 5).rows) {
      INFO(name << ": " << row.what << ", worst " << row.worst << ", error " << row.error);
      CHECK(row.passed());
    }
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
