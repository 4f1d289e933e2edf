// What a step is made of, and what plugins and joins added to it: the same network is lowered without
// plugins, with each plugin in turn, and with each join as the only one that is rewritten. Kernels are fused
// across joins, so that the parts need not add up to the whole.
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
  std::int64_t kernels = 0;           // each member of a table for itself
  std::int64_t distinct_kernels = 0;  // pieces of code: what is compiled
  std::int64_t calls = 0;             // of libraries: products, transforms, ops of the host
  std::int64_t bytes = 0;             // that all of them move: codegen/cost.h
  std::int64_t arena_bytes = 0;       // of temporaries: memory_plan.h
  std::int64_t state_bytes = 0;       // weights, moments and other state

  StepCounts operator-(const StepCounts& other) const;
};
StepCounts count_step(const codegen::Program& program);

/// A plugin or a join, and how much more the step has by it.
struct StepPart {
  std::string name;
  StepCounts added;
};

struct StepSummary {
  StepCounts step, plain;         // as it is, and without plugins
  std::vector<StepPart> plugins;  // each beside the network that those before it left
  std::vector<StepPart> joins;    // those that are rewritten, each beside the network without plugins
};

/// Lowers the step of modules of one `forward` each: those of the objective's forms.
using LowerStep = std::function<codegen::Program(std::vector<ir::Module> forms)>;

/// `plain`: they before their plugins, which are as they are in epoch 0. UserError of a plugin.
StepSummary summarise_step(const std::vector<ir::Module>& plain, const std::vector<PluginHandle>& plugins,
                           std::uint64_t seed, const LowerStep& lower);

/// The step of one `forward` as a CPU computes it, with the options of `rewire train` by default.
codegen::Program lower_for_cpu(std::vector<ir::Module> forward);

/// "69 kernels (+8), 54 distinct (+4), 20 library calls (+0), 132.4 kB moved (+0.5)".
std::string short_text(const StepSummary& summary);

}  // namespace rewire::runtime
