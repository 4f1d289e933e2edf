// What choose_lowerings asks, and that nothing changes where nobody answers.
#include "ir/passes/choose_lowerings.h"

#include <algorithm>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

class Recorder final : public Chooser {
 public:
  std::string choose(const Choice& choice) override {
    asked.push_back(choice);
    return choice.candidates.back();
  }
  std::vector<Choice> asked;
};

/// y = x C(c) for x [a, b, q n], twice; with their gradients if `trains`.
Module products(const Shape& leading, DType dtype, bool trains, std::int64_t lags = 6) {
  Module module;
  Function& main = module.functions.emplace_back();
  main.name = "main";
  Builder b(module, main);
  Shape shape = leading;
  shape.push_back(2 * lags);
  const Value x = b.argument("x", {dtype, shape}), c = b.argument("c", {dtype, {2, 2, lags}});
  Value y = b.emit(Opcode::circulant_matmul, {x, c});
  y = b.emit(Opcode::circulant_matmul, {y, c});
  b.result("y", y);
  if (!trains) return module;
  Ints axes;
  for (std::int64_t axis = 0; axis < b.type(y).rank(); ++axis) axes.push_back(axis);
  const Value wrt[] = {x, c};
  const std::vector<Value> gradients = differentiate(b, b.reshape(b.sum(y, axes), {}), wrt);
  b.result("dx", gradients[0]);
  b.result("dc", gradients[1]);
  return module;
}

std::vector<std::string> keys(Module module) {
  Recorder recorder;
  PassContext context;
  context.chooser = &recorder;
  choose_lowerings(module, context);
  std::vector<std::string> keys;
  for (const Choice& choice : recorder.asked) keys.push_back(choice.key);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

}  // namespace

TEST_CASE("All products of one shape are one choice, told by sizes, dtype and what surrounds them",
          "[ir][passes]") {
  CHECK(keys(products({3, 5}, DType::f32, false)) ==
        std::vector<std::string>{"circulant_matmul conv rows=15 blocks=2x2 lags=6 f32 forward"});
  CHECK(keys(products({15}, DType::f32, true)) ==
        std::vector<std::string>{"circulant_matmul conv rows=15 blocks=2x2 lags=6 f32 training"});
  CHECK(keys(products({100000}, DType::f64, false)) ==
        std::vector<std::string>{"circulant_matmul conv rows=4096 blocks=2x2 lags=6 f64 forward"});
}

TEST_CASE("Where products may be of TF32 the choice is another one, and so is its trial", "[ir][passes]") {
  Module module = products({15}, DType::f32, false);
  allow_tf32(module, true);
  CHECK(keys(module) ==
        std::vector<std::string>{"circulant_matmul conv rows=15 blocks=2x2 lags=6 f32 tf32 forward"});
  Recorder recorder;
  PassContext context;
  context.chooser = &recorder;
  choose_lowerings(module, context);
  for (const std::string& candidate : recorder.asked[0].candidates)
    CHECK(allows_tf32(recorder.asked[0].trial(candidate)));
  Module wide = products({15}, DType::f64, false);
  allow_tf32(wide, true);
  CHECK(keys(wide) ==
        std::vector<std::string>{"circulant_matmul conv rows=15 blocks=2x2 lags=6 f64 forward"});
}

TEST_CASE("Where there is one way, or nobody to ask, nothing is asked", "[ir][passes]") {
  CHECK(keys(products({15}, DType::bf16, true)).empty());
  CHECK(keys(products({15}, DType::f32, true, 1)).empty());
  Module module = products({15}, DType::f32, true);
  const std::string before = print(module);
  PassContext context;
  choose_lowerings(module, context);
  CHECK(print(module) == before);
}

TEST_CASE("The answer stands in every op, and each candidate's trial is a program", "[ir][passes]") {
  Module module = products({15}, DType::f32, true);
  Recorder recorder;
  PassContext context;
  context.chooser = &recorder;
  choose_lowerings(module, context);
  verify(module);
  int ops = 0;
  for (const Op& op : module.functions[0].body) {
    if (op.code != Opcode::circulant_matmul && op.code != Opcode::circulant_matmul_grad) continue;
    CHECK(op.attributes.get_string("lowering") == recorder.asked[0].candidates.back());
    ++ops;
  }
  CHECK(ops == 6);
  CHECK(recorder.asked[0].candidates.size() == 3);  // dense, split2, fft: 6 lags are no multiple of 4
  for (const std::string& candidate : recorder.asked[0].candidates) {
    Module trial = recorder.asked[0].trial(candidate);
    verify(trial);
    PassContext untrained;
    run_pipeline(trial, untrained);
    verify(trial);
    CHECK(trial.functions[0].results.size() == 4);
  }
}

}  // namespace rewire::ir
