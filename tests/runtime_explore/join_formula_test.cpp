// Formulas read off small modules: what is written, in which order, and with which parentheses.
#include "runtime/explore/join_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/opcodes.h"
#include "ir/text.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

/// One join of a stream and a branch of 4 channels. `ops` are a plugin's, which is called mine, and `terms` what the join adds up.
/// `behind`: ops after it.
ir::Module module_of(const std::string& ops, const std::string& terms, const std::string& behind = "") {
  const bool shortcut = std::ranges::count(terms, ',') > 1;
  std::string text = fmt::format(R"(module @example {{
  param @blocks.0.join_attn.gamma : f32[1,1,4]
  param @blocks.0.join_attn.alpha_1 : f32[4,4]
  func @forward(%image: f32[2,3,4]) -> (features: f32[2,3,4]) {{
    %x = tanh %image : f32[2,3,4] loc("patch_embed")
    %h = exp %x : f32[2,3,4] loc("blocks.0.norm1")
    %f = sin %h : f32[2,3,4] loc("blocks.0.attn.proj")
    {}
    %join = residual %x, %f, %h{} {{block = 0, branch_owner = "mine", has_shortcut = {}, heads = 1, join_count = 1,
      join_index = 0, last_weight = "blocks.0.attn.proj.weight", shortcut_owner = "mine", site = "attn"}} : f32[2,3,4]
      loc("blocks.0.attn")
    {}
    return features = %join
  }}
}}
)",
                                 ops, terms, shortcut, behind);
  for (std::size_t at = 0; (at = text.find("HERE", at)) != std::string::npos;)
    text.replace(at, 4, "loc(\"blocks.0.attn.mine\")");
  return ir::parse(text);
}

JoinFormulas formulas_of(const std::string& ops, const std::string& terms, const std::string& behind = "") {
  const auto all = join_formulas(module_of("", ", %x, %f"), module_of(ops, terms, behind), {"mine"});
  REQUIRE(all.size() == 1);
  return all.front();
}

std::vector<std::string> lines_of(const JoinFormulas& join) {
  std::vector<std::string> lines;
  for (const Formula& formula : join.formulas) lines.push_back(formula.text);
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("a join that nobody rewrote is x + f") {
  const JoinFormulas join = formulas_of("", ", %x, %f");
  CHECK(join.at == "blocks.0.attn");
  CHECK_FALSE(join.rewritten);
  CHECK(join.plain.text == "y = x + f");
  CHECK(lines_of(join) == Lines{"y = x + f"});
  CHECK(join.plain.mathml ==
        "<math display=\"block\"><mi>y</mi><mo>=</mo><mrow><mi>x</mi><mo>+</mo><mi>f</mi></mrow></math>");
}

TEST_CASE("a join without its shortcut is f") {
  CHECK(lines_of(formulas_of("", ", %f")) == Lines{"y = f"});
  CHECK(formulas_of("", ", %f").rewritten);
}

TEST_CASE("weights are symbols with their names, and are read through reshapes and broadcasts") {
  const JoinFormulas join = formulas_of(R"(
    %w = param {name = "blocks.0.join_attn.gamma"} : f32[1,1,4] HERE
    %wide = broadcast %w : f32[2,3,4] HERE
    %scaled = mul %wide, %f : f32[2,3,4] HERE
)",
                                        ", %x, %scaled");
  CHECK(lines_of(join) == Lines{"y = x + γ f"});
  const auto symbol = std::ranges::find(join.symbols, "γ", &FormulaSymbol::name);
  REQUIRE(symbol != join.symbols.end());
  CHECK(symbol->meaning == "the weight blocks.0.join_attn.gamma");
}

