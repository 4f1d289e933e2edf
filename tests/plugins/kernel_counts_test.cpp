// What a training step is made of with each strategy, as it is lowered for the CPU: launches, kernels, pieces
// of code. The table that is committed is what docs/guide/strategies.md speaks of; a change of lowering shows as
// its diff.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <variant>

#include "codegen/program.h"
#include "codegen/tile/tile.h"
#include "ir/passes/pass.h"
#include "models/model.h"
#include "programs/programs.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

struct Counts {
  std::size_t launches = 0;  // kernels (a table of several is one), products, ops of the host
  std::size_t kernels = 0;   // each member of a table for itself
  std::size_t tables = 0;
  std::size_t products = 0;  // GEMMs
  std::size_t host = 0;      // ops of the host: Fourier transforms, gathers, …
  std::size_t codes = 0;     // kernels of different code: what is compiled
};

codegen::Program step_of(const std::string& pool, const std::vector<std::string>& plugins) {
  ir::Selection options = ir::Selection{"vit_tiny_28"};
  options.set("pool", pool);
  ir::Module module = rewritten(models::build(options, 64), plugins);
  programs::add_step_program(module, {});
  std::erase_if(module.functions, [](const ir::Function& function) { return function.name != "step"; });
  ir::PassContext context;
  ir::run_pipeline(module, context);
  return codegen::lower(module, module.function("step"));
}

Counts counts_of(const codegen::Program& program) {
  Counts counts;
  counts.launches = program.launches.size();
  std::set<std::string> codes;
  for (const codegen::Launch& launch : program.launches) {
    counts.products += std::holds_alternative<codegen::GemmLaunch>(launch);
    counts.host += std::holds_alternative<codegen::OpCall>(launch);
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) {
      counts.kernels += kernel->members();
      counts.tables += kernel->is_table();
      codes.insert(codegen::tile::structure(kernel->kernel));
    }
  }
  counts.codes = codes.size();
  return counts;
}

std::string table() {
  struct Row {
    std::string pool;
    std::vector<std::string> plugins;
  };
  const std::vector<Row> rows = {{"token", {}},
                                 {"token", {"decay"}},
                                 {"token", {"decay:learnable=true"}},
                                 {"token", {"orthogonal"}},
                                 {"token", {"orthogonal:mode=global"}},
                                 {"token", {"orthogonal:probability=0.5"}},
                                 {"token", {"augment"}},
                                 {"token", {"skipless"}},
                                 {"token", {"decay", "orthogonal"}},
                                 {"token", {"layerscale"}},
                                 {"token", {"layerscale:kind=rezero"}},
                                 {"token", {"layerscale:kind=skipinit"}},
                                 {"token", {"denseformer"}},
                                 {"token", {"denseformer:dilation=4,period=5"}},
                                 {"token", {"denseformer:dynamic=true"}},
                                 {"token", {"value_residual"}},
                                 {"token", {"value_residual:kind=learnable"}},
                                 {"token", {"value_residual:kind=shared"}},
                                 {"token", {"postnorm"}},
                                 {"token", {"postnorm:kind=deepnorm"}},
                                 {"token", {"postnorm:kind=keel"}},
                                 {"token", {"postnorm:kind=peri"}},
                                 {"token", {"attnres"}},
                                 {"token", {"attnres:block=4"}},
                                 {"token", {"x0_lambdas"}},
                                 {"token", {"laurel"}},
                                 {"token", {"hyper:kind=static"}},
                                 {"token", {"hyper"}},
                                 {"token", {"hyper:kind=mhc"}},
                                 {"token", {"hyper:kind=mhc_lite"}},
                                 {"avg", {}},
                                 {"avg", {"decay"}},
                                 {"avg", {"orthogonal"}},
                                 {"avg", {"skipless"}}};
  std::string text =
      "A training step of vit_tiny_28, batch 64, AdamW, as it is lowered for the CPU: "
      "tests/plugins/kernel_counts_test.cpp.\n"
      "launches = kernels (several of one code may be a table, one launch), products, ops of the host;\n"
      "kernels = each member of a table for itself; codes = kernels of different code, which is what is "
      "compiled.\n\n";
  text += fmt::format("{:<8}{:<34}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "pool", "plugins", "launches", "kernels",
                      "codes", "tables", "products", "host");
  for (const Row& row : rows) {
    const Counts c = counts_of(step_of(row.pool, row.plugins));
    text += fmt::format("{:<8}{:<34}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", row.pool,
                        row.plugins.empty() ? "none" : fmt::format("{}", fmt::join(row.plugins, " + ")),
                        c.launches, c.kernels, c.codes, c.tables, c.products, c.host);
  }
  return text;
}

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// "KERNELS in LAUNCHES", as the docs say it, of one row of the committed table.
std::string said(const std::string& pool, const std::string& plugins) {
  std::istringstream table(text_of(REWIRE_KERNEL_COUNTS));
  for (std::string line; std::getline(table, line);) {
    std::istringstream row(line);
    std::string in_pool, name;
    std::size_t launches = 0, kernels = 0;
    if (row >> in_pool >> name >> launches >> kernels && in_pool == pool && name == plugins) {
      return fmt::format("{} in {}", kernels, launches);
    }
  }
  FAIL("no row " << pool << " " << plugins);
  return {};
}

TEST_CASE("docs/guide/strategies.md says what the table of kernels holds") {
  const std::string docs = text_of(REWIRE_STRATEGIES);
  const std::string plain = said("token", "none"), pooled = said("avg", "none");
  for (const char* same : {"decay", "skipless"}) {
    CHECK(said("token", same) == plain);
    CHECK(said("avg", same) == pooled);
  }
  CHECK(said("avg", "orthogonal") == pooled);
  CHECK_THAT(docs, REWIRE_CATCH_CONTAINS("as many kernels as the plain network, " + plain + " launches"));
  CHECK_THAT(docs, REWIRE_CATCH_CONTAINS("`model.pool=avg`, " + pooled));
}

TEST_CASE("A step has as many launches, kernels and codes as the table says") {
  const std::filesystem::path golden = REWIRE_KERNEL_COUNTS;
  const std::string want = text_of(golden), got = table();
  const std::string fresh = std::filesystem::absolute(golden.filename()).string();
  if (got != want) std::ofstream(fresh) << got;
  INFO("the table is now\n"
       << got << "and stands in " << fresh << "; where that is meant, copy it to " << golden.string());
  const bool same = got == want;
  CHECK(same);
}

}  // namespace
}  // namespace rewire::test
