// Lifetimes and placement; see memory_plan.h.
#include "runtime/exec/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kLine = 64;  // bytes

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

/// Disjoint ranges of bytes.
class Ranges {
 public:
  void add(std::int64_t begin, std::int64_t end) {
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second >= begin) --it;
    while (it != ends_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ends_.erase(it);
    }
    ends_.emplace(begin, end);
  }

  /// Returns the lowest offset, from `offset` on, at which `bytes` are free.
  std::int64_t lowest_free(std::int64_t offset, std::int64_t bytes) const {
    auto it = ends_.upper_bound(offset);
    if (it != ends_.begin() && std::prev(it)->second > offset) --it;
    for (; it != ends_.end() && it->first < offset + bytes; ++it) offset = it->second;
    return offset;
  }

 private:
  std::map<std::int64_t, std::int64_t> ends_;  // by begin
};

/// The bytes taken at each launch, in a binary tree over the launches. A buffer is entered at the nodes that
/// cover its lifetime. Looking up a lifetime visits about 4 log(launches) nodes. Each node has few ranges,
/// since buffers lie side by side.
class Occupation {
 public:
  explicit Occupation(std::size_t launches)
      : leaves_(std::bit_ceil(std::max<std::size_t>(launches, 1))), here_(2 * leaves_), below_(2 * leaves_) {}

  std::int64_t lowest_free(const PlannedBuffer& buffer, std::int64_t bytes) const {
    std::vector<const Ranges*> met;
    visit(buffer, 1, 0, leaves_, [&](std::size_t node, bool whole) {
      met.push_back(&here_[node]);
      if (whole) met.push_back(&below_[node]);
    });
    std::int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Ranges* ranges : met) {
        const std::int64_t next = ranges->lowest_free(offset, bytes);
        moved = moved || next != offset;
        offset = next;
      }
    }
    return offset;
  }

  void take(const PlannedBuffer& buffer, std::int64_t end) {
    visit(buffer, 1, 0, leaves_,
          [&](std::size_t node, bool whole) { (whole ? here_ : below_)[node].add(buffer.offset, end); });
  }

 private:
  /// Calls `to` for the nodes that cover a buffer's lifetime (`whole`: true) and for the nodes above them.
  template <class Visit>
  void visit(const PlannedBuffer& buffer, std::size_t node, std::size_t begin, std::size_t end,
             const Visit& to) const {
    const auto first = static_cast<std::size_t>(buffer.first), last = static_cast<std::size_t>(buffer.last);
    if (last < begin || end <= first) return;
    const bool whole = first <= begin && end <= last + 1;
    to(node, whole);
    if (whole) return;
    const std::size_t middle = begin + (end - begin) / 2;
    visit(buffer, 2 * node, begin, middle, to);
    visit(buffer, 2 * node + 1, middle, end, to);
  }

  std::size_t leaves_;
  std::vector<Ranges> here_, below_;  // by node: of buffers entered at it; of buffers entered below it
};

}  // namespace

BufferUse buffers_of(const codegen::Launch& launch) {
  BufferUse use;
  if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) {
    for (std::size_t member = 0; member < kernel->members(); ++member) {
      const std::vector<std::int32_t>& buffers = kernel->member_buffers(member);
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        const codegen::tile::ArgumentUse how = kernel->kernel.arguments[i].use;
        if (how != codegen::tile::ArgumentUse::write) use.reads.push_back(buffers[i]);
        if (how != codegen::tile::ArgumentUse::read) use.writes.push_back(buffers[i]);
      }
    }
  } else if (const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch)) {
    use.reads = gemm->reads();
    use.writes = gemm->writes();
  } else {
    const auto& call = std::get<codegen::OpCall>(launch);
    for (const codegen::View& view : call.operands) use.reads.push_back(view.buffer);
    for (const codegen::View& view : call.results) use.writes.push_back(view.buffer);
  }
  return use;
}

namespace {

bool is_decomposition(const codegen::Launch& launch) {
  const auto* call = std::get_if<codegen::OpCall>(&launch);
  return call != nullptr && (call->op.code == ir::Opcode::qr || call->op.code == ir::Opcode::eigh);
}

/// Returns the end of the run of launches from `begin` on that count as one launch: decompositions that do
/// not read each other's results.
int end_of_run(const codegen::Program& program, int begin) {
  std::set<std::int32_t> written;
  int end = begin;
  for (; end < static_cast<int>(program.launches.size()); ++end) {
    const codegen::Launch& launch = program.launches[static_cast<std::size_t>(end)];
    if (!is_decomposition(launch)) break;
    const BufferUse use = buffers_of(launch);
    if (std::ranges::any_of(use.reads, [&](std::int32_t buffer) { return written.contains(buffer); })) break;
    written.insert(use.writes.begin(), use.writes.end());
  }
  return std::max(end, begin + 1);
}

}  // namespace