TEST_CASE("sums over channels of a product are inner products and norms, fractions keep their parentheses") {
  const JoinFormulas join = formulas_of(R"(
    %xf = mul %x, %f : f32[2,3,4] HERE
    %dot = sum %xf {axes = [2]} : f32[2,3,1] HERE
    %xx = mul %x, %x : f32[2,3,4] HERE
    %norm = sum %xx {axes = [2]} : f32[2,3,1] HERE
    %ratio = div %dot, %norm : f32[2,3,1] HERE
    %wide = broadcast %ratio : f32[2,3,4] HERE
    %along = mul %wide, %x : f32[2,3,4] HERE
    %across = sub %f, %along : f32[2,3,4] HERE
)",
                                        ", %x, %across");
  CHECK(lines_of(join) == Lines{"y = x + f − (⟨x, f⟩ / ‖x‖²) x"});
  CHECK(join.formulas[0].mathml.find("<mfrac>") != std::string::npos);
}

TEST_CASE("a number stands before what it multiplies; a difference on the right of one is in parentheses") {
  const JoinFormulas join = formulas_of(R"(
    %half = constant {value = 0.5} : f32[] HERE
    %one = reshape %half : f32[1,1,1] HERE
    %wide = broadcast %one : f32[2,3,4] HERE
    %scaled = mul %x, %wide : f32[2,3,4] HERE
    %inner = sub %h, %f : f32[2,3,4] HERE
    %outer = sub %scaled, %inner : f32[2,3,4] HERE
)",
                                        ", %outer, %f");
  CHECK(lines_of(join) == Lines{"y = 0.5 x − (h − f) + f"});
}

TEST_CASE("what is used twice has a line of its own, the mean of squares its name") {
  const JoinFormulas join = formulas_of(R"(
    %sum = add %x, %f : f32[2,3,4] HERE
    %square = mul %sum, %sum : f32[2,3,4] HERE
    %total = sum %square {axes = [2]} : f32[2,3,1] HERE
    %four = constant {value = 4.0} : f32[] HERE
    %count = reshape %four : f32[1,1,1] HERE
    %counts = broadcast %count : f32[2,3,1] HERE
    %mean = div %total, %counts : f32[2,3,1] HERE
    %scale = rsqrt %mean : f32[2,3,1] HERE
    %wide = broadcast %scale : f32[2,3,4] HERE
    %normed = mul %sum, %wide : f32[2,3,4] HERE
)",
                                        ", %normed");
  CHECK(lines_of(join) == Lines{"a = x + f", "y = a (1 / √mean(a²))"});
}

TEST_CASE("a product with a matrix, a slice and a sum over tokens") {
  const JoinFormulas join = formulas_of(R"(
    %w = param {name = "blocks.0.join_attn.alpha_1"} : f32[4,4] HERE
    %moved = matmul %h, %w {transpose_b = true} : f32[2,3,4] HERE
    %first = slice %f {limits = [2, 3, 2], starts = [0, 0, 0]} : f32[2,3,2] HERE
    %twice = concat %first, %first {axis = 2} : f32[2,3,4] HERE
    %tokens = sum %x {axes = [1]} : f32[2,1,4] HERE
    %wide = broadcast %tokens : f32[2,3,4] HERE
)",
                                        ", %moved, %twice, %wide");
  CHECK(lines_of(join) == Lines{"a = f[…, 0:2]", "y = h α_1ᵀ + concat(a, a, axis=2) + sum over axes 1(x)"});
}

TEST_CASE("an elementwise product in a matrix product, and the other way round, are told apart") {
  const std::string weight = "%w = param {name = \"blocks.0.join_attn.alpha_1\"} : f32[4,4] HERE\n";
  const JoinFormulas inside = formulas_of(weight + R"(
    %scaled = mul %x, %f : f32[2,3,4] HERE
    %moved = matmul %scaled, %w : f32[2,3,4] HERE
)",
                                          ", %x, %moved");
  CHECK(lines_of(inside) == Lines{"y = x + (x f) α_1"});
  const JoinFormulas outside = formulas_of(weight + R"(
    %moved = matmul %f, %w : f32[2,3,4] HERE
    %scaled = mul %x, %moved : f32[2,3,4] HERE
)",
                                           ", %x, %scaled");
  CHECK(lines_of(outside) == Lines{"y = x + x (f α_1)"});
}

