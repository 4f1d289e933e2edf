// Every pass of the pipeline and every rewrite of the lowering left out, one after the other, compiled for
// the CPU: a training step computes the evaluator's numbers without it as with it, results and state. The
// table of tests/left_out says which leave even the bits equal. A new pass has to be entered there.
#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "codegen/lowering_steps.h"
#include "codegen/program.h"
#include "ir/error.h"
#include "ir/ops/circulant.h"
#include "ir/passes/pass.h"
#include "ir/text.h"
#include "tests/left_out/networks.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::testing::left_out {
namespace {

using namespace runtime;

bool same_bits(const TensorMap& a, const TensorMap& b) {
  return std::ranges::all_of(
      a, [&](const auto& item) { return std::ranges::equal(item.second.bytes(), b.at(item.first).bytes()); });
}

JitEngineOptions without(const ir::LeftOut& names, const test::TemporaryFolder& cache) {
  JitEngineOptions options;
  options.threads = 2;
  options.optimise = false;
  options.check_memory = true;
  options.cache_directory = cache.path().string();
  options.left_out = names;
  return options;
}

/// What is left to the printers of kernels: the IR behind the passes, and the launches with their kernels.
std::string lowered(const Network& network, const ir::LeftOut& names) {
  ir::Module single = network.module;
  single.functions = {network.module.function("step")};
  ir::PassContext context;
  context.left_out = names;
  ir::run_pipeline(single, context);
  codegen::FuseOptions options;
  options.left_out = names;
  const codegen::Program program = codegen::lower(single, single.functions.front(), options);
  std::string text = print(program) + std::to_string(program.launches.size());
  for (const codegen::Launch& launch : program.launches) {
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) text += print(kernel->kernel);
  }
  return text;
}

TEST_CASE("The table names every pass and every rewrite of the lowering that can be left out") {
  std::vector<std::string_view> named, all;
  for (const Row& row : rows()) named.push_back(row.name);
  for (const ir::PassInfo& pass : ir::passes()) {
    if (pass.needed.empty()) all.push_back(pass.name);
  }
  all.insert(all.end(), codegen::kLoweringSteps.begin(), codegen::kLoweringSteps.end());
  std::ranges::sort(named);
  std::ranges::sort(all);
  CHECK(named == all);
}

TEST_CASE("A training step computes the same without any one pass or rewrite", "[whole]") {
  const test::TemporaryFolder cache;
  std::set<std::string_view> acted;
  for (const Network& network : networks()) {
    INFO(network.name);
    const TensorMap with_all = run_step(*make_jit_engine(network.module, without({}, cache)), network);
    check_numbers(network, with_all);
    for (const Row& row : rows()) {
      INFO("without " << row.name);
      const ir::LeftOut names = left_out_by(row);
      ir::LeftOut beside = names;
      beside.erase(std::string(row.name));
      const TensorMap actual = run_step(*make_jit_engine(network.module, without(names, cache)), network);
      check_numbers(network, actual);
      if (row.effect != Effect::rounding) CHECK(same_bits(actual, with_all));
      if (lowered(network, names) != lowered(network, beside)) acted.insert(row.name);
    }
  }
  for (const Row& row : rows()) {
    INFO(row.name << ": " << row.reason);
    CHECK(acted.contains(row.name) == (row.effect != Effect::nothing));
  }
}

TEST_CASE("What cannot be left out says so and why") {
  const std::vector<Network> all = networks();
  const Network& network = all.back();
  std::vector<std::string> refusals;
  for (const ir::PassInfo& pass : ir::passes()) {
    if (pass.needed.empty()) continue;
    refusals.push_back(test::message_of<UserError>([&] { lowered(network, {std::string(pass.name)}); }));
  }
  CHECK(refusals ==
        std::vector<std::string>{
            "the pass specialise_training cannot be left out: nothing else computes is_training",
            "the pass decompose cannot be left out: nothing else computes composites and residual joins"});
}

TEST_CASE("A circulant product computes the same by any lowering that a choice may name") {
  const test::TemporaryFolder cache;
  for (const std::string_view lowering : ir::kCirculantLowerings) {
    INFO(lowering);
    const Network network = unlike_a_vit(std::string(lowering));
    check_numbers(network, run_step(*make_jit_engine(network.module, without({}, cache)), network));
  }
}

}  // namespace
}  // namespace rewire::testing::left_out
