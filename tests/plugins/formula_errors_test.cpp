// What the plugin formula answers to formulas that are wrong: one line that says what was expected or which name is near,
// the text, and a caret. The answers that are committed are in formula_errors.txt; a change of one shows as its diff.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/text_error.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

/// Values of the plugin, each wrong in one way; the network has 4 channels, 2 blocks and 4 joins.
const std::vector<std::string>& wrong() {
  static const std::vector<std::string> all = {
      // Not a formula.
      R"~(join="")~",
      R"~(join="x +")~",
      R"~(join="+ x")~",
      R"~(join="x + * f")~",
      R"~(join="x f")~",
      R"~(join="2x + f")~",
      R"~(join="(x + f")~",
      R"~(join="x + f)")~",
      R"~(join="x + dot(x, f")~",
      R"~(join="x + dot(x; f)")~",
      R"~(join="x + out[0")~",
      R"~(join="x + f ? x")~",
      R"~(join="training ? x")~",
      R"~(join="x = f")~",
      R"~(join="x + f % 2")~",
      R"~(join="x + β * f")~",
      R"~(join="x + 1e999 * f")~",
      R"~(join="x + f..5")~",
      R"~(join="x < f < x")~",
      R"~(join="x + 1.5.2 * f")~",
      // Unknown names.
      R"~(join="x + gama * f",weights="gamma[channels] = 1")~",
      R"~(join="x + F")~",
      R"~(join="x + sigmod(f)")~",
      R"~(join="x + sigmoid")~",
      R"~(join="x + x(f)")~",
      R"~(join="x + it[0] * f")~",
      R"~(let="u = it[0]",join="x + u * f")~",
      R"~(init="last = out[0]")~",
      R"~(init="last = normal(tokens)")~",
      R"~(weights="a = 1",join="x + a * f",after="a = a + 0.01 * uniform()")~",
      R"~(join="x + out[1e-9] * f")~",
      R"~(join="x + it")~",
      R"~(join="x + k * f")~",
      R"~(join="x + mean(f, token)")~",
      R"~(join="x + progres * f")~",
      // Wrong arguments.
      R"~(join="x + dot(f)")~",
      R"~(join="x + sigmoid(x, f)")~",
      R"~(join="x + sigmoid()")~",
      R"~(join="x + maximum(f)")~",
      R"~(join="x + layer_norm(f, x)")~",
      R"~(join="x + layer_norm(f, 1, x)")~",
      R"~(join="x + weighted(x, f)")~",
      R"~(join="x + weighted(out)")~",
      R"~(join="x + drop(1.5)")~",
      R"~(join="x + drop(x) * f")~",
      R"~(join="x + normal(2) * f")~",
      R"~(join="x + matmul(f, x)")~",
      R"~(join="x + weighted(out, softmax(out, tokens))")~",
      R"~(join="x + softmax(a) * f",weights="a = 1")~",
      R"~(join="x + layer_norm(f, -1)")~",
      R"~(join="x + branch_norm(3)")~",
      R"~(join="x + max(f, 0)")~",
      R"~(join="x + min(f, 0)")~",
      R"~(join="x + uniform(sample, tokens) * f")~",
      R"~(join="x + mean(f, block)")~",
      // Kinds and shapes that do not fit.
      R"~(join="x + w * f",weights="w[7] = 1")~",
      R"~(join="x + matmul(f, w)",weights="w[7, 4] = 0")~",
      R"~(join="x + matmul(f, w)",weights="w[d, 7] = 0")~",
      R"~(join="out")~",
      R"~(join="out[9]")~",
      R"~(join="out[0.5]")~",
      R"~(join="out[x]")~",
      R"~(join="x[0] + f")~",
      R"~(join="x + (x < f)")~",
      R"~(join="x < f")~",
      R"~(join="x + (f ? x : 1)")~",
      R"~(join="x + (out < x ? 1 : 0) * f")~",
      R"~(join="x + weighted(out, branches)",layers=1)~",
      R"~(join="x + mean(a, tokens) * f",weights="a = 1")~",
      R"~(join="x + (f > 0) * f")~",
      R"~(join="x + training * f")~",
      R"~(join="x + (training ? x : x < f)")~",
      R"~(join="x + 2^2000 * f")~",
      R"~(join="x + log(-1) * f")~",
      R"~(join="x + 0,5 * f")~",
      R"~(join="x + (f > 0 && x > 0 ? 1 : 0) * f")~",
      R"~(norm_input="x + h")~",
      R"~(input="f")~",
      // Entries.
      R"~(weights="gamma",join="x + gamma * f")~",
      R"~(weights="gamma[channels = 1",join="x + gamma * f")~",
      R"~(weights="gamma[channels] 1",join="x + gamma * f")~",
      R"~(weights="1 = 1",join="x + f")~",
      R"~(weights="x = 1",join="x + f")~",
      R"~(weights="a = 1; a = 2",join="x + a * f")~",
      R"~(weights="a = x",join="x + a * f")~",
      R"~(weights="a = normal()",join="x + a * f")~",
      R"~(weights="a = a",join="x + a * f")~",
      R"~(weights="w[w] = 0",join="x + w * f")~",
      R"~(weights="a = 1, lr_scale = a",join="x + a * f")~",
      R"~(let="s = a",weights="a = s",join="x + a * f")~",
      R"~(weights="a[d] = 0.1 + normal(0.1)",join="x + a * f")~",
      R"~(weights="a[channels, 2] = 0",join="x + a * f")~",
      R"~(weights="a = normal(-1)",join="x + a * f")~",
      R"~(weights="a[d] = xavier()",join="x + a * f")~",
      R"~(weights="alpha[out] = 1; alpha_1 = 1",join="x + f")~",
      R"~(weights="A = 1",join="x + A * f")~",
      R"~(weights="a = 1, decay, no_decay",join="x + a * f")~",
      R"~(weights="a = 1, lr_scale = -1",join="x + a * f")~",
      R"~(weights="m[branches] = 0.1, per block",join="x + weighted(branches, m)")~",
      R"~(weights="a[0] = 1",join="x + a * f")~",
      R"~(weights="a[1.5] = 1",join="x + a * f")~",
      R"~(weights="a = 1, no_deacy",join="x + a * f")~",
      R"~(weights="a = 1, lr_scale",join="x + a * f")~",
      R"~(weights="a = 1, lr_scale = x",join="x + a * f")~",
      R"~(weights="a = 1, frozen = 2",join="x + a * f")~",
      R"~(let="s = sigmoid(s)",join="x + s * f")~",
      R"~(let="s[2] = 1",join="x + s * f")~",
      R"~(let="s = 1; s = 2",join="x + s * f")~",
      R"~(let="s = t; t = 1",join="x + s * f")~",
      R"~(let="r norm(f)",join="x + r * f")~",
      R"~(let="t = 1; u = s * (1 - s",join="x + t * f")~",
      R"~(let="sum = 1",join="x + sum * f")~",
      R"~(let="a = 1",weights="a = 1",join="x + a * f")~",
      R"~(weights="a = 1",after="b = 1",join="x + a * f")~",
      R"~(weights="a[out] = 1",after="a = 1",sum="weighted(out, a) + x + f")~",
      R"~(weights="a = 1",after="a = f",join="x + a * f")~",
      R"~(weights="a = 1",after="a = 0.5",join="x + a * f")~",
      R"~(weights="a = 1, frozen",after="a = a",join="x + a * f")~",
      R"~(weights="a = 1",after="a = a > 0",join="x + a * f")~",
      R"~(init="lats = 0")~",
      R"~(init="last[2] = 0")~",
      R"~(init="last = 0 * nope")~",
      R"~(init="last = itt",join="x + f")~",
      // Parameters.
      R"~(at=last)~",
      R"~(join="x + f",sum="x")~",
      R"~(report="gate = out",join="x + f")~",
  };
  return all;
}

std::string answer(const std::string& values) {
  const ir::Module module = residual_net({});
  try {
    const std::string spec = "formula:" + values;
    started(rewritten(module, {spec}), {spec});
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("A wrong formula is answered by one line, the formula and a caret") {
  std::string text =
      "What the plugin formula answers to wrong values: tests/plugins/formula_errors_test.cpp.\n";
  for (const std::string& values : wrong()) text += fmt::format("\n{}\n{}\n", values, answer(values));
  const std::filesystem::path golden = REWIRE_FORMULA_ERRORS;
  std::ostringstream want;
  want << std::ifstream(golden).rdbuf();
  const std::string fresh = std::filesystem::absolute(golden.filename()).string();
  if (text != want.str()) std::ofstream(fresh) << text;
  INFO("the answers are now in " << fresh << "; if that is meant, copy it to " << golden.string());
  CHECK(text == want.str());
}

TEST_CASE("A formula may be deep and long, up to a limit") {
  std::string deep = "x", long_one = "x + f";
  for (int i = 0; i < 60; ++i) deep = "(" + deep + ")";
  for (int i = 0; i < 1000; ++i) long_one += " + 0.001 * f";
  CHECK_NOTHROW(rewritten(residual_net({}), {"formula:join=\"" + deep + " + f\""}));
  CHECK_NOTHROW(rewritten(residual_net({}), {"formula:join=\"" + long_one + "\""}));
  // The caret of a long text is in the part of it that is shown.
  CHECK_THAT(answer("join=\"" + long_one + " + sigmod(f)\""), REWIRE_CATCH_CONTAINS("  join = ... "));
  std::string names = "a0 = mean(h)";
  for (int i = 1; i < 200; ++i) names += fmt::format("; a{} = a{} + a{}", i, i - 1, i - 1);
  CHECK_NOTHROW(rewritten(residual_net({}), {"formula:let=\"" + names + "\",join=\"x + tanh(a199) * f\""}));
  CHECK_THAT(answer("let=\"" + names + "; a200 = 1\",join=\"x + a200 * f\""),
             REWIRE_CATCH_CONTAINS("more than 200 entries"));
  for (int i = 0; i < 60; ++i) deep = "(" + deep + ")";
  CHECK_THAT(answer("join=\"" + deep + "\""), REWIRE_CATCH_CONTAINS("nested deeper than 64 levels"));
  for (int i = 0; i < 8000; ++i) long_one += " + 0.001 * f";
  CHECK_THAT(answer("join=\"" + long_one + "\""), REWIRE_CATCH_CONTAINS("longer than 20000 terms"));
}

}  // namespace
}  // namespace rewire::test