TEST_CASE("what tells an op from another of its name is written, a factor of 1 and a whole slice are not") {
  const JoinFormulas join = formulas_of(R"(
    %most = max %f {axes = [1]} : f32[2,1,4] HERE
    %wide = broadcast %most : f32[2,3,4] HERE
    %one = constant {value = 1.0} : f32[] HERE
    %ones = reshape %one : f32[1,1,1] HERE
    %all = broadcast %ones : f32[2,3,4] HERE
    %same = mul %x, %all : f32[2,3,4] HERE
    %larger = compare %x, %f {direction = "gt"} : i1[2,3,4] HERE
    %chosen = select %larger, %same, %wide : f32[2,3,4] HERE
    %whole = slice %h {limits = [2, 3, 4], starts = [0, 0, 0]} : f32[2,3,4] HERE
)",
                                        ", %chosen, %whole");
  CHECK(lines_of(join) == Lines{"y = select(x > f, x, max(f, axes=[1])) + h"});
}

TEST_CASE("a line's name is no symbol's, and of too many lines y stays") {
  std::string ops = "%w = param {name = \"blocks.0.join_attn.alpha_1\"} : f32[4,4] HERE\n";
  std::string last = "%x";
  for (int i = 0; i < 40; ++i) {
    ops += fmt::format(
        "    %s{0} = add {1}, %f : f32[2,3,4] HERE\n    %m{0} = mul %s{0}, %s{0} : f32[2,3,4] HERE\n", i,
        last);
    last = fmt::format("%m{}", i);
  }
  const JoinFormulas join = formulas_of(ops, ", %x, " + last);
  CHECK(join.formulas.size() <= kMostFormulas);
  CHECK(std::ranges::count(join.formulas, "y", &Formula::name) == 1);
  CHECK(std::ranges::count(join.formulas, "…", &Formula::name) == 1);
  for (const FormulaSymbol& symbol : join.symbols)
    CHECK(std::ranges::count(join.formulas, symbol.name, &Formula::name) == 0);
}

TEST_CASE("what two ops compute alike has one name") {
  const JoinFormulas join = formulas_of(R"(
    %a1 = mul %x, %f : f32[2,3,4] HERE
    %b1 = exp %a1 : f32[2,3,4] HERE
    %a2 = mul %x, %f : f32[2,3,4] HERE
    %b2 = exp %a2 : f32[2,3,4] HERE
    %c = mul %b1, %h : f32[2,3,4] HERE
)",
                                        ", %c, %b2");
  CHECK(lines_of(join) == Lines{"a = exp(x f)", "y = a h + a"});
}

/// A norm over the channels of the value, as `name`.
std::string norm_of(const std::string& name, const std::string& value) {
  std::string ops = R"(
    %s$ = sum @ {axes = [2]} : f32[2,3,1] HERE
    %n$ = constant {value = 4.0} : f32[] HERE
    %r$ = reshape %n$ : f32[1,1,1] HERE
    %w$ = broadcast %r$ : f32[2,3,1] HERE
    %m$ = div %s$, %w$ : f32[2,3,1] HERE
    %b$ = broadcast %m$ : f32[2,3,4] HERE
    %c$ = sub @, %b$ : f32[2,3,4] HERE
    %q$ = mul %c$, %c$ : f32[2,3,4] HERE
    %t$ = sum %q$ {axes = [2]} : f32[2,3,1] HERE
    %i$ = rsqrt %t$ : f32[2,3,1] HERE
    %j$ = broadcast %i$ : f32[2,3,4] HERE
    %$ = mul %c$, %j$ : f32[2,3,4] HERE
)";
  for (std::size_t at = 0; (at = ops.find_first_of("$@", at)) != std::string::npos; ++at)
    ops.replace(at, 1, ops[at] == '$' ? name : value);
  return ops;
}

