// Passes and rewrites of the lowering that can be left out, and the networks whose training steps show that
// none of them changes what is computed: for each backend's test.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/passes/left_out.h"
#include "runtime/exec/engine.h"

namespace rewire::testing::left_out {

/// On what the CPU runs.
enum class Effect : std::uint8_t {
  nothing,   // not even the kernels differ
  bits,      // other kernels, or in other memory, and not a bit differs
  rounding,  // other kernels, which round elsewhere or add in another order
};

struct Row {
  std::string_view name;
  Effect effect;
  std::string_view reason = "";  // of what does nothing
  std::string_view beside = "";  // is left out too, or nothing is left to do
};

/// Every pass and every rewrite but those that are needed.
std::span<const Row> rows();
/// The row's name, and what is left out beside it.
ir::LeftOut left_out_by(const Row& row);

struct Network {
  std::string name;
  ir::Module module;  // with the program `step`
  runtime::TensorMap state, inputs;
  runtime::TensorMap expected;  // of the evaluator: results and state
  runtime::TensorMap rounded;   // likewise, with every value rounded to its dtype; empty without narrow ones
};

/// Plain, with dropout, in bf16, and one of what a ViT has not.
std::vector<Network> networks();
/// The last of them, its circulant product by this lowering.
Network unlike_a_vit(const std::string& lowering);

/// What the evaluator's run is compared with: results, and state by "state NAME".
runtime::TensorMap run_step(runtime::Engine& engine, const Network& network);
/// Checks each tensor, by the tolerances of `rewire verify`: of state by those of gradients, of which it is
/// made.
void check_numbers(const Network& network, const runtime::TensorMap& actual);

}  // namespace rewire::testing::left_out
