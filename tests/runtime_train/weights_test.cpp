// Weights from files are strict by name and shape; steps on given batches stop at the first NaN and say
// where.
#include "runtime/network/weights.h"

#include <limits>

#include "ir/error.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/safetensors.h"
#include "runtime/measure/given.h"
#include "runtime/measure/non_finite.h"
#include "runtime/network/initialise.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using ir::DType;

HostTensor filled(ir::TensorType type, float value) {
  HostTensor tensor(std::move(type));
  for (float& element : tensor.as<float>()) element = value;
  return tensor;
}

TensorMap linear_weights() {
  TensorMap weights;
  weights.emplace("w", filled({DType::f32, {4, 5}}, 0.5F));
  weights.emplace("b", filled({DType::f32, {4}}, -1));
  return weights;
}

std::string fault(const TensorMap& weights) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  write_safetensors(path, weights);
  const std::string message = test::message_of<UserError>([&] { read_weights(linear_model(3, 5, 4), path); });
  REQUIRE(message.starts_with(path + ": "));
  return message.substr(path.size() + 2);
}

TEST_CASE("Weights come back by name, other floating dtypes converted") {
  const test::TemporaryFolder folder;
  TensorMap weights = linear_weights();
  weights.insert_or_assign("w", convert(weights.at("w"), DType::f64));
  write_safetensors(folder.file("w"), weights);
  const TensorMap read = read_weights(linear_model(3, 5, 4), folder.file("w"));
  REQUIRE(read.size() == 2);
  CHECK(read.at("w").type() == ir::TensorType{DType::f32, {4, 5}});
  CHECK(read.at("w").as<float>()[19] == 0.5F);
  CHECK(read.at("b").as<float>()[0] == -1);
}

TEST_CASE(
    "PyTorch's counts of batches are passed over; weights of another form name the option that has them") {
  const auto model = [](const char* form) {
    ir::Selection options{"resnetv2_50"};
    options.set("form", std::string(form))
        .set("stem", std::string("conv7_pool"))
        .set("width", std::int64_t{2});
    options.set("depths", ir::Doubles{1, 1}).set("image", std::int64_t{16});
    return models::build(options, 1);
  };
  const auto weights = [](const ir::Module& module) {
    TensorMap all = initialise(module, 1);
    std::erase_if(all, [&](const auto& entry) { return !module.find_parameter(entry.first)->is_weight(); });
    return all;
  };
  const test::TemporaryFolder folder;
  TensorMap given = weights(model("timm"));
  given.emplace("norm.num_batches_tracked", HostTensor({DType::i64, {}}));
  given.emplace("stages.0.blocks.0.norm1.num_batches_tracked", HostTensor({DType::i64, {}}));
  write_safetensors(folder.file("timm"), given);
  CHECK(read_weights(model("timm"), folder.file("timm")).size() == given.size() - 2);
  CHECK_THROWS_WITH(read_weights(model("paper"), folder.file("timm")),
                    REWIRE_CATCH_CONTAINS("; model.form=timm matches its weights"));
  write_safetensors(folder.file("paper"), weights(model("paper")));
  CHECK_THROWS_WITH(read_weights(model("timm"), folder.file("paper")),
                    REWIRE_CATCH_CONTAINS("; model.form=paper matches its weights"));
  given.emplace("other.num_batches_tracked", HostTensor({DType::i64, {}}));
  write_safetensors(folder.file("other"), given);
  CHECK_THROWS_WITH(read_weights(model("timm"), folder.file("other")),
                    REWIRE_CATCH_CONTAINS("the model has no 'other.num_batches_tracked'"));
}

TEST_CASE("Weights of other classes, another image or another network of the zoo name what has them",
          "[whole]") {
  const auto model = [](const char* name, const char* form, std::int64_t image, std::int64_t classes) {
    ir::Selection options{name};
    options.set("form", std::string(form)).set("image", image).set("classes", classes);
    return models::build(options, 1);
  };
  const test::TemporaryFolder folder;
  const auto refusal = [&](const ir::Module& given, const ir::Module& asked) {
    TensorMap weights;
    for (const ir::Parameter& p : given.parameters) {
      if (p.is_weight()) weights.emplace(p.name, HostTensor(p.type));
    }
    write_safetensors(folder.file("w"), weights);
    const std::string message = test::message_of<UserError>([&] { read_weights(asked, folder.file("w")); });
    return message.substr(message.rfind("; "));
  };
  const ir::Module timm = model("resnetv2_50", "timm", 224, 1000);
  CHECK(refusal(timm, model("resnetv2_50", "paper", 224, 10)) ==
        "; model.form=timm, model.classes=1000 matches its weights");
  CHECK(refusal(timm, model("resnetv2_18", "paper", 32, 10)) ==
        "; the model resnetv2_50 with model.form=timm, model.classes=1000 matches its weights");
  CHECK(refusal(model("resnetv2_18", "paper", 32, 10), models::build({"resnet18"}, 1)) ==
        "; the model resnetv2_18 matches its weights");
  ir::Selection pooled{"resnetv2_18"};
  CHECK(refusal(models::build(pooled.set("stem", std::string("conv7_pool")), 1),
                models::build({"resnetv2_18"}, 1)) == "; model.stem=conv7_pool matches its weights");
  CHECK(refusal(models::build({"vit_s16_224"}, 1), models::build({"vit_b16_224"}, 1)) ==
        "; the model vit_s16_224 matches its weights");
}

