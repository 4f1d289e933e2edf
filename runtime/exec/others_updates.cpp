#include "runtime/exec/others_updates.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/exec/memory_plan.h"

namespace rewire::runtime {
namespace {

using codegen::BufferKind;

/// Calls `to` with each number of a buffer in the launch.
template <class To>
void each_buffer(codegen::Launch& launch, To to) {
  const auto of_view = [&](codegen::View& view) {
    if (view.buffer >= 0) to(view.buffer);
  };
  if (auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) {
    std::ranges::for_each(kernel->buffers, to);
    for (codegen::LaunchMember& member : kernel->others) std::ranges::for_each(member.buffers, to);
  } else if (auto* gemm = std::get_if<codegen::GemmLaunch>(&launch)) {
    for (codegen::View* view : {&gemm->a, &gemm->b, &gemm->c, &gemm->bias, &gemm->pre}) of_view(*view);
  } else {
    auto& call = std::get<codegen::OpCall>(launch);
    std::ranges::for_each(call.operands, of_view);
    std::ranges::for_each(call.results, of_view);
  }
}

/// Which launches of a program are needed, found from the last one backwards.
class Needed {
 public:
  Needed(const codegen::Program& program, const StatesOfOthers& others) : buffers_(program.buffers.size()) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const codegen::Buffer& buffer = program.buffers[i];
      buffers_[i] = buffer.kind == BufferKind::result ||
                    (buffer.kind == BufferKind::state && !others.updated.contains(buffer.name));
    }
  }

  /// Returns whether the launch writes something that is needed. Then what it reads is needed too.
  bool take(const codegen::Launch& launch) {
    const BufferUse use = buffers_of(launch);
    const auto is_needed = [&](std::int32_t buffer) {
      return bool(buffers_[static_cast<std::size_t>(buffer)]);
    };
    if (std::ranges::none_of(use.writes, is_needed)) return false;
    for (const std::int32_t buffer : use.reads) buffers_[static_cast<std::size_t>(buffer)] = true;
    return true;
  }

  /// Keeps the members of a table that are needed. Returns false if none is.
  bool take_members(codegen::KernelLaunch& table) {
    std::vector<codegen::LaunchMember> kept;
    for (std::size_t i = 0; i < table.members(); ++i) {
      const codegen::KernelLaunch alone{table.kernel, table.member_buffers(i)};
      if (take(alone)) kept.push_back({table.member_name(i), table.member_buffers(i)});
    }
    if (kept.empty()) return false;
    table.kernel.name = kept.front().name;
    table.buffers = std::move(kept.front().buffers);
    kept.erase(kept.begin());
    table.others = std::move(kept);
    return true;
  }

 private:
  std::vector<bool> buffers_;
};

void drop_unused_buffers(codegen::Program& program) {
  std::vector<bool> used(program.buffers.size());
  for (codegen::Launch& launch : program.launches)
    each_buffer(launch, [&](std::int32_t buffer) { used[static_cast<std::size_t>(buffer)] = true; });
  std::vector<std::int32_t> renamed(used.size(), -1);
  std::vector<codegen::Buffer> kept;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const BufferKind kind = program.buffers[i].kind;
    if (!used[i] && (kind == BufferKind::state || kind == BufferKind::temporary)) continue;
    renamed[i] = static_cast<std::int32_t>(kept.size());
    kept.push_back(std::move(program.buffers[i]));
  }
  program.buffers = std::move(kept);
  for (codegen::Launch& launch : program.launches)
    each_buffer(launch, [&](std::int32_t& buffer) { buffer = renamed[static_cast<std::size_t>(buffer)]; });
}

}  // namespace

void drop_updates_of_others(codegen::Program& program, const StatesOfOthers& others) {
  if (others.updated.empty()) return;
  Needed needed(program, others);
  std::vector<codegen::Launch> kept;
  for (auto launch = program.launches.rbegin(); launch != program.launches.rend(); ++launch) {
    auto* kernel = std::get_if<codegen::KernelLaunch>(&*launch);
    const bool is_needed =
        kernel != nullptr && kernel->is_table() ? needed.take_members(*kernel) : needed.take(*launch);
    if (is_needed) kept.push_back(std::move(*launch));
  }
  std::ranges::reverse(kept);
  program.launches = std::move(kept);
  drop_unused_buffers(program);
}

}  // namespace rewire::runtime
