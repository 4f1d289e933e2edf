// rewire export: the PyTorch source of networks against recorded files, which tests/python/check_export.py has held
// against PyTorch, models of ONNX, which it has run, the weights, and what is refused.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <span>

#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/onnx_graph.h"

namespace rewire::test {
namespace {

/// The text without what differs from build to build.
std::string without_builds(const std::string& text) {
  return std::regex_replace(std::regex_replace(text, std::regex("SHA-256 [0-9a-f]+"), "SHA-256 …"),
                            std::regex("Written by rewire [^ ]+ export"), "Written by rewire … export");
}

Words small_vit(const std::string& output) {
  return {"export", "vit_tiny_28",  "--set",    "model.depth=3",     "--set",    "model.drop_path=0.1",
          "--set",  "model.dim=24", "--plugin", plugin_file("gain"), "--output", output};
}

onnx::Model read_model(const std::string& file) {
  onnx::Model model;
  REQUIRE(model.ParseFromString(read_text(file)));
  return model;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Words small_model(const std::string& output) {
  Words words = small_vit(output);
  words.insert(words.end(), {"--format", "onnx"});
  return words;
}

}  // namespace

TEST_CASE(
    "A network with a plugin becomes a model of ONNX for any batch, with its weights under their names") {
  const TemporaryFolder folder;
  const std::string file = folder.file("vit.onnx");
  const Outcome outcome = rewire_command(small_model(file));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const onnx::Model model = read_model(file);
  CHECK(model.ir_version() == 8);
  REQUIRE(model.opset_import_size() == 1);
  CHECK(model.opset_import(0).version() == 18);
  const auto tensors = testing::check_onnx_graph(model);
  Words init = small_vit(folder.file("init.safetensors"));
  init[0] = "init";
  REQUIRE(rewire_command(init).code == 0);
  const runtime::SafetensorsFile weights = runtime::read_safetensors(folder.file("init.safetensors"));
  for (const auto& [name, tensor] : weights.tensors) {
    CAPTURE(name);
    REQUIRE(tensors.contains(name));
    CHECK(tensors.at(name) == text_of(tensor.bytes()));
  }
  std::map<std::string, std::string> metadata;
  for (const onnx::Entry& entry : model.metadata_props()) metadata[entry.key()] = entry.value();
  CHECK(metadata == weights.metadata);

  REQUIRE(model.graph().input_size() == 1);
  const onnx::Shape& image = model.graph().input(0).type().tensor_type().shape();
  CHECK(image.dim(0).dim_param() == "batch");
  CHECK(image.dim(2).dim_value() == 28);
  REQUIRE(model.graph().output_size() == 1);
  CHECK(model.graph().output(0).name() == "logits");
  std::set<std::string> types, places;
  for (const onnx::Node& node : model.graph().node()) {
    types.insert(node.op_type());
    places.insert(node.name());
    CHECK(node.op_type() != "Dropout");
  }
  for (const char* type : {"LayerNormalization", "Softmax", "Erf", "MatMul"}) CHECK(types.contains(type));
  for (const char* place : {"blocks.0.attn.qkv/MatMul", "blocks.2.mlp.fc2/Add"})
    CHECK(places.contains(place));
  const auto& nodes = model.graph().node();
  const auto reshape = std::ranges::find_if(
      nodes, [](const onnx::Node& node) { return node.name() == "blocks.0.attn/Reshape"; });
  REQUIRE(reshape != nodes.end());
  const std::string minus_one(8, '\xff');
  CHECK(tensors.at(reshape->input(1)).starts_with(minus_one));  // the batch is inferred
}

TEST_CASE("A model's weights can lie in a file beside it") {
  const TemporaryFolder folder;
  const std::string inside = folder.file("inside.onnx"), beside = folder.file("beside.onnx");
  REQUIRE(rewire_command(small_model(inside)).code == 0);
  Words words = small_model(beside);
  words.push_back("--external-data");
  REQUIRE(rewire_command(words).code == 0);
  const auto all = testing::check_onnx_graph(read_model(inside));
  const std::string data = read_text(beside + ".data");
  const onnx::Model model = read_model(beside);
  std::size_t found = 0;
  for (const onnx::Tensor& tensor : model.graph().initializer()) {
    CAPTURE(tensor.name());
    if (tensor.data_location() != onnx::Tensor::EXTERNAL) {
      CHECK(tensor.raw_data() == all.at(tensor.name()));
      continue;
    }
    ++found;
    std::map<std::string, std::string> place;
    for (const onnx::Entry& entry : tensor.external_data()) place[entry.key()] = entry.value();
    CHECK(place["location"] == "beside.onnx.data");
    CHECK(std::stoul(place["offset"]) % 4096 == 0);
    CHECK(data.substr(std::stoul(place["offset"]), std::stoul(place["length"])) == all.at(tensor.name()));
  }
  CHECK(found > 10);
}

TEST_CASE("A network of PyTorch becomes a model of ONNX") {
  const TemporaryFolder folder;
  for (const std::string name : {"resnet", "swin"}) {
    CAPTURE(name);
    const std::string file = folder.file(name + ".onnx"),
                      recorded = std::string(REWIRE_IMPORTED) + "/" + name;
    const Outcome outcome = rewire_command({"export", recorded + ".rir", "--weights",
                                            recorded + ".safetensors", "--format", "onnx", "--output", file});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const auto tensors = testing::check_onnx_graph(read_model(file));
    for (const auto& [weight, tensor] : runtime::read_safetensors(recorded + ".safetensors").tensors) {
      CAPTURE(weight);
      CHECK(tensors.contains(weight));
    }
  }
}

TEST_CASE("A network with a plugin becomes PyTorch source, and its weights lie beside it") {
  const TemporaryFolder folder;
  const std::string file = folder.file("vit.py");
  const Outcome outcome = rewire_command(small_vit(file));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(without_builds(read_text(file)) == read_text(std::string(REWIRE_EXPORTED) + "/vit.py"));
  Words init = small_vit(folder.file("init.safetensors"));
  init[0] = "init";
  REQUIRE(rewire_command(init).code == 0);
  CHECK(read_text(folder.file("vit.safetensors")) == read_text(folder.file("init.safetensors")));
}

TEST_CASE("A network of PyTorch goes back to PyTorch") {
  const TemporaryFolder folder;
  for (const std::string name : {"resnet", "swin"}) {
    CAPTURE(name);
    const std::string file = folder.file(name + ".py"), recorded = std::string(REWIRE_IMPORTED) + "/" + name;
    const Outcome outcome = rewire_command(
        {"export", recorded + ".rir", "--weights", recorded + ".safetensors", "--output", file});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(without_builds(read_text(file)) == read_text(std::string(REWIRE_EXPORTED) + "/" + name + ".py"));
    CHECK(runtime::read_safetensors(folder.file(name + ".safetensors")).tensors.size() ==
          runtime::read_safetensors(recorded + ".safetensors").tensors.size());
  }
}

TEST_CASE("export refuses what it cannot write, and then writes nothing") {
  const TemporaryFolder folder;
  check_refusal(
      rewire_command({"export", "vit_tiny_28", "--output", folder.file("net.txt")}),
      "--output: --format torch writes a file that ends in .py, not '" + folder.file("net.txt") + "'");
  check_refusal(
      rewire_command({"export", "vit_tiny_28", "--format", "safetensors", "--output", folder.file("net.py")}),
      "--output: --format safetensors writes a file that ends in .safetensors, not '" +
          folder.file("net.py") + "'");
  write_text(folder.file("qr.rir"), R"(module @odd {
  func @forward(%x: f32[2,3,3]) -> (y: f32[2,3,3]) {
    %0 = qr %x : f32[2,3,3] loc("head")
    return y = %0
  }
}
)");
  check_refusal(rewire_command({"export", folder.file("qr.rir"), "--output", folder.file("net.py")}),
                "export: this network has no form in PyTorch: qr at head (not known to this format)");
  check_refusal(rewire_command({"export", folder.file("qr.rir"), "--format", "onnx", "--output",
                                folder.file("net.onnx")}),
                "export: this network has no form in ONNX: qr at head (not known to this format)");
  check_refusal(
      rewire_command({"export", "vit_tiny_28", "--external-data", "--output", folder.file("net.py")}),
      "--external-data is for --format onnx, not torch");
  CHECK_FALSE(std::filesystem::exists(folder.file("net.onnx")));
  CHECK_FALSE(std::filesystem::exists(folder.file("net.py")));
  CHECK_FALSE(std::filesystem::exists(folder.file("net.safetensors")));
}

}  // namespace rewire::test
