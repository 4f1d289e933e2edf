// Attention and its gradient as CUDA text against the evaluator: f32 by fused multiply-adds, bf16 on the
// twins of tensor cores, at token counts and widths that do not divide a tile of 16. Softmax and sums are
// f32; what bf16 costs is the rounding of p and ds before their products.
#include <fmt/format.h>

#include <span>

#include "codegen/cuda/emit.h"
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

/// Heads of which 99 kB of shared memory hold k and v and a few queries. The queries are walked in windows of 32
/// or 16, which divide them or not.
constexpr Heads kWalked[] = {{1, 2, 197, 197, 64},
                             {1, 1, 256, 256, 64},
                             {1, 1, 150, 131, 64},
                             {2, 1, 130, 190, 80},
                             {1, 1, 128, 128, 96},
                             {1, 1, 300, 177, 33},
                             {1, 1, 257, 255, 44},
                             {1, 1, 330, 201, 32},
                             {1, 1, 530, 40, 64},
                             {1, 1, 210, 210, 64, 1, 0, ", causal = true"},
                             {1, 2, 230, 230, 40, 1, 0, ", bias = true"}};

/// Heads of which a block holds a tile of queries and walks tiles of keys, or the other way about.
constexpr Heads kTiled[] = {
    {1, 2, 300, 300, 64, 1, 0, ", causal = true"},
    {1, 1, 257, 400, 33},
    {2, 1, 400, 257, 128},
    {1, 1, 513, 513, 40, 2, 0, ", causal = true, window = 100"},
    {1, 1, 320, 320, 64, 3, 48, ", causal = true, window = 5"},
    {1, 1, 290, 290, 96, 2, 0, ", documents = true"},
    {1, 1, 270, 270, 80, 1, 104, ", causal = true, documents = true"},
    {1, 2, 265, 265, 32, 1, 0, ", bias = true"},
    {1, 1, 384, 384, 16, 2, 24, ", causal = true, window = 65, bias = true, documents = true"},
    {1, 1, 3, 301, 64, 2},
    {1, 1, 20, 250, 128, 2},
    {1, 1, 301, 3, 64}};

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

std::vector<std::string> texts_of(std::span<const Heads> all, const std::string& dtype) {
  std::vector<std::string> texts;
  for (const Heads& heads : all) texts.push_back(text_of(heads, dtype));
  return texts;
}

struct Expected {
  std::string text;
  std::vector<std::string> names;
  std::vector<ir::Tensor> results;
};

/// As text_of, with q and the gradient of o transposed in memory, so that no packets of channels can be copied.
std::string transposed(const Heads& s) {
  const auto tensor = [&](int rows, int columns) {
    return fmt::format("bf16[{},{},{},{}]", s.batch, s.heads, rows, columns);
  };
  std::string text = text_of(s, "bf16");
  const std::string stored = tensor(s.width, s.queries), read = tensor(s.queries, s.width);
  text.replace(text.find("%q: " + read), 4 + read.size(), "%qt: " + stored);
  text.replace(text.find("%g: " + read), 4 + read.size(), "%gt: " + stored);
  std::string views;
  for (const char* name : {"q", "g"})
    views += fmt::format("    %{0} = transpose %{0}t {{permutation = [0, 1, 3, 2]}} : {1}\n", name, read);
  return text.insert(text.find("    %o, %l"), views);
}

