// The passes one by one: in passes/<pass>.rir, each function @before… becomes what @after… says, up to dead
// ops and value numbers.
#include <string>

#include "ir/ops/op_info.h"
#include "ir/passes/channels_last.h"
#include "ir/passes/chunk_rows.h"
#include "ir/passes/constant_fold.h"
#include "ir/passes/cse.h"
#include "ir/passes/dce.h"
#include "ir/passes/decompose.h"
#include "ir/passes/mixed_precision.h"
#include "ir/passes/pointwise_convolution.h"
#include "ir/passes/recompute.h"
#include "ir/passes/specialise_training.h"
#include "ir/passes/split_pointwise.h"
#include "ir/passes/widen_convolutions.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/ir_passes/goldens.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"

namespace rewire::ir {
namespace {

void check_golden(const std::string& name, PassFunction pass, std::int64_t chunk_bytes = 0) {
  const Module before = load_golden("passes/" + name);
  Module after = before;
  PassContext context;
  context.chunk_bytes = chunk_bytes;
  pass(after, context);
  verify(after);
  int checked = 0;
  for (const Function& function : before.functions) {
    if (!function.name.starts_with("before")) continue;
    CAPTURE(function.name);
    CHECK(text_of(after, function.name) == text_of(before, "after" + function.name.substr(6)));
    ++checked;
  }
  CHECK(checked > 0);
}

}  // namespace

TEST_CASE("decompose replaces composites by their parts", "[ir][passes]") {
  check_golden("decompose", decompose);
}

TEST_CASE("widen_convolutions takes f32 where a backend has no convolution of bf16", "[ir][passes]") {
  check_golden("widen_convolutions", widen_convolutions);
}

TEST_CASE("widen_convolutions leaves those that the backend computes", "[ir][passes]") {
  const Module before = load_golden("passes/widen_convolutions");
  Module after = before;
  PassContext context;
  context.narrow_convolution = [](Opcode code, const ConvShape& shape, bool channels_last) {
    return code == Opcode::conv2d && shape.outputs == 3 && channels_last;
  };
  widen_convolutions(after, context);
  verify(after);
  CHECK(text_of(after, "before_forward") == text_of(before, "before_forward"));
  CHECK(text_of(after, "before_narrow") == text_of(before, "after_narrow"));
}

TEST_CASE("decompose leaves no op that has a decomposition, for every composite", "[ir][passes]") {
  for (const OpInfo& info : op_table()) {
    if (info.decompose == nullptr) continue;
    CAPTURE(info.name);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      CAPTURE(seed);
      Module module = testing::random_op_case(info.code, seed).module;
      PassContext context;
      decompose(module, context);
      verify(module);
      for (const Op& op : module.functions[0].body) CHECK(op_info(op.code).decompose == nullptr);
    }
  }
}

TEST_CASE("channels_last keeps maps with their channels last from one convolution to the next",
          "[ir][passes]") {
  check_golden("channels_last", channels_last);
}

TEST_CASE("pointwise_convolution makes products of convolutions of one pixel", "[ir][passes]") {
  check_golden("pointwise_convolution", pointwise_convolution);
}

TEST_CASE("chunk_rows computes wide rows some at a time", "[ir][passes]") {
  constexpr std::int64_t kTwoRows = 64;
  check_golden("chunk_rows", chunk_rows, kTwoRows);
}

TEST_CASE("split_pointwise computes in parts what is read in parts alone", "[ir][passes]") {
  check_golden("split_pointwise", split_pointwise);
}

TEST_CASE("split_pointwise makes no more than kMostOps ops of a chain", "[ir][passes]") {
  const auto split = [](std::size_t ops) {
    std::string text = "module @m {\n  func @f(%v0: f32[2,6]) -> (r: f32[2,3]) {\n";
    for (std::size_t i = 1; i <= ops; ++i)
      text += "    %v" + std::to_string(i) + " = exp %v" + std::to_string(i - 1) + "\n";
    const std::string last = "%v" + std::to_string(ops);
    Module module = parse(
        text + "    %low = slice " + last + " {limits = [2, 3], starts = [0, 0]}\n    %high = slice " + last +
        " {limits = [2, 6], starts = [0, 3]}\n    %r = add %low, %high\n    return r = %r\n  }\n}\n");
    PassContext context;
    split_pointwise(module, context);
    verify(module);
    return module.functions[0].body.size();
  };
  constexpr std::size_t kOthers = 3;  // two slices and the sum
  CHECK(split(kMostOps / 2) == kMostOps + kOthers);
  CHECK(split(kMostOps / 2 + 1) == kMostOps / 2 + 1 + kOthers);
}

TEST_CASE("constant_fold computes what is known", "[ir][passes]") {
  check_golden("constant_fold", constant_fold);
}

TEST_CASE("cse merges equal ops and no others", "[ir][passes]") {
  check_golden("cse", cse);
}

TEST_CASE("mixed_precision computes products in bf16 and all else in f32", "[ir][passes]") {
  check_golden("mixed_precision", [](Module& module, PassContext&) {
    for (Function& function : module.functions) mixed_precision(module, function, {});
  });
}

TEST_CASE("mixed_precision keeps the stream in bf16 where it is asked to", "[ir][passes]") {
  check_golden("mixed_precision_stream", [](Module& module, PassContext&) {
    for (Function& function : module.functions) mixed_precision(module, function, {DType::bf16});
  });
}

TEST_CASE("dce drops what nothing reads", "[ir][passes]") {
  check_golden("dce", dce);
}

TEST_CASE("dce compacts the table of values and keeps unused parameters", "[ir][passes]") {
  Module module = load_golden("passes/dce");
  Function& function = module.function("before");
  CHECK(function.types.size() == 8);
  PassContext context;
  dce(module, context);
  CHECK(function.types.size() == 5);
  CHECK(function.body[0].results[0] == Value{1});
  Module unused = parse("module @m { param @w : f32[4] func @f() -> () { return } }");
  dce(unused, context);
  CHECK(unused.parameters.size() == 1);
  unused.drop_unused_parameters();
  CHECK(unused.parameters.empty());
}

TEST_CASE("recompute clones what is cheaper to have again than to hold, and nothing else", "[ir][passes]") {
  check_golden("recompute", recompute);
}

TEST_CASE("specialise_training folds is_training as each function says", "[ir][passes]") {
  const Module module = load_golden("passes/specialise_training");
  for (bool training : {true, false}) {
    Module copy = module;
    copy.function("before").trains = training;
    PassContext context;
    specialise_training(copy, context);
    CHECK(text_of(copy, "before") == text_of(module, training ? "after_true" : "after_false"));
  }
}

TEST_CASE("specialise_training folds the functions of one module apart", "[ir][passes]") {
  Module module = parse(R"rir(
module @m {
  func @step() -> (r: i1[]) training { %0 = is_training : i1[] return r = %0 }
  func @eval() -> (r: i1[]) { %0 = is_training : i1[] return r = %0 }
  func @grad() -> (r: i1[]) training { %0 = is_training : i1[] return r = %0 }
}
)rir");
  PassContext context;
  specialise_training(module, context);
  const auto answer = [&](const char* name) {
    return module.function(name).body[0].attributes.get_double("value");
  };
  CHECK(answer("step") == 1);
  CHECK(answer("eval") == 0);
  CHECK(answer("grad") == 1);
}

}  // namespace rewire::ir
