// rewire export: the PyTorch source of networks against recorded files, which tests/python/check_export.py has held
// against PyTorch, its weights, and what is refused.
#include <regex>

#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

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

}  // namespace

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
  CHECK_FALSE(std::filesystem::exists(folder.file("net.py")));
  CHECK_FALSE(std::filesystem::exists(folder.file("net.safetensors")));
}

}  // namespace rewire::test