/// The gradient of heads with the sums over all tokens that the gradients of biases are: of one projection to q, k
/// and v, or of three.
std::string summed(const Heads& s, bool one_projection) {
  const std::string heads = fmt::format("bf16[{},{},{},{}]", s.batch, s.heads, s.queries, s.width);
  const std::string lse = fmt::format("f32[{},{},{},1]", s.batch, s.heads, s.queries);
  const auto rows = [&](const char* dtype, int width) {
    return fmt::format("{}[{},{},{}]", dtype, s.batch, s.queries, width);
  };
  const int channels = s.heads * s.width, width = one_projection ? 3 * channels : channels;
  std::string body, results, types;
  const auto add_up = [&](const std::string& name, const std::string& of, const std::string& permutation) {
    const std::string swapped = one_projection
                                    ? fmt::format("bf16[{},{},3,{},{}]", s.batch, s.queries, s.heads, s.width)
                                    : fmt::format("bf16[{},{},{},{}]", s.batch, s.queries, s.heads, s.width);
    body += fmt::format(
        "    %t{0} = transpose %{1} {{permutation = {2}}} : {3}\n"
        "    %r{0} = reshape %t{0} : {4}\n"
        "    %c{0} = cast %r{0} : {5}\n"
        "    %s{0} = sum %c{0} {{axes = [0, 1]}} : f32[1,1,{6}]\n",
        name, of, permutation, swapped, rows("bf16", width), rows("f32", width), width);
    results += fmt::format("{0}r{1} = %r{1}, s{1} = %s{1}", results.empty() ? "" : ", ", name);
    types += fmt::format("{0}r{1}: {2}, s{1}: f32[1,1,{3}]", types.empty() ? "" : ", ", name,
                         rows("bf16", width), width);
  };
  if (one_projection) {
    const std::string part = fmt::format("bf16[1,{},{},{},{}]", s.batch, s.heads, s.queries, s.width);
    for (const char* name : {"dq", "dk", "dv"})
      body += fmt::format("    %{0}1 = reshape %{0} : {1}\n", name, part);
    body += fmt::format("    %all = concat %dq1, %dk1, %dv1 {{axis = 0}} : bf16[3,{},{},{},{}]\n", s.batch,
                        s.heads, s.queries, s.width);
    add_up("", "all", "[1, 3, 0, 2, 4]");
  } else {
    // The exact sum of dk is 0, with which no rounded one can be compared.
    for (const char* name : {"dq", "dv"}) add_up(name, name, "[0, 2, 1, 3]");
  }
  return fmt::format(
      "module @m {{\n"
      "  func @main(%q: {0}, %k: {0}, %v: {0}, %g: {0}) -> ({2}) {{\n"
      "    %o, %l = attention %q, %k, %v {{scale = 0.3}} : {0}, {1}\n"
      "    %dq, %dk, %dv = attention_grad %q, %k, %v, %o, %l, %g {{scale = 0.3}} : {0}, {0}, {0}\n"
      "{3}"
      "    return {4}\n"
      "  }}\n"
      "}}\n",
      heads, lse, types, body, results);
}

/// Compares the results on a target with the evaluator's, and with each other's bits in other orders of
/// threads.
void check(const std::vector<std::string>& texts, double tolerance,
           const codegen::cuda::DeviceTarget& target) {
  DeviceCases cases(target);
  std::vector<Expected> expected;
  for (const std::string& text : texts) {
    Expected one{text, {}, {}};
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

TEST_CASE("attention and its gradient as CUDA text agree with the evaluator, in any order of threads") {
  const bool narrow = GENERATE(false, true);
  check(texts_of(kHeads, narrow ? "bf16" : "f32"), narrow ? 2e-2 : 1e-5, {});
}

TEST_CASE("a gradient that walks its queries in windows agrees with the evaluator, in any order of threads") {
  std::vector<std::string> texts = texts_of(kWalked, "bf16");
  texts.push_back(transposed({1, 1, 210, 203, 64}));
  check(texts, 2e-2, codegen::cuda::device_target(89));
}

TEST_CASE("attention that walks tiles agrees with the evaluator, in any order of threads") {
  const int arch = GENERATE(86, 90);
  std::vector<std::string> texts = texts_of(kTiled, "bf16");
  texts.push_back(transposed({1, 1, 310, 303, 64}));
  check(texts, 2e-2, codegen::cuda::device_target(arch));
}

TEST_CASE("sums of the gradient over the tokens, from its own kernel, agree with the evaluator's") {
  const int arch = GENERATE(89, 90);
  std::vector<std::string> texts;
  for (const Heads& heads : {Heads{3, 2, 50, 50, 24}, Heads{2, 2, 197, 197, 64}, Heads{1, 3, 33, 33, 20}}) {
    for (const bool one_projection : {true, false}) texts.push_back(summed(heads, one_projection));
  }
  check(texts, 2e-2, codegen::cuda::device_target(arch));
}

}  // namespace
}  // namespace rewire::cuda_shim
