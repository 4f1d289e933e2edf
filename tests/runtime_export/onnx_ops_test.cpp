// Every op as a model of ONNX. Here each graph is checked by itself; with $REWIRE_ONNX_CASES=FOLDER the models, their
// inputs and what the evaluator computes are written there, and tests/python/check_onnx_ops.py runs them.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/text.h"
#include "runtime/export/onnx_model.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"
#include "tests/support/onnx_graph.h"
#include "tests/support/op_cases.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using ir::Opcode;

constexpr std::uint64_t kSeeds = 12;

onnx::Model model_of(const std::string& file) {
  const std::vector<std::byte> bytes = read_file(file);
  onnx::Model model;
  REQUIRE(model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return model;
}

/// The case as a network whose batch is fixed, in evaluation.
ir::Module network_of(const testing::OpCase& op_case) {
  ir::Module module = op_case.module;
  module.function("main").name = "forward";
  module.function("forward").trains = false;
  return module;
}

ir::Module parsed(const std::string& body) {
  return ir::parse("module @m {\n" + body + "\n}\n");
}

/// Exports a network at two batches, which differ by the word BATCH in its text.
onnx::Model at_any_batch(const test::TemporaryFolder& folder, const std::string& text) {
  const auto at = [&](std::int64_t batch) {
    std::string body = text;
    for (std::size_t found = body.find("BATCH"); found != std::string::npos; found = body.find("BATCH")) {
      body.replace(found, 5, std::to_string(batch));
    }
    return parsed(body);
  };
  const ir::Module small = at(2), large = at(5);
  const TensorMap none;
  write_onnx(folder.file("m.onnx"),
             {.network = &small, .larger = &large, .batch = 2, .larger_batch = 5, .weights = &none});
  return model_of(folder.file("m.onnx"));
}

std::set<std::string> types_of(const onnx::Model& model) {
  std::set<std::string> types;
  for (const onnx::Node& node : model.graph().node()) types.insert(node.op_type());
  return types;
}

}  // namespace

TEST_CASE("Every op that a network has in evaluation becomes a whole graph, or is refused by name",
          "[export][onnx]") {
  const char* kept = std::getenv("REWIRE_ONNX_CASES");
  const test::TemporaryFolder temporary;
  const TensorMap none;
  std::set<std::string> refused;
  for (std::size_t index = 0; index < ir::kOpcodeCount; ++index) {
    const auto code = static_cast<Opcode>(index);
    // param, update, is_training: the cases of networks have them.
    if (!testing::has_op_case(code) || ir::op_info(code).op_class == ir::OpClass::state) continue;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const testing::OpCase op_case = testing::random_op_case(code, seed);
      const ir::Module module = network_of(op_case);
      const std::string name = fmt::format("{}_{}", ir::opcode_name(code), seed);
      CAPTURE(name);
      const std::string base = kept == nullptr ? temporary.file("case") : std::string(kept) + "/" + name;
      try {
        write_onnx(base + ".onnx", {.network = &module, .weights = &none});
      } catch (const UserError& error) {
        CHECK(std::string(error.what()).starts_with("export: this network has no form in ONNX: "));
        refused.insert(std::string(ir::opcode_name(code)));
        continue;
      }
      testing::check_onnx_graph(model_of(base + ".onnx"));
      if (kept == nullptr) continue;
      ir::EvalState state;
      const ir::Function& forward = module.function("forward");
      const std::vector<ir::Tensor> results = ir::evaluate(module, forward, op_case.inputs, state);
      for (std::size_t at = 0; at < op_case.inputs.size(); ++at) {
        write_npy(fmt::format("{}.{}.npy", base, forward.arguments[at].name), to_host(op_case.inputs[at]));
      }
      for (std::size_t at = 0; at < results.size(); ++at) {
        ir::Tensor wide = results[at];
        wide.type.dtype = ir::DType::f64;
        write_npy(fmt::format("{}.{}.npy", base, forward.results[at].name), to_host(wide));
      }
    }
  }
  // What gradients have, and decompositions on the host.
  for (const char* op : {"qr", "eigh", "conv2d_weight_grad"}) CHECK(refused.contains(op));
  for (const char* op :
       {"add", "select", "matmul", "conv2d", "gather", "layer_norm", "attention", "resize"}) {
    CAPTURE(op);
    CHECK_FALSE(refused.contains(op));
  }
}

TEST_CASE("A number that has the result's shape is not taken for a tensor of it", "[export][onnx]") {
  const test::TemporaryFolder folder;
  const onnx::Model model = at_any_batch(folder, R"(
  func @forward(%x: f32[BATCH,3]) -> (y: f32[BATCH,1]) {
    %0 = sum %x {axes = [1]}
    %1 = broadcast %0 : f32[BATCH,3]
    %2 = constant {value = 2.0} : f32[BATCH,3]
    %3 = mul %1, %2
    %4 = sum %3 {axes = [1]}
    return y = %4
  })");
  testing::check_onnx_graph(model);
  CHECK(types_of(model).contains("Expand"));
}

TEST_CASE("A leading axis of 1 stays", "[export][onnx]") {
  const test::TemporaryFolder folder;
  const onnx::Model model = at_any_batch(folder, R"(
  func @forward(%x: f32[BATCH,3], %w: f32[3,3]) -> (y: f32[1,1,3]) {
    %0 = reshape %w : f32[1,3,3]
    %1 = exp %0
    %2 = sum %1 {axes = [1]}
    return y = %2
  })");
  CHECK(types_of(model).contains("Reshape"));
}

TEST_CASE("What depends on the batch otherwise than by shapes is refused", "[export][onnx]") {
  const test::TemporaryFolder folder;
  for (const char* text : {R"(
  func @forward(%x: f32[BATCH,3]) -> (y: f32[BATCH,3]) {
    %0 = constant {value = BATCH.0} : f32[BATCH,3]
    %1 = div %x, %0
    return y = %1
  })",
                           R"(
  func @forward(%x: f32[BATCH,3]) -> (y: f32[BATCH,6]) {
    %0 = pad %x {high = [0, 3], low = [0, 0], value = BATCH.0}
    return y = %0
  })"}) {
    CHECK_THROWS_WITH(at_any_batch(folder, text),
                      Catch::Contains("depends on the batch otherwise than by its shapes"));
  }
}

TEST_CASE("Indices stay within the batch that is there", "[export][onnx]") {
  const test::TemporaryFolder folder;
  const onnx::Model model = at_any_batch(folder, R"(
  func @forward(%x: f32[BATCH,3], %i: i64[4]) -> (y: f32[4,3]) {
    %0 = gather %x, %i {axis = 0}
    return y = %0
  })");
  testing::check_onnx_graph(model);
  for (const char* type : {"Shape", "Sub", "Min", "Max"}) CHECK(types_of(model).contains(type));
}

TEST_CASE("A model of ONNX is for inference", "[export][onnx]") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH(at_any_batch(folder, R"(
  func @forward(%x: f32[BATCH,3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]) -> (y: f32[BATCH,3]) {
    %t = constant {value = 1.0} : i1[]
    %0, %1, %2 = batch_norm %x, %w, %b, %m, %v, %t
    return y = %0
  })"),
                    Catch::Contains("batch_norm (it uses the batch's statistics)"));
  CHECK_THROWS_WITH(at_any_batch(folder, R"(
  func @forward(%x: f32[BATCH,3]) -> (x: f32[BATCH,3]) {
    %0 = neg %x
    return x = %0
  })"),
                    Catch::Contains("share the name 'x'"));
}

}  // namespace rewire::runtime