TEST_CASE("A missing, an unexpected and a misshapen weight are refused by name and shape") {
  TensorMap missing = linear_weights();
  missing.erase("b");
  CHECK(fault(missing) == "it lacks 'b' f32[4], which the model needs");

  TensorMap unexpected = linear_weights();
  unexpected.emplace("bb", filled({DType::f32, {1}}, 0));
  CHECK(fault(unexpected) == "the model has no 'bb' f32[1] (did you mean 'b'?)");

  TensorMap misshapen = linear_weights();
  misshapen.insert_or_assign("w", filled({DType::f32, {5, 4}}, 0));
  CHECK(fault(misshapen) == "'w' has the shape [5,4], but the model's has [4,5]");

  TensorMap integers = linear_weights();
  integers.insert_or_assign("b", HostTensor({DType::i64, {4}}));
  CHECK(fault(integers) == "'b' is i64[4], but the model's is f32[4]");

  TensorMap several;
  for (const char* name : {"c1", "c2", "c3", "c4", "c5"}) several.emplace(name, filled({DType::f32, {1}}, 0));
  several.emplace("b", filled({DType::f32, {4}}, 0));
  several.emplace("w", filled({DType::f32, {4, 5}}, 0));
  CHECK(fault(several) == "the model has no 'c1' f32[1], 'c2' f32[1], 'c3' f32[1] and 2 more");
}

struct Session {
  explicit Session(std::int64_t accumulate) : module(linear_model(3, 5, 4)) {
    programs::TrainOptions options;
    options.optimizer = {"sgd"};
    options.optimizer.set("lr", 0.5);
    options.accumulate = accumulate;
    programs::add_step_program(module, options);
    engine = make_engine("evaluator", module);
    start_state(*engine, module, linear_weights(), 9);
  }
  ir::Module module;
  std::unique_ptr<Engine> engine;
};

GivenTensor images(ir::Shape shape) {
  GivenTensor given{HostTensor({DType::f32, std::move(shape)}), "x.npy"};
  int k = 0;
  for (float& value : given.tensor.as<float>()) value = static_cast<float>(++k % 7) / 7;
  return given;
}

GivenTensor labels(ir::Shape shape) {
  GivenTensor given{HostTensor({DType::i64, std::move(shape)}), "y.npy"};
  std::int64_t k = 0;
  for (std::int64_t& value : given.tensor.as<std::int64_t>()) value = ++k % 4;
  return given;
}

GivenTensor copy_of(const GivenTensor& given) {
  return {given.tensor.clone(), given.file};
}

std::vector<double> run_steps(const Session& session, const GivenTensor& x, const GivenTensor& y,
                              std::int64_t steps, std::int64_t accumulate) {
  GivenInputs inputs;
  inputs.emplace("image", copy_of(x));
  inputs.emplace("label", copy_of(y));
  programs::TrainOptions options;
  options.accumulate = accumulate;
  return run_given_steps(*session.engine, session.module, inputs, steps, options);
}

TEST_CASE("A session starts from the weights, the seed, and every other state as its Init says") {
  const Session session(1);
  CHECK(session.engine->read_state("w").as<float>()[7] == 0.5F);
  CHECK(session.engine->read_state("rng.seed").as<std::int64_t>()[0] == 9);
  CHECK(session.engine->read_state("train.step").as<std::int64_t>()[0] == 0);
  CHECK(session.engine->read_state("train.finite").as<std::uint8_t>()[0] == 1);
  CHECK(weights_of(*session.engine, session.module).size() == 2);
}

TEST_CASE("One batch used every step is the same as a stack of its copies") {
  const GivenTensor one = images({3, 1, 1, 5});
  GivenTensor stack = images({4, 3, 1, 1, 5});
  for (std::size_t i = 0; i < stack.tensor.as<float>().size(); ++i) {
    stack.tensor.as<float>()[i] = one.tensor.as<float>()[i % one.tensor.as<float>().size()];
  }
  const Session a(1);
  const Session b(1);
  const std::vector<double> losses = run_steps(a, one, labels({3}), 4, 1);
  CHECK(losses == run_steps(b, stack, labels({3}), 4, 1));
  REQUIRE(losses.size() == 4);
  CHECK(losses[3] < losses[0]);
}

