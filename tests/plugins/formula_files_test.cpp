// The strategies of examples/formulas against the same networks in PyTorch, in float64: a ViT of two widths, GPT-2
// and Llama; logits, loss, every gradient, and for the ViTs twenty steps of AdamW.
#include <algorithm>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "runtime/io/files.h"
#include "runtime/recipe/flat_values.h"
#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(REWIRE_FORMULAS))
    result.push_back(entry.path().stem().string());
  std::ranges::sort(result);
  return result;
}

runtime::PluginSpec spec_of(const std::string& name) {
  const std::string path = std::string(REWIRE_FORMULAS) + "/" + name + ".toml";
  const std::vector<std::byte> bytes = runtime::read_file(runtime::FilePlace::of_user(path), 1 << 20);
  runtime::PluginSpec spec{"formula", {}};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const auto& [key, value] : runtime::flat_values(text, path))
    spec.values.emplace_back(key, runtime::flat_text(value));
  return spec;
}

/// The backend with the formula instead of the golden's plugins, of which "@NAME" is one.
Backend with_formula(Backend backend, const std::string& name) {
  backend.rewrite = [spec = spec_of(name)](ir::Module& module) {
    runtime::apply_plugins(module, {runtime::load_plugin(spec, {})}, 0);
  };
  return backend;
}

TEST_CASE("A network with a formula of examples/formulas computes and learns as in PyTorch", "[whole]") {
  const std::string name = GENERATE(from_range(names()));
  const std::string network = GENERATE(as<std::string>{}, "vit_slim", "vit_deep", "gpt2_odd", "llama_odd");
  const Golden golden = read_golden(network + "_" + name);
  CAPTURE(golden.name);
  CHECK(golden.plugins == std::vector<std::string>{"@" + name});
  CHECK(golden.runs.contains("adamw") == network.starts_with("vit"));
  check_golden(golden, with_formula(rewriting_evaluator(golden), name), kExact);
  check_golden(golden, with_formula(compiled(golden), name), kSingle);
}

}  // namespace
}  // namespace rewire::parity
