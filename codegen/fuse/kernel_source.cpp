#include "codegen/fuse/kernel_source.h"

#include <algorithm>
#include <set>

#include "codegen/fuse/launches.h"
#include "codegen/fuse/storage.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

/// Returns the ops of the groups that become kernels, in the order of their launches.
std::vector<std::vector<int>> ops_of_groups(const Grouping& grouping, const Storage& storage) {
  std::vector<std::vector<int>> ops;
  for (const int index : grouping.execution_order()) {
    const GroupNode& node = grouping.nodes()[static_cast<std::size_t>(index)];
    if (!node.opaque && !storage.is_elided(index)) ops.push_back(node.group.ops);
  }
  return ops;
}

bool reads_any(const KernelLaunch& launch, const std::set<std::int32_t>& buffers) {
  for (std::size_t i = 0; i < launch.buffers.size(); ++i) {
    if (launch.kernel.arguments[i].use != tile::ArgumentUse::write && buffers.contains(launch.buffers[i]))
      return true;
  }
  return false;
}

/// Returns the attention op whose location the kernel names in its origin; nothing for another kernel.
std::vector<int> attention_of(const ir::Function& function, const tile::Kernel& kernel) {
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const ir::Op& op = function.body[i];
    const bool attention = op.code == ir::Opcode::attention || op.code == ir::Opcode::attention_grad;
    const bool is_gradient = kernel.name.find("attention_grad") != std::string::npos;
    if (!attention || is_gradient != (op.code == ir::Opcode::attention_grad)) continue;
    if (std::ranges::find(kernel.origin, "at " + op.location) != kernel.origin.end())
      return {static_cast<int>(i)};
  }
  return {};
}

/// Adds the copies and concats that a call carries out, also after shape ops. A call may write its results
/// in another order of axes, or into a window of a concat.
void add_copies(const Grouping& grouping, std::set<int>& ops, ir::Value value) {
  const ir::Function& function = grouping.function();
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const ir::Op& op = function.body[i];
    if (std::ranges::find(op.operands, value) == op.operands.end()) continue;
    const int index = static_cast<int>(i);
    if (op.code == ir::Opcode::concat || grouping.is_copy(index)) ops.insert(index);
    if (is_view(op.code) || op.code == ir::Opcode::concat) add_copies(grouping, ops, op.results[0]);
  }
}

std::vector<int> with_copies(const Grouping& grouping, const std::vector<int>& calls) {
  std::set<int> ops(calls.begin(), calls.end());
  for (const int call : calls) {
    for (const ir::Value result : grouping.function().body[static_cast<std::size_t>(call)].results)
      add_copies(grouping, ops, result);
  }
  return {ops.begin(), ops.end()};
}

}  // namespace

KernelSources kernel_sources(const ir::Module& module, const FuseOptions& options) {
  Prepared prepared{module, {}};
  prepared.module.functions.resize(1);
  prepare(prepared, options);
  const Program program = make_launches(prepared, options);
  KernelSources sources{prepared.module, {}};
  const Grouping grouping(std::move(prepared), options);
  Program places;
  const Storage storage(grouping, grouping.module(), places);
  const std::vector<std::vector<int>> groups = ops_of_groups(grouping, storage);
  std::size_t next = 0;
  std::set<std::int32_t> written;  // by the last group; the kernels that finish its sums read them
  for (const Launch& launch : program.launches) {
    const auto* kernel = std::get_if<KernelLaunch>(&launch);
    if (kernel == nullptr) {
      written.clear();
      continue;
    }
    std::vector<int> ops;
    if (next < program.groups.size() && program.groups[next].kernel == kernel->kernel.name) {
      ops = groups.at(next++);
      written = {kernel->buffers.begin(), kernel->buffers.end()};
    } else if (ops = attention_of(grouping.function(), kernel->kernel); !ops.empty()) {
      ops = with_copies(grouping, ops);
    } else if (next > 0 && reads_any(*kernel, written)) {
      ops = groups[next - 1];
    }
    if (!ops.empty()) sources.kernels.push_back({kernel->kernel, std::move(ops)});
  }
  return sources;
}

}  // namespace rewire::codegen