TEST_CASE("Two accumulated batches that are equal make the step of one") {
  const Session plain(1);
  const Session accumulated(2);
  const std::vector<double> expected = run_steps(plain, images({3, 1, 1, 5}), labels({3}), 3, 1);
  const std::vector<double> losses = run_steps(accumulated, images({3, 1, 1, 5}), labels({3}), 3, 2);
  REQUIRE(losses.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(losses[i] == Approx(expected[i]).epsilon(1e-6));
}

TEST_CASE("Given batches of the wrong shape, type or class are refused") {
  const Session session(1);
  const auto refusal = [&](const GivenTensor& x, const GivenTensor& y) {
    return test::message_of<UserError>([&] { run_steps(session, x, y, 2, 1); });
  };
  CHECK(refusal(images({3, 3, 1, 1, 5}), labels({3})) ==
        "x.npy: 'image' is f32[3,3,1,1,5]; for 2 batches the program takes f32[2,3,1,1,5], or f32[3,1,1,5] "
        "to use one batch every time");
  CHECK(refusal(images({3, 1, 1, 5}), labels({2})) ==
        "y.npy: 'label' is i64[2]; for 2 batches the program takes i64[2,3], or i64[3] to use one batch "
        "every time");
  GivenTensor wrong = labels({3});
  wrong.tensor.as<std::int64_t>()[1] = 4;
  CHECK(refusal(images({3, 1, 1, 5}), wrong) ==
        "y.npy: the label 4 is not one of the model's, which are 0 to 3");
  wrong.tensor.as<std::int64_t>()[1] = -1;
  CHECK(refusal(images({3, 1, 1, 5}), wrong) ==
        "y.npy: the label -1 is not one of the model's, which are 0 to 3");

  const ir::Function& step = session.module.function("step");
  CHECK(test::message_of<UserError>([&] {
          check_batch(session.module, step, "image", images({3, 1, 5, 1}));
        }) == "x.npy: 'image' is f32[3,1,5,1], but the program takes f32[3,1,1,5]");
  const GivenTensor doubles{HostTensor({DType::f64, {3, 1, 1, 5}}), "x.npy"};
  CHECK(test::message_of<UserError>([&] { check_batch(session.module, step, "image", doubles); }) ==
        "x.npy: 'image' is f64[3,1,1,5], but the program takes f32[3,1,1,5]; convert it to f32");
  CHECK(test::message_of<UserError>([] { batch_extent(labels({3}), 4, false); }) ==
        "y.npy: i64[3] has the wrong rank: one batch has 4 axes");
  CHECK(batch_extent(images({7, 3, 1, 1, 5}), 4, true) == 3);
}

TEST_CASE("A NaN stops the steps, names the step and the tensor, and leaves the state of the step before") {
  const Session session(1);
  GivenTensor x = images({3, 3, 1, 1, 5});
  x.tensor.as<float>()[20] = std::numeric_limits<float>::quiet_NaN();  // in the second batch
  CHECK(test::message_of<UserError>([&] { run_steps(session, x, labels({3}), 3, 1); }) ==
        "step 2: the loss or a gradient is not finite: input 'image' is not finite");
  CHECK(session.engine->read_state("train.step").as<std::int64_t>()[0] == 1);
}

TEST_CASE("The first non-finite tensor is found by replay, overflow of its dtype included") {
  const Session session(1);
  TensorMap inputs;
  inputs.emplace("image", filled({DType::f32, {3, 1, 1, 5}}, 3e38F));  // times 0.5, summed over 5: beyond f32
  inputs.emplace("label", labels({3}).tensor.clone());
  CHECK_THAT(first_non_finite(session.module, "step", *session.engine, inputs),
             REWIRE_CATCH_CONTAINS("the first non-finite tensor is the result of matmul") &&
                 REWIRE_CATCH_CONTAINS("f32[3,4]"));

  inputs.insert_or_assign("image", images({3, 1, 1, 5}).tensor.clone());
  CHECK(first_non_finite(session.module, "step", *session.engine, inputs) ==
        "replayed in double precision, every tensor is finite");

  session.engine->write_state("w", filled({DType::f32, {4, 5}}, std::numeric_limits<float>::infinity()));
  CHECK(first_non_finite(session.module, "step", *session.engine, inputs) == "parameter 'w' is not finite");
}

TEST_CASE("An unknown engine is refused with the nearest match") {
  CHECK(test::message_of<UserError>([] { make_engine("evaluatr", linear_model(1, 1, 2)); }) ==
        "unknown engine 'evaluatr' (did you mean 'evaluator'?)");
}

}  // namespace
}  // namespace rewire::runtime
