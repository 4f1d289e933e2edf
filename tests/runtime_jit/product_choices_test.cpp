// Who computes each product and convolution of a CPU's programs: asked once a shape, timed, kept, and taken by an engine.
#include "runtime/exec/cpu/product_choices.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "runtime/exec/engine.h"
#include "runtime/io/json_view.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using ir::Value;

constexpr std::int64_t kRows = 130, kWidth = 72, kSide = 8;
const std::string kProduct = "product gemm 130x72x72 NN",
                  kConvolution = "product conv2d 2x8x8x72 72x72x3x3 > 2x8x8x72";

/// Two products of one shape, a convolution, and a product of too few rows for our code.
ir::Module example() {
  ir::Module module;
  module.name = "example";
  for (const auto& [name, shape] :
       {std::pair<const char*, ir::Shape>{"w", {kWidth, kWidth}}, {"kernel", {kWidth, kWidth, 3, 3}}}) {
    ir::Parameter weight;
    weight.name = name;
    weight.type = {DType::f32, shape};
    module.add_parameter(weight);
  }
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const Value w = b.param("w");
  b.result("y", b.matmul(b.matmul(b.argument("x", {DType::f32, {kRows, kWidth}}), w), w));
  b.result("few", b.matmul(b.argument("row", {DType::f32, {2, kWidth}}), w));
  b.result("maps", b.emit(ir::Opcode::conv2d,
                          {b.argument("image", {DType::f32, {2, kWidth, kSide, kSide}}), b.param("kernel")},
                          {{"strides", ir::Ints{1, 1}}, {"padding", ir::Ints{1, 1}}}));
  ir::verify(module);
  return module;
}

TensorMap inputs() {
  TensorMap inputs;
  inputs.emplace("x", testing::noise({kRows, kWidth}, 1));
  inputs.emplace("row", testing::noise({2, kWidth}, 2));
  inputs.emplace("image", testing::noise({2, kWidth, kSide, kSide}, 3));
  return inputs;
}

Tuner tuner_in(const std::string& folder, const ChoiceRecord& given = {}) {
  TunerOptions options;
  options.cache_directory = folder;
  options.place = "here";
  options.given = given;
  return Tuner(std::move(options));
}

ChoiceRecord all_taken(std::string_view answer) {
  ChoiceRecord record;
  for (const std::string& key : {kProduct, kConvolution})
    record.add({key, std::string(answer), std::string(kByModel), {}});
  return record;
}

TEST_CASE("each shape that our code can compute is asked once, timed, and kept for the next process") {
  const test::TemporaryFolder folder;
  Tuner tuner = tuner_in(folder.file("cache"));
  choose_products(example(), {"main"}, "", tuner);
  std::set<std::string> keys;
  for (const MadeChoice& made : tuner.record().made()) {
    CAPTURE(made.key, made.taken);
    keys.insert(made.key);
    CHECK((made.taken == kOwnKernels || made.taken == kOneDnnAnswer));
    CHECK(made.by == kByTiming);
    CHECK_FALSE(made.seconds.empty());
  }
  CHECK(keys == std::set<std::string>{kProduct, kConvolution});
  CHECK(tuner.timed() == 2);
  Tuner later = tuner_in(folder.file("cache"));
  choose_products(example(), {"main"}, "", later);
  CHECK(later.record() == tuner.record());
  CHECK(later.timed() == 0);
}

TEST_CASE("what was recorded is taken, and is what an engine runs") {
  const ir::Module module = example();
  const auto evaluator = make_evaluator_engine(module);
  std::set<std::int64_t> packed;
  for (const std::string_view answer : {kOwnKernels, kOneDnnAnswer}) {
    CAPTURE(answer);
    Tuner tuner = tuner_in("", all_taken(answer));
    CHECK(tuner.is_any_given(kProductChoice));
    choose_products(module, {"main"}, "", tuner);
    CHECK(tuner.record().made().size() == 2);
    for (const std::string& key : {kProduct, kConvolution}) CHECK(tuner.record().find(key)->taken == answer);
    JitEngineOptions options;
    options.threads = 2;
    options.check_memory = true;
    options.choices = tuner.record();
    const auto engine = make_jit_engine(module, options);
    for (Engine* each : {static_cast<Engine*>(engine.get()), evaluator.get()}) {
      each->write_state("w", testing::noise({kWidth, kWidth}, 4));
      each->write_state("kernel", testing::noise({kWidth, kWidth, 3, 3}, 5));
    }
    const TensorMap got = engine->run("main", inputs()), expected = evaluator->run("main", inputs());
    for (const auto& [name, tensor] : expected) {
      CAPTURE(name);
      for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
        REQUIRE(std::abs(got.at(name).as<float>()[i] - tensor.as<float>()[i]) < 1e-3F);
    }
    // Ours alone keeps a weight packed that products read.
    packed.insert(engine->report().packed_bytes);
  }
  CHECK(packed.size() == 2);
}

TEST_CASE("a record with an answer that there is not is refused") {
  const auto refusal = [](const std::string& text) {
    const auto json = nlohmann::ordered_json::parse(text);
    return test::message_of<UserError>([&] { record_from_json(JsonView(json, "")); });
  };
  CHECK(refusal(R"([{"key": "product gemm 130x72x72 NN", "taken": "MKL"}])") ==
        ": 'MKL' is neither 'oneDNN' nor 'ours', as 'product gemm 130x72x72 NN' needs");
  CHECK_FALSE(tuner_in("").is_any_given(kProductChoice));
}

}  // namespace
}  // namespace rewire::runtime