TEST_CASE("what three parts compute alike of other operands is a function, defined once") {
  const std::string three = norm_of("k", "%x") + norm_of("l", "%f") + norm_of("o", "%h");
  CHECK(lines_of(formulas_of(three, ", %k, %l, %o")) ==
        Lines{"F(u) = (u − mean(u)) (1 / √(‖u − mean(u)‖²))", "y = F(x) + F(f) + F(h)"});
  // Two are written out: a function would be one line more.
  CHECK(lines_of(formulas_of(norm_of("k", "%x") + norm_of("l", "%f"), ", %k, %l")).size() == 3);
}

TEST_CASE("a function has an argument for each operand that differs, and reads the others by name") {
  const auto gate = [](int i, const char* value, const char* gated) {
    return fmt::format(R"(
    %p{0} = mul {1}, %h : f32[2,3,4] HERE
    %d{0} = sum %p{0} {{axes = [2]}} : f32[2,3,1] HERE
    %t{0} = tanh %d{0} : f32[2,3,1] HERE
    %w{0} = broadcast %t{0} : f32[2,3,4] HERE
    %a{0} = add %w{0}, %h : f32[2,3,4] HERE
    %g{0} = mul %a{0}, {2} : f32[2,3,4] HERE
)",
                       i, value, gated);
  };
  // The first has x for both arguments and cannot say which is which.
  const JoinFormulas join =
      formulas_of(gate(1, "%x", "%x") + gate(2, "%f", "%x") + gate(3, "%h", "%f"), ", %g1, %g2, %g3");
  CHECK(lines_of(join) == Lines{"F(u, v) = (tanh(⟨u, h⟩) + h) v", "y = F(x, x) + F(f, x) + F(h, f)"});
}

TEST_CASE("what later ops read of a plugin's is told with its reader") {
  const JoinFormulas join = formulas_of(R"(
    %kept = mul %h, %f : f32[2,3,4] HERE
)",
                                        ", %x, %f", R"(
    %later = exp %kept : f32[2,3,4] loc("blocks.1.attn")
)");
  CHECK(lines_of(join) == Lines{"y = x + f", "a = h f"});
  const auto symbol = std::ranges::find(join.symbols, "a", &FormulaSymbol::name);
  REQUIRE(symbol != join.symbols.end());
  CHECK(symbol->meaning == "what blocks.1.attn reads");
}

TEST_CASE("a report has its own name, and what else a step does with a value is told") {
  ir::Module module = module_of(R"(
    %gate = sum %f {axes = [0, 1, 2]} : f32[1,1,1] HERE
    %cost = max %f {axes = [0, 1, 2]} : f32[1,1,1] HERE
)",
                                ", %x, %f");
  ir::Function& forward = module.functions.front();
  for (const ir::Op& op : forward.body) {
    if (op.code == ir::Opcode::sum)
      forward.results.push_back({"report.blocks.0.attn.mine.openness", op.results[0]});
    if (op.code == ir::Opcode::max) forward.results.push_back({"loss.blocks.0.attn.mine", op.results[0]});
  }
  const JoinFormulas join = join_formulas(module_of("", ", %x, %f"), module, {"mine"}).front();
  CHECK(lines_of(join) ==
        Lines{"y = x + f", "openness = sum over axes 0, 1, 2(f)", "mine = max(f, axes=[0, 1, 2])"});
  const auto meaning = [&](const char* name) {
    return std::ranges::find(join.symbols, name, &FormulaSymbol::name)->meaning;
  };
  CHECK(meaning("openness") == "the report blocks.0.attn.mine.openness");
  CHECK(meaning("mine") == "a term of the loss, blocks.0.attn.mine");
}

}  // namespace
}  // namespace rewire::runtime
