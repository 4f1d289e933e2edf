// Every rule of canonicalise has a file canonicalise/<rule>.rir. With that rule alone, each function @fires…
// becomes what @becomes… says, and computes the same; each function @keeps… stays as it is.
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>

#include "ir/evaluate.h"
#include "ir/passes/canonicalise.h"
#include "ir/passes/canonicalise_rules.h"
#include "ir/passes/dce.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/ir_passes/goldens.h"
#include "tests/support/case_builder.h"
#include "tests/support/catch.h"
#include "tests/support/random_program.h"

namespace rewire::ir {
namespace {

Module load(const Rule& rule) {
  return load_golden("canonicalise/" + std::string(rule.name));
}

std::string with_rule(const Module& module, std::string_view function_name, const Rule& rule) {
  Module copy = module;
  apply_rules(copy, copy.function(function_name), {rule});
  verify(copy);
  return text_of(copy, function_name);
}

std::vector<Tensor> random_inputs(const Function& function, std::uint64_t seed, bool positive, bool special) {
  testing::CaseBuilder random(seed);
  std::vector<Tensor> inputs;
  for (const Argument& argument : function.arguments) {
    Tensor tensor = random.tensor(function.type(argument.value), positive ? 0.1 : -2, 2);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (special && is_float(tensor.type.dtype)) {
      for (double& value : tensor.data) {
        value = random.pick({std::nan(""), kInfinity, -kInfinity, 0.0, -0.0, 1.0, -1.0});
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

/// Zeros of either sign are one number, and so are all NaNs.
bool same_number(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

TEST_CASE("Every rule fires where it should, gives what it says, and leaves its near misses alone",
          "[ir][canonicalise]") {
  for (const Rule& rule : canonicalise_rules()) {
    CAPTURE(rule.name);
    const Module module = load(rule);
    std::set<Opcode> fired;
    int keeps = 0;
    for (const Function& function : module.functions) {
      CAPTURE(function.name);
      if (function.name.starts_with("fires")) {
        for (const Op& op : function.body) fired.insert(op.code);
        const std::string becomes = "becomes" + function.name.substr(5);
        REQUIRE(module.find_function(becomes) != nullptr);
        CHECK(text_of(module, function.name) != text_of(module, becomes));
        CHECK(with_rule(module, function.name, rule) == text_of(module, becomes));
      } else if (function.name.starts_with("keeps")) {
        ++keeps;
        CHECK(with_rule(module, function.name, rule) == text_of(module, function.name));
      }
    }
    CHECK(keeps > 0);
    // A rule fires at each op it is for; one for all pointwise ops, at some.
    const bool any_root = rule.name == "pointwise_of_broadcasts";
    CHECK(!fired.empty());
    for (Opcode root : rule.roots) CHECK((any_root || fired.contains(root)));
  }
}

TEST_CASE(
    "What fires and what it becomes compute the same, of ordinary numbers and of NaN, infinities and zeros",
    "[ir][canonicalise]") {
  for (const Rule& rule : canonicalise_rules()) {
    CAPTURE(rule.name);
    const Module module = load(rule);
    // A power's domain is a base above zero.
    const bool positive = rule.name.starts_with("pow_");
    for (const Function& function : module.functions) {
      if (!function.name.starts_with("fires")) continue;
      CAPTURE(function.name);
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const bool special = seed % 2 == 1 && !positive;
        CAPTURE(seed, special);
        const std::vector<Tensor> inputs = random_inputs(function, seed, positive, special);
        EvalState state;
        const std::vector<Tensor> before = evaluate(module, function, inputs, state);
        const std::vector<Tensor> after =
            evaluate(module, module.function("becomes" + function.name.substr(5)), inputs, state);
        if (special) {
          REQUIRE(before[0].data.size() == after[0].data.size());
          for (std::size_t i = 0; i < before[0].data.size(); ++i) {
            CHECK(same_number(before[0].data[i], after[0].data[i]));
          }
        } else {
          CHECK(testing::first_difference(before, after, 1e-13) == "");
        }
      }
    }
  }
}

TEST_CASE("Rules have unique names, and every golden file has its rule", "[ir][canonicalise]") {
  std::set<std::string> names;
  for (const Rule& rule : canonicalise_rules()) CHECK(names.insert(std::string(rule.name)).second);
  for (const auto& entry : std::filesystem::directory_iterator(IR_PASSES_GOLDENS "/canonicalise")) {
    CAPTURE(entry.path().string());
    CHECK(names.contains(entry.path().stem().string()));
  }
}

TEST_CASE("The rules together settle on one form", "[ir][canonicalise]") {
  for (const Rule& rule : canonicalise_rules()) {
    CAPTURE(rule.name);
    Module module = load(rule);
    PassContext context;
    canonicalise(module, context);
    dce(module, context);
    const std::string once = print(module);
    canonicalise(module, context);
    dce(module, context);
    CHECK(print(module) == once);
  }
}

}  // namespace rewire::ir
