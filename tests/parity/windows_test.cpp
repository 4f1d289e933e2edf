// Ops over windows of maps, and resize, against PyTorch in float64 (tests/reference/windows.py), forward and back.
#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcode.h"
#include "ir/passes/decompose.h"
#include "ir/verify.h"
#include "runtime/io/host_tensor.h"
#include "runtime/io/safetensors.h"
#include "tests/support/catch.h"

namespace rewire {
namespace {

using ir::Value;
using nlohmann::json;

struct WindowCase {
  std::string name;
  ir::Opcode code;
  ir::Attributes attributes;
  ir::Tensor x, g, y, dx;
};

std::vector<WindowCase> window_cases() {
  const runtime::SafetensorsFile file =
      runtime::read_safetensors(std::string(REWIRE_GOLDENS) + "/windows.safetensors");
  std::vector<WindowCase> cases;
  const json described = json::parse(file.metadata.at("cases"));
  for (const auto& [name, facts] : described.items()) {
    const auto tensor = [&, key = name](const char* leaf) {
      return runtime::to_double(file.tensors.at(key + "." + leaf));
    };
    WindowCase& c =
        cases.emplace_back(WindowCase{name,
                                      ir::opcode_from_name(facts.at("op").get<std::string>()).value(),
                                      {},
                                      tensor("x"),
                                      tensor("g"),
                                      tensor("y"),
                                      tensor("dx")});
    for (const auto& [key, value] : facts.items()) {
      if (value.is_array()) c.attributes.set(key, value.get<ir::Ints>());
    }
  }
  return cases;
}

double largest_difference(const ir::Tensor& got, const ir::Tensor& want) {
  REQUIRE(got.type == want.type);
  double largest = 0;
  for (std::size_t i = 0; i < want.data.size(); ++i)
    largest = std::max(largest, std::abs(got.data[i] - want.data[i]));
  return largest;
}

TEST_CASE("Pools, unfold and resize are PyTorch's, and so are their gradients, whole and decomposed") {
  const std::vector<WindowCase> cases = window_cases();
  REQUIRE(cases.size() == 30);
  for (const WindowCase& c : cases) {
    for (const bool decomposed : {false, true}) {
      CAPTURE(c.name, decomposed);
      ir::Module module;
      module.name = "windows";
      ir::Function& function = module.functions.emplace_back();
      function.name = "main";
      ir::Builder b(module, function);
      const Value x = b.argument("x", c.x.type), g = b.argument("g", c.g.type);
      const Value y = b.emit(c.code, {x}, c.attributes);
      ir::Ints axes;
      for (int axis = 0; axis < c.y.type.rank(); ++axis) axes.push_back(axis);
      const Value wrt[] = {x};
      b.result("y", y);
      b.result("dx", ir::differentiate(b, b.reshape(b.sum(b.mul(y, g), axes), {}), wrt)[0]);
      ir::PassContext context;
      if (decomposed) ir::decompose(module, context);
      ir::verify(module);
      ir::EvalState state;
      const std::vector<ir::Tensor> got = ir::evaluate(module, function, {c.x, c.g}, state);
      CHECK(largest_difference(got[0], c.y) < 1e-13);
      CHECK(largest_difference(got[1], c.dx) < 1e-12);
    }
  }
}

}  // namespace
}  // namespace rewire
