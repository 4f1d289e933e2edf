// Formulas, from papers that have no plugin here and beside the strategies that have one, pass what every strategy must
// satisfy: `rewire plugin test`.
#include <string>
#include <vector>

#include "models/trial.h"
#include "runtime/plugin/plugin.h"
#include "runtime/verify/plugin_check.h"
#include "tests/support/catch.h"
#include "tests/support/slice.h"

namespace rewire::test {
namespace {

struct Idea {
  std::string name, formula;
};

const std::vector<Idea>& ideas() {
  static const std::vector<Idea> all = {
      {"LAuReL, with residual weights and low rank (Menghani et al., 2024)",
       R"~(weights="p = 0; u[d, 4] = normal(0.1); v[4, d] = 0.1",let="s = sigmoid(p)",join="2 * s * f + 2 * (1 - s) * (x + matmul(matmul(x, u), v))")~"},
      {"Peri-LN (Kim et al., 2025)",
       R"~(weights="w[d] = 1; c[d] = 0",change_branch="layer_norm(it, w, c)")~"},
      {"Deep Delta Learning (2026): x moves along the branch's direction by a gated amount",
       R"~(weights="wb[d] = 0.1; wv[d] = 0.1",let="n = f / (norm(f) + 1e-6); t = 2 * sigmoid(dot(x, wb))",join="x + t * (dot(x, wv) - dot(n, x)) * n")~"},
      {"a highway gate (Srivastava et al., 2015)",
       R"~(weights="w[d, d] = 0; c[d] = -1",let="s = sigmoid(matmul(h, w) + c)",join="(1 - s) * x + s * f",report="gate = mean(s)")~"},
      {"stochastic depth (Huang et al., 2016)", R"~(join="x + drop(0.2) * f")~"},
      {"a gate with noise, drawn for each sample",
       R"~(weights="a = 0.5",join="x + (training ? a * (1 + 0.1 * normal(sample)) : a) * f")~"},
      {"a decayed shortcut",
       R"~(join="(L == 1 ? 1 : 1 - 0.4 * l / (L - 1)) * x + f",init="last = 0.5 * it")~"},
      {"orthogonal updates", R"~(join="x + f - dot(x, f) / (dot(x, x) + 1e-6) * x")~"},
      {"orthogonal updates, a block with probability one half",
       R"~(let="s = training ? (uniform(block) < 0.5 ? 1 : 0) : 1",join="x + f - s * dot(x, f) / (dot(x, x) + 1e-6) * x")~"},
      {"ReZero", R"~(weights="alpha = 0.1, per block",change_branch="alpha * it")~"},
      {"DenseFormer",
       R"~(at=block,weights="alpha[out] = k == K ? 1 : 0.1",change_sum="weighted(out, alpha)")~"},
      {"a bounded factor", R"~(weights="a = 1, lr_scale = 0.1",join="a * x + f",after="a = minimum(a, 1)")~"},
  };
  return all;
}

TEST_CASE("Formulas from papers pass what every strategy must satisfy") {
  std::vector<runtime::CheckNetwork> networks;
  for (models::TrialNetwork& network : models::trial_networks())
    networks.push_back({std::move(network.name), std::move(network.module)});
  for (std::size_t i = 0; i < ideas().size(); ++i) {
    if (!testing::slice().takes(i)) continue;
    const Idea& idea = ideas()[i];
    const runtime::PluginCheck check =
        runtime::check_plugin(runtime::parse_plugin_spec("formula:" + idea.formula), {}, networks, {},
                              [](const runtime::PluginCheckRow&) {});
    for (const runtime::PluginCheckRow& row : check.rows) {
      CAPTURE(idea.name, row.check, row.network, row.detail);
      CHECK((row.verdict == runtime::Verdict::passed || row.verdict == runtime::Verdict::remark));
    }
    CHECK(check.passed());
  }
}

}  // namespace
}  // namespace rewire::test
