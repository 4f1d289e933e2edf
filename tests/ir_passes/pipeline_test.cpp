// The pipeline as a whole: what it leaves, what it reports, and that it changes no result.
#include <string>
#include <vector>

#include "ir/ops/op_info.h"
#include "ir/passes/pass.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"

namespace rewire::ir {
namespace {

const std::string kSmall = R"rir(module @m {
  func @f(%x: f32[2,3]) -> (r: f32[2,3]) {
    %0 = constant : f32[2,3]
    %1 = add %x, %0 : f32[2,3]
    return r = %1
  }
}
)rir";

}  // namespace

TEST_CASE("The pipeline simplifies", "[ir][pipeline]") {
  Module module = parse(kSmall);
  PassContext context;
  run_pipeline(module, context);
  CHECK(module.functions[0].body.empty());
}

TEST_CASE("on_change is called with changed IR only, times are filled for every pass", "[ir][pipeline]") {
  Module module = parse(kSmall);
  PassContext context;
  std::vector<std::string> passes;
  std::string last = print(module);
  context.on_change = [&](std::string_view pass, const std::string& text) {
    CHECK(text != last);
    last = text;
    passes.emplace_back(pass);
  };
  run_pipeline(module, context);
  CHECK(last == print(module));
  CHECK(passes == std::vector<std::string>{"canonicalise", "dce"});
  REQUIRE(context.times.size() > 5);
  CHECK(context.times.front().pass == "specialise_training");
  for (const PassTime& time : context.times) CHECK(time.seconds.count() >= 0);
}

TEST_CASE("A program that the pipeline made is one that it leaves alone", "[ir][pipeline]") {
  for (const OpInfo& info : op_table()) {
    if (!testing::has_op_case(info.code)) continue;
    CAPTURE(info.name);
    Module module = testing::random_op_case(info.code, 7).module;
    PassContext context;
    run_pipeline(module, context);
    const std::string once = print(module);
    run_pipeline(module, context);
    CHECK(print(module) == once);
  }
}

}  // namespace rewire::ir
