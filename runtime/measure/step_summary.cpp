#include "runtime/measure/step_summary.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "codegen/compile.h"
#include "codegen/cost.h"
#include "codegen/tile/tile.h"
#include "ir/passes/dce.h"
#include "ir/residual.h"
#include "programs/programs.h"
#include "runtime/exec/memory_plan.h"

namespace rewire::runtime {
namespace {

bool is_rewritten(const ir::Join& join) {
  return join.shortcut != join.stream || join.branch_slot != join.branch || !join.paths.empty();
}

/// Makes all joins plain sums again except the one of this number, and removes ops that only they read.
ir::Module with_one_join(ir::Module module, std::size_t number) {
  ir::Function& forward = *module.find_function("forward");
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  for (const std::size_t other : joins) {
    if (other == joins.at(number)) continue;
    ir::Join join = ir::read_join(forward.body[other]);
    join.shortcut = join.stream;
    join.branch_slot = join.branch;
    join.paths.clear();
    ir::write_join(forward.body[other], join);
  }
  ir::PassContext context;
  ir::dce(module, context);
  module.drop_unused_parameters();
  return module;
}

}  // namespace

StepCounts StepCounts::operator-(const StepCounts& other) const {
  return {
      kernels - other.kernels, distinct_kernels - other.distinct_kernels, calls - other.calls,
      bytes - other.bytes,     arena_bytes - other.arena_bytes,           state_bytes - other.state_bytes};
}

StepCounts count_step(const codegen::Program& program) {
  StepCounts counts;
  std::set<std::string> codes;
  for (const codegen::Launch& launch : program.launches) {
    counts.bytes += codegen::cost_of(program, launch).bytes;
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) {
      counts.kernels += static_cast<std::int64_t>(kernel->members());
      codes.insert(codegen::tile::structure(kernel->kernel));
    } else {
      ++counts.calls;
    }
  }
  counts.distinct_kernels = std::ssize(codes);
  counts.arena_bytes = plan_memory(program).arena_bytes;
  for (const codegen::Buffer& buffer : program.buffers) {
    if (buffer.kind == codegen::BufferKind::state) counts.state_bytes += buffer.type.bytes();
  }
  return counts;
}

StepSummary summarise_step(const std::vector<ir::Module>& plain, const std::vector<PluginHandle>& plugins,
                           std::uint64_t seed, const LowerStep& lower) {
  const auto counts_of = [&](std::vector<ir::Module> forms) { return count_step(lower(std::move(forms))); };
  StepSummary summary;
  summary.plain = summary.step = counts_of(plain);
  std::vector<ir::Module> rewritten = plain;
  std::vector<PluginHandle> some;
  for (const PluginHandle& plugin : plugins) {
    some.push_back(plugin);
    rewritten = plain;
    for (ir::Module& form : rewritten) apply_plugins(form, some, seed);
    const StepCounts counts = counts_of(rewritten);
    summary.plugins.push_back({plugin_info(*plugin).name, counts - summary.step});
    summary.step = counts;
  }
  const ir::Function& forward = rewritten.front().function("forward");
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  for (std::size_t number = 0; number < joins.size(); ++number) {
    const ir::Join join = ir::read_join(forward.body[joins[number]]);
    if (!is_rewritten(join)) continue;
    std::vector<ir::Module> forms;
    for (const ir::Module& form : rewritten) forms.push_back(with_one_join(form, number));
    summary.joins.push_back({join.describe(), counts_of(std::move(forms)) - summary.plain});
  }
  return summary;
}

codegen::Program lower_for_cpu(std::vector<ir::Module> forms) {
  ir::Module& forward = forms.front();
  programs::add_step_program(forward, {});
  std::erase_if(forward.functions, [](const ir::Function& function) { return function.name != "step"; });
  forward.drop_unused_parameters();
  ir::PassContext context;
  return codegen::compile(forward, forward.functions.front(), {}, context).program;
}

std::string short_text(const StepSummary& summary) {
  const StepCounts& step = summary.step;
  const StepCounts added = step - summary.plain;
  const bool is_small = step.bytes < 10'000'000;
  const double unit = is_small ? 1e-3 : 1e-6;
  return fmt::format(
      "{} kernels ({:+}), {} distinct ({:+}), {} library calls ({:+}), {:.1f} {} moved ({:+.1f})",
      step.kernels, added.kernels, step.distinct_kernels, added.distinct_kernels, step.calls, added.calls,
      static_cast<double>(step.bytes) * unit, is_small ? "kB" : "MB",
      static_cast<double>(added.bytes) * unit);
}

}  // namespace rewire::runtime
