// Networks that came from PyTorch (tests/python/record_import.py), for any batch: logits within 1e-5 of PyTorch's in
// float64, gradients within 1e-4, the joins that were found, training and going on with it.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const std::vector<std::string> kClassifiers = {"vit", "swin", "convnextv2", "resnet", "cait"};

std::string recorded(const std::string& file) {
  return std::string(REWIRE_IMPORTED) + "/" + file;
}

double largest(const std::vector<double>& numbers) {
  double most = 0;
  for (const double number : numbers) most = std::max(most, std::abs(number));
  return most;
}

double largest_difference(const runtime::HostTensor& a, const runtime::HostTensor& b) {
  std::vector<double> difference = runtime::to_double(a).data;
  const std::vector<double> other = runtime::to_double(b).data;
  REQUIRE(difference.size() == other.size());
  for (std::size_t i = 0; i < other.size(); ++i) difference[i] -= other[i];
  return largest(difference);
}

Words with_weights(const std::string& command, const std::string& name, const std::string& input = "") {
  return {command,   recorded(name + ".rir"),         "--weights", recorded(name + ".safetensors"),
          "--input", input + recorded(name + ".npy"), "--quiet"};
}

}  // namespace

TEST_CASE("Networks of PyTorch compute what PyTorch does, at a batch that they were not traced with") {
  const TemporaryFolder folder;
  for (const std::string name : {"vit", "swin", "convnextv2", "resnet", "cait", "gpt"}) {
    CAPTURE(name);
    const std::string input = name == "gpt" ? "tokens=" : "", output = folder.file(name + ".npy");
    const Outcome run = rewire_command(with_weights("run", name, input) + Words{"--output", output});
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    const runtime::TensorMap wanted =
        runtime::read_safetensors(recorded(name + ".expected.safetensors")).tensors;
    const runtime::HostTensor& logits = wanted.at("logits");
    CHECK(largest_difference(runtime::read_npy(output), logits) <=
          1e-5 * largest(runtime::to_double(logits).data));
  }
}

TEST_CASE("The gradients of networks of PyTorch are PyTorch's") {
  const TemporaryFolder folder;
  for (const std::string& name : kClassifiers) {
    CAPTURE(name);
    const std::string output = folder.file(name + ".safetensors");
    const Outcome grad = rewire_command(with_weights("grad", name) +
                                        Words{"--labels", recorded("labels.npy"), "--output", output});
    CAPTURE(grad.err);
    REQUIRE(grad.code == 0);
    const runtime::TensorMap wanted =
                                 runtime::read_safetensors(recorded(name + ".expected.safetensors")).tensors,
                             gradients = runtime::read_safetensors(output).tensors;
    CHECK(gradients.size() == wanted.size() - 1);
    std::map<std::string, double> sizes;
    for (const auto& [key, tensor] : wanted)
      if (key != "logits") sizes[key] = largest(runtime::to_double(tensor).data);
    const double most =
        std::ranges::max_element(sizes, {}, [](const auto& pair) { return pair.second; })->second;
    for (const auto& [key, size] : sizes) {
      CAPTURE(key, size);
      const runtime::HostTensor& gradient = gradients.at(key.substr(std::string("gradient.").size()));
      CHECK(largest_difference(gradient, wanted.at(key)) <= 1e-4 * std::max(size, 1e-3 * most));
    }
  }
}

TEST_CASE("The joins of an imported network are listed, with the plugins on them") {
  const Outcome text =
      rewire_command({"dump", recorded("vit.rir"), "--stage", "joins", "--plugin", plugin_file("gain")});
  CHECK(text.err.empty());
  CHECK_THAT(text.out, REWIRE_CATCH_CONTAINS("\nblocks.1.mlp   0      f32[64,5,16]  blocks.1.norm2  "
                                             "blocks.1.mlp.fc2.weight    gain\n"));
  const Outcome swin = rewire_command({"dump", recorded("swin.rir"), "--stage", "joins", "--json"});
  std::vector<std::string> names;
  const Json all = Json::parse(swin.out);
  for (const Json& join : all.at("joins")) names.push_back(join.at("name"));
  CHECK(names == std::vector<std::string>{"layers.0.blocks.0.attn", "layers.0.blocks.0.mlp",
                                          "layers.0.blocks.1.attn", "layers.0.blocks.1.mlp",
                                          "layers.1.blocks.0.attn", "layers.1.blocks.0.mlp",
                                          "layers.1.blocks.1.attn", "layers.1.blocks.1.mlp"});
}

TEST_CASE("An imported network trains at any batch, and its run goes on to the same bits") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& run, const Words& more) {
    return rewire_command(Words{"train",    recorded("vit_dropout.rir"),
                                "--quiet",  "--no-autotune",
                                "--set",    "data.format=synthetic",
                                "--set",    "data.count=40",
                                "--set",    "train.batch=8",
                                "--set",    "eval.batch=6",
                                "--set",    "train.epochs=2",
                                "--set",    "train.weights=" + recorded("vit_dropout.safetensors"),
                                "--plugin", plugin_file("gain"),
                                "--out",    folder.file(run)} +
                          more);
  };
  const Outcome whole = train("whole", {});
  CAPTURE(whole.err);
  REQUIRE(whole.code == 0);
  CHECK(read_text(folder.file("whole/network.rir")) == read_text(recorded("vit_dropout.rir")));
  REQUIRE(train("part", {"--set", "train.max_steps=7"}).code == 0);
  REQUIRE(rewire_command({"train", "--resume", folder.file("part"), "--quiet", "--set", "train.max_steps=0"})
              .code == 0);
  CHECK(read_text(folder.file("part/weights.safetensors")) ==
        read_text(folder.file("whole/weights.safetensors")));
  CHECK(rewire_command({"eval", folder.file("whole"), "--quiet"}).code == 0);
  check_refusal(train("other", {"--set", "model.depth=3"}),
                "--set model.depth=3: " + recorded("vit_dropout.rir") +
                    " is a module, whose shapes are fixed in the file");
}

}  // namespace rewire::test
