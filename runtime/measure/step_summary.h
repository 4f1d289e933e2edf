// Counts the parts of a step, and what plugins and joins add to it. The network is lowered without plugins,
// with one plugin more at a time, and with each rewritten join alone. Kernels are fused across joins, so the
// parts need not add up to the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

struct StepCounts {
  std::int64_t kernels = 0;           // each member of a table counts
  std::int64_t distinct_kernels = 0;  // pieces of code to compile
  std::int64_t calls = 0;             // library calls: products, transforms, ops of the host
  std::int64_t bytes = 0;             // moved by all of them: codegen/cost.h
  std::int64_t arena_bytes = 0;       // temporaries: memory_plan.h
  std::int64_t state_bytes = 0;       // weights, moments and other state

  StepCounts operator-(const StepCounts& other) const;
};
StepCounts count_step(const codegen::Program& program);

/// A plugin or a join, and the counts that it adds to the step.
struct StepPart {
  std::string name;
  StepCounts added;
};

struct StepSummary {
  StepCounts step, plain;         // with all plugins, and without any
  std::vector<StepPart> plugins;  // each relative to the network with the plugins before it
  std::vector<StepPart> joins;    // the rewritten ones, each relative to the network without plugins
};

/// Lowers the step of modules that have one `forward` each, one for each form of the objective.
using LowerStep = std::function<codegen::Program(std::vector<ir::Module> forms)>;

/// Counts the step. `plain`: the modules before the plugins, which are applied as in epoch 0. Passes on a
/// plugin's UserError.
StepSummary summarise_step(const std::vector<ir::Module>& plain, const std::vector<PluginHandle>& plugins,
                           std::uint64_t seed, const LowerStep& lower);

/// Lowers the step of one `forward` for a CPU, with the default options of `rewire train`.
codegen::Program lower_for_cpu(std::vector<ir::Module> forward);

/// Returns "69 kernels (+8), 54 distinct (+4), 20 library calls (+0), 132.4 kB moved (+0.5)".
std::string short_text(const StepSummary& summary);

}  // namespace rewire::runtime
