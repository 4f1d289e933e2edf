// Images that travel to a GPU as bytes: a quarter of the bytes a step, and the bits of a run that copies floats.
#include <sstream>

#include "models/model.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/weights.h"
#include "runtime/train/run_plan.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

TrainRequest bytes_request(const std::vector<std::string>& settings) {
  TrainRequest request;
  request.recipe = parse_recipe(R"(
[model]
name = "vit_tiny_28"
dim = 12
depth = 1
heads = 2
patch = 7
channels = 3
[data]
format = "synthetic"
count = 24
[transforms]
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
horizontal_flip = true
[train]
batch = 6
[eval]
batch = 20
)",
                                "test.toml", settings);
  request.engine = kCudaEngine;
  request.choices.autotune = false;
  ir::Selection model{"vit"};
  model.set("dim", 12).set("depth", 1).set("heads", 2).set("patch", 7).set("channels", 3);
  request.network.forward = [model](std::int64_t batch) { return models::build(model, batch); };
  return request;
}

/// Bytes that were copied to the device since the last reset.
std::int64_t bytes_copied_in() {
  std::istringstream lines{std::string(fake().trace())};
  std::int64_t bytes = 0;
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kCopy = "copy to the device ";
    if (const auto at = line.find(kCopy); at != std::string::npos)
      bytes += std::stoll(line.substr(at + kCopy.size()));
  }
  return bytes;
}

struct Trained {
  ir::DType image_dtype{}, evaluated_dtype{};
  std::int64_t bytes_a_step = 0;
  TensorMap numbers;  // results of the last step and the evaluation, and all weights after it
};

/// Trains three steps, and evaluates a batch.
Trained train_three_steps(const std::vector<std::string>& settings, const std::string& kind = "step") {
  fake();
  const TrainRequest request = bytes_request(settings);
  RunPlan plan(request);
  const ir::Module& module = plan.programs.module;
  const std::unique_ptr<Engine> engine = make_cuda_engine(module);
  start_state(*engine, module, initial_weights(request.network, plan.programs), 5);
  engine->prepare(kind);
  Trained trained;
  Batch batch;
  const std::unique_ptr<Loader> loader = plan.train_data.load();
  for (int step = 0; step < 3; ++step) {
    loader->next(batch);
    trained.image_dtype = batch.tensors.at("image").type().dtype;
    fake().reset();
    TensorMap inputs = take_inputs(module.function(kind), batch);
    trained.numbers = engine->run(kind, inputs);
    put_back(std::move(inputs), batch);
    trained.bytes_a_step = bytes_copied_in();
  }
  Batch evaluated;
  plan.test_data.load()->next(evaluated);
  trained.evaluated_dtype = evaluated.tensors.at("image").type().dtype;
  trained.numbers.merge(engine->run("eval", take_inputs(module.function("eval"), evaluated)));
  for (const ir::Parameter& parameter : module.parameters)
    trained.numbers.emplace(parameter.name, engine->read_state(parameter.name));
  return trained;
}

TEST_CASE("A step on a GPU copies its images as bytes, and gives the bits of a step that copies floats") {
  constexpr std::int64_t kPixels = 6 * 3 * 28 * 28;
  const std::vector<std::vector<std::string>> all = {
      {}, {"train.dtype=bf16"}, {"transforms.mean=[0.5]", "transforms.std=[0.25]"}};
  for (const std::vector<std::string>& settings : all) {
    CAPTURE(settings);
    const Trained bytes = train_three_steps(settings);
    // Boxes may be erased after the normalisation, so floats travel; none is.
    std::vector<std::string> erasing = settings;
    erasing.emplace_back("transforms.erase_prob=1e-300");
    const Trained floats = train_three_steps(erasing);
    CHECK(bytes.image_dtype == ir::DType::u8);
    CHECK(floats.image_dtype == ir::DType::f32);
    CHECK(floats.evaluated_dtype == ir::DType::u8);
    // Beside them labels, and gaps that align each input.
    for (const auto& [trained, size] : {std::pair(&bytes, 1), std::pair(&floats, 4)}) {
      CHECK(trained->bytes_a_step >= size * kPixels);
      CHECK(trained->bytes_a_step < size * kPixels + 1024);
    }
    CHECK(same_bits(bytes.numbers, floats.numbers));
  }
}

TEST_CASE("Labels that are blended come with floats, and batches of a step with several in bytes") {
  const Trained mixed = train_three_steps({"transforms.mixup=0.8", "objective.targets=probabilities"});
  CHECK(mixed.image_dtype == ir::DType::f32);
  CHECK(mixed.evaluated_dtype == ir::DType::u8);
  const Trained parts = train_three_steps({"train.accumulate=2"}, "accumulate");
  CHECK(parts.image_dtype == ir::DType::u8);
}

TEST_CASE("A run whose steps a CPU computes has floats, and its programs take them") {
  TrainRequest request = bytes_request({});
  request.engine = engine_names().front();
  const RunPlan plan(request);
  Batch batch;
  plan.train_data.load()->next(batch);
  CHECK(batch.tensors.at("image").type().dtype == ir::DType::f32);
  for (const char* program : {"step", "eval"}) {
    const ir::Function& function = plan.programs.module.function(program);
    CHECK(function.type(function.argument("image")).dtype == ir::DType::f32);
  }
}

}  // namespace
}  // namespace rewire::runtime
