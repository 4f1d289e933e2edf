// bf16 storage with f32 arithmetic on the compiling engine: matrix products in every layout, attention and
// its gradient, against the evaluator.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "ir/evaluate.h"
#include "ir/text.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/accuracy.h"
#include "tests/support/bf16_tensors.h"
#include "tests/support/catch.h"

using namespace rewire;

namespace {

/// Each result within `arithmetic` of the evaluator's and what storing it costs.
void check(const std::string& text, double arithmetic, std::uint64_t seed) {
  const ir::Module module = ir::parse("module @m {\n" + text + "}\n", "test.rir");
  const ir::Function& main = module.function("main");
  const std::vector<ir::Tensor> inputs = testing::bf16_arguments(main, seed);
  ir::EvalState state;
  const std::vector<ir::Tensor> expected = ir::evaluate(module, main, inputs, state);
  for (const bool fuse : {true, false}) {
    const testing::JitRun run = testing::run_jit(module, inputs, {}, fuse, 2);
    for (std::size_t r = 0; r < expected.size(); ++r) {
      INFO(text << "seed " << seed << ", fuse " << fuse << ", result " << main.results[r].name);
      CHECK(testing::scaled_error(expected[r], run.results[r], 0) <=
            arithmetic + testing::storage_error(expected[r].type.dtype));
    }
  }
}

struct Heads {
  int batch, heads, queries, keys, width;
};

std::string attention(const Heads& s, const std::string& body, const std::string& results) {
  const std::string q = fmt::format("bf16[{},{},{},{}]", s.batch, s.heads, s.queries, s.width);
  const std::string k = fmt::format("bf16[{},{},{},{}]", s.batch, s.heads, s.keys, s.width);
  const std::string lse = fmt::format("f32[{},{},{},1]", s.batch, s.heads, s.queries);
  std::string text = fmt::format(
      "  func @main(%q: $q, %k: $k, %v: $k, %g: $q) -> ({}) {{\n"
      "    %o, %l = attention %q, %k, %v {{scale = 0.3}} : $q, $l\n{}  }}\n",
      results, body);
  for (const auto& [name, type] : {std::pair<std::string, std::string>{"$q", q}, {"$k", k}, {"$l", lse}}) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name))
      text.replace(at, name.size(), type);
  }
  return text;
}

constexpr Heads kHeads[] = {
    {1, 1, 1, 1, 1}, {2, 3, 5, 5, 7}, {1, 2, 17, 33, 16}, {2, 1, 50, 50, 64}, {1, 1, 300, 260, 9}};

}  // namespace

TEST_CASE("a bf16 matmul in any layout is exact to one rounding") {
  for (const auto& [m, k, n] : {std::array{1, 1, 1}, {5, 7, 3}, {33, 17, 65}, {130, 96, 40}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const auto head = fmt::format(
            "  param @b : f32[{n}] {{init = \"ones\"}}\n"
            "  func @main(%a: bf16[{a}], %b: bf16[{b}]) -> (y: bf16[{m},{n}], w: f32[{m},{n}]) {{\n"
            "    %p = matmul %a, %b {{transpose_a = {ta}, transpose_b = {tb}}} : bf16[{m},{n}]\n"
            "    %q = matmul %a, %b {{transpose_a = {ta}, transpose_b = {tb}}} : bf16[{m},{n}]\n"
            "    %w = cast %q : f32[{m},{n}]\n    return y = %p, w = %w\n  }}\n",
            fmt::arg("m", m), fmt::arg("n", n),
            fmt::arg("a", transpose_a ? fmt::format("{},{}", k, m) : fmt::format("{},{}", m, k)),
            fmt::arg("b", transpose_b ? fmt::format("{},{}", n, k) : fmt::format("{},{}", k, n)),
            fmt::arg("ta", transpose_a), fmt::arg("tb", transpose_b));
        check(head, 4e-3, 1);  // w may be rounded to bf16 on its way: CSE makes it the product's cast
      }
    }
  }
}

TEST_CASE("attention in bf16 is exact to the rounding of its result, its log-sum-exp to f32") {
  for (const Heads& heads : kHeads) {
    check(attention(heads, "    return o = %o, l = %l\n", "o: $q, l: $l"), 2e-6, 2);
  }
}

TEST_CASE("the gradient of attention in bf16 is that of the output it is given") {
  // The output is rounded before the gradient reads it: <do, o> is off by up to 2^-9 of |do| |o|.
  for (const Heads& heads : kHeads) {
    check(attention(heads,
                    "    %dq, %dk, %dv = attention_grad %q, %k, %v, %o, %l, %g {scale = 0.3} : $q, $k, $k\n"
                    "    return dq = %dq, dk = %dk, dv = %dv\n",
                    "dq: $q, dk: $k, dv: $k"),
          4e-3, 3);
  }
}

TEST_CASE(
    "a NaN in one head of bf16 attention stays in it, and an infinite logit gives no number from nowhere") {
  const ir::Module module = ir::parse(
      "module @m {\n" + attention({1, 2, 4, 4, 3}, "    return o = %o\n", "o: $q") + "}\n", "test.rir");
  const ir::Function& main = module.function("main");
  std::vector<ir::Tensor> inputs = testing::bf16_arguments(main, 4);
  inputs[0].data[0] = std::nan("");  // head 0, query 0
  inputs[1].data[12] = INFINITY;     // head 1, key 0
  ir::EvalState state;
  const std::vector<ir::Tensor> expected = ir::evaluate(module, main, inputs, state);
  const testing::JitRun run = testing::run_jit(module, inputs, {}, true);
  for (std::size_t i = 0; i < expected[0].data.size(); ++i) {
    CAPTURE(i);
    CHECK(std::isnan(run.results[0].data[i]) == std::isnan(expected[0].data[i]));
  }
}
