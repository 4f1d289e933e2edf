// What the passes did, as the explorer is told.
#include "runtime/explore/stages.h"

#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

TEST_CASE("a pass is told with the places whose ops changed") {
  const auto module_of = [](const std::string& ops) {
    return ir::parse("module @m {\n  func @f(%x: f32[3]) -> (y: f32[3]) {\n" + ops +
                     "    return y = %c\n  }\n}\n");
  };
  const ir::Module before = module_of(R"(    %a = exp %x : f32[3] loc("one")
    %b = tanh %a : f32[3] loc("two")
    %c = neg %b : f32[3]
)");
  const ir::Module after = module_of(R"(    %a = exp %x : f32[3] loc("one")
    %b = sin %a : f32[3] loc("two")
    %d = cos %b : f32[3] loc("two")
    %c = neg %d : f32[3]
)");
  ir::PassContext context;
  PassLog log(context, before);
  context.times.push_back({"dce", std::chrono::milliseconds(2)});
  context.on_change("dce", ir::print(after));
  context.on_change("launches", "program f\n");  // no module: not told
  const nlohmann::ordered_json passes = log.json();
  REQUIRE(passes.size() == 1);
  CHECK(
      passes[0].dump() ==
      R"({"name":"dce","ms":2.0,"ops_before":3,"ops_after":4,"places":[{"at":"two","removed":{"tanh":1},"added":{"cos":1,"sin":1}}]})");
}

TEST_CASE("an op is its line without its place") {
  const ir::Module module = ir::parse(R"(module @m {
  param @w : f32[3] {block = 2, role = "norm"}
  func @f(%x: f32[3]) -> (y: f32[3]) {
    %0 = param {name = "w"} : f32[3] loc("blocks.2.norm")
    %1 = mul %x, %0 : f32[3]
    return y = %1
  }
}
)");
  const nlohmann::ordered_json json = module_json(module);
  CHECK(json["parameters"][0].dump() ==
        R"({"name":"w","type":"f32[3]","role":"norm","site":"","block":2,"trainable":true})");
  const auto& ops = json["functions"][0]["ops"];
  CHECK(ops[0].dump() ==
        R"({"text":"%0 = param {name = \"w\"} : f32[3]","op":"param","at":"blocks.2.norm"})");
  CHECK(ops[1].dump() == R"({"text":"%1 = mul %x, %0 : f32[3]","op":"mul","at":""})");
}

}  // namespace
}  // namespace rewire::runtime