MemoryPlan plan_memory(const codegen::Program& program, std::int64_t gap, Decompositions decompositions) {
  MemoryPlan plan;
  plan.buffers.resize(program.buffers.size());
  for (int begin = 0, end = 0; begin < static_cast<int>(program.launches.size()); begin = end) {
    end = decompositions == Decompositions::together ? end_of_run(program, begin) : begin + 1;
    for (int launch = begin; launch < end; ++launch) {
      const BufferUse use = buffers_of(program.launches[static_cast<std::size_t>(launch)]);
      for (const auto* list : {&use.reads, &use.writes}) {
        for (std::int32_t buffer : *list) {
          PlannedBuffer& planned = plan.buffers[static_cast<std::size_t>(buffer)];
          if (planned.first < 0) planned.first = begin;
          planned.last = end - 1;
        }
      }
    }
  }
  std::vector<std::size_t> order;
  std::vector<std::int64_t> live(program.launches.size() +
                                 1);  // by launch; until partial_sum, the change from the launch before
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    PlannedBuffer& planned = plan.buffers[i];
    if (program.buffers[i].kind != codegen::BufferKind::temporary || planned.first < 0) continue;
    planned.bytes = std::max<std::int64_t>(aligned(program.buffers[i].type.bytes()), kLine);
    order.push_back(i);
    live[static_cast<std::size_t>(planned.first)] += planned.bytes;
    live[static_cast<std::size_t>(planned.last) + 1] -= planned.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  Occupation taken(program.launches.size());
  for (std::size_t index : order) {
    PlannedBuffer& planned = plan.buffers[index];
    planned.offset = taken.lowest_free(planned, planned.bytes + gap);
    const std::int64_t end = aligned(planned.offset + planned.bytes + gap);
    taken.take(planned, end);
    plan.arena_bytes = std::max(plan.arena_bytes, end);
  }
  plan.live_peak_bytes = *std::max_element(live.begin(), live.end());
  return plan;
}

std::vector<MemoryGap> gaps_of(const MemoryPlan& plan, std::int64_t gap) {
  std::vector<MemoryGap> gaps;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& planned = plan.buffers[i];
    if (planned.offset < 0) continue;
    const std::int64_t begin = planned.offset + planned.bytes, end = begin + gap;
    const bool shared =
        std::any_of(plan.buffers.begin(), plan.buffers.end(), [&](const PlannedBuffer& other) {
          return other.offset >= 0 && other.offset < end && begin < other.offset + other.bytes;
        });
    if (!shared) gaps.push_back({i, begin});
  }
  return gaps;
}

void check_gaps(const codegen::Program& program, const MemoryPlan& plan, std::span<const std::byte> arena) {
  for (const MemoryGap& gap : gaps_of(plan, kGap)) {
    const auto bytes = arena.subspan(static_cast<std::size_t>(gap.offset), static_cast<std::size_t>(kGap));
    if (std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{kGapByte}; })) continue;
    internal_error("program '{}' wrote past the end of buffer '{}'", program.name,
                   program.buffers[gap.buffer].name);
  }
}

std::string print(const codegen::Program& program, const MemoryPlan& plan) {
  std::string text = fmt::format("arena of {}: {} bytes; live peak {} bytes; {} launches\n", program.name,
                                 plan.arena_bytes, plan.live_peak_bytes, program.launches.size());
  std::vector<std::size_t> order(plan.buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return plan.buffers[i].offset < 0; });
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.buffers[a].offset < plan.buffers[b].offset;
  });
  for (std::size_t i : order) {
    const PlannedBuffer& planned = plan.buffers[i];
    text += fmt::format("  {:>12} + {:>10}  launches {:>4} to {:>4}  {}:{} {}\n", planned.offset,
                        planned.bytes, planned.first, planned.last, i, program.buffers[i].name,
                        to_string(program.buffers[i].type));
  }
  return text;
}

}  // namespace rewire::runtime
