// Attention and its gradient as CUDA text against the evaluator: f32 by fused multiply-adds, bf16 on the
// twins of tensor cores, at token counts and widths that do not divide a tile of 16. Softmax and sums are
// f32; what bf16 costs is the rounding of p and ds before their products.
#include <fmt/format.h>

#include "ir/evaluate.h"
#include "ir/text.h"
#include "tests/cuda_shim/device_cases.h"
#include "tests/support/accuracy.h"
#include "tests/support/bf16_tensors.h"
#include "tests/support/catch.h"

namespace rewire::cuda_shim {
namespace {

/// `heads` heads of keys. If there are documents, they have 30 tokens.
struct Heads {
  int batch, heads, queries, keys, width;
  int groups = 1, value_width = 0;  // 0: width
  std::string_view form = "";       // further attributes
};

constexpr Heads kHeads[] = {
    {1, 1, 1, 1, 8},
    {2, 2, 17, 17, 20},
    {1, 2, 50, 50, 33},
    {2, 1, 65, 65, 64},
    {1, 1, 197, 197, 32},
    {1, 1, 33, 130, 80},
    {1, 1, 130, 33, 16},
    {1, 1, 257, 300, 24},
    {2, 3, 5, 5, 48},
    {1, 2, 197, 197, 64},
    {1, 1, 40, 72, 128},
    {1, 1, 197, 197, 104},
    {1, 2, 37, 50, 16, 2},
    {1, 1, 70, 70, 32, 3, 48},
    {1, 1, 50, 50, 24, 1, 40},
    {2, 1, 130, 130, 32, 1, 0, ", causal = true"},
    {1, 1, 300, 300, 64, 2, 0, ", causal = true"},
    {1, 1, 200, 200, 16, 1, 24, ", causal = true, window = 50"},
    {1, 2, 65, 65, 32, 1, 0, ", bias = true"},
    {2, 1, 100, 100, 32, 1, 0, ", documents = true"},
    {1, 1, 90, 90, 16, 2, 8, ", causal = true, window = 40, bias = true, documents = true"}};

/// Forward and gradient of heads that are windows of one projection, where there are as many queries as keys.
std::string text_of(const Heads& s, const std::string& dtype) {
  const int heads = s.heads * s.groups, value_width = s.value_width > 0 ? s.value_width : s.width;
  const auto tensor = [&](int of, int tokens, int width) {
    return fmt::format("{}[{},{},{},{}]", dtype, s.batch, of, tokens, width);
  };
  const std::string q = tensor(heads, s.queries, s.width), k = tensor(s.heads, s.keys, s.width);
  const std::string v = tensor(s.heads, s.keys, value_width), o = tensor(heads, s.queries, value_width);
  const std::string l = fmt::format("f32[{},{},{},1]", s.batch, heads, s.queries);
  std::string arguments, optional, prologue;
  if (s.form.find("bias") != s.form.npos) {
    arguments = fmt::format(", %bias: f32[1,{},1,{}]", heads, s.keys);
    optional = ", %bias";
  }
  if (s.form.find("documents") != s.form.npos) {
    const std::string numbers = fmt::format("[{},{}]", s.batch, s.queries);
    prologue = fmt::format(
        "    %t = iota {{axis = 1}} : f32{0}\n"
        "    %thirtieths = constant {{value = 0.0334}} : f32{0}\n"
        "    %part = mul %t, %thirtieths : f32{0}\n"
        "    %whole = floor %part : f32{0}\n"
        "    %documents = cast %whole : i32{0}\n",
        numbers);
    optional += ", %documents";
  }
  const std::string attributes = fmt::format("{{scale = 0.3{}}}", s.form);
  return fmt::format(
      "module @m {{\n"
      "  func @main(%q: {0}, %k: {1}, %v: {2}, %g: {3}{5}) -> (o: {3}, l: {4}, dq: {0}, dk: {1}, dv: {2}) "
      "{{\n"
      "{6}"
      "    %o, %l = attention %q, %k, %v{7} {8} : {3}, {4}\n"
      "    %dq, %dk, %dv = attention_grad %q, %k, %v, %o, %l, %g{7} {8} : {0}, {1}, {2}\n"
      "    return o = %o, l = %l, dq = %dq, dk = %dk, dv = %dv\n"
      "  }}\n"
      "}}\n",
      q, k, v, o, l, arguments, prologue, optional, attributes);
}

struct Expected {
  std::string text;
  std::vector<std::string> names;
  std::vector<ir::Tensor> results;
};

TEST_CASE("attention and its gradient as CUDA text agree with the evaluator, in any order of threads") {
  const bool narrow = GENERATE(false, true);
  const std::string dtype = narrow ? "bf16" : "f32";
  const double tolerance = narrow ? 2e-2 : 1e-5;
  DeviceCases cases;
  std::vector<Expected> expected;
  for (const Heads& heads : kHeads) {
    Expected one{text_of(heads, dtype), {}, {}};
    const ir::Module module = ir::parse(one.text, "test.rir");
    const ir::Function& main = module.function("main");
    const std::vector<ir::Tensor> inputs = testing::bf16_arguments(main, 7);
    ir::EvalState state;
    one.results = ir::evaluate(module, main, inputs, state);
    for (const ir::Argument& result : main.results) one.names.push_back(result.name);
    cases.add(module, inputs, {}, true);
    expected.push_back(std::move(one));
  }
  cases.compile();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const CaseRun run = cases.run(i);
    for (std::size_t r = 0; r < expected[i].results.size(); ++r) {
      INFO(expected[i].text << "result " << expected[i].names[r]);
      CHECK(testing::scaled_error(expected[i].results[r],
                                  runtime::to_double(run.results.at(expected[i].names[r])), 0) <= tolerance);
    }
    for (const std::uint64_t order : {std::uint64_t{2}, std::uint64_t{3}}) {
      INFO(expected[i].text << "order " << order);
      CHECK(differing(run, cases.run(i, order_of_seed(order))) == std::vector<std::string>{});
    }
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
