// Lifetimes and placement; see memory_plan.h.
#include "runtime/exec/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kLine = 64;  // bytes

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

bool overlap_in_time(const PlannedBuffer& a, const PlannedBuffer& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The lowest offset where `buffer` collides with nothing placed that lives at the same time.
std::int64_t lowest_offset(const PlannedBuffer& buffer, const std::vector<const PlannedBuffer*>& placed,
                           std::int64_t gap) {
  std::vector<const PlannedBuffer*> neighbours;
  for (const PlannedBuffer* other : placed) {
    if (overlap_in_time(buffer, *other)) neighbours.push_back(other);
  }
  std::sort(neighbours.begin(), neighbours.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  std::int64_t offset = 0;
  for (const PlannedBuffer* other : neighbours) {
    if (offset + buffer.bytes + gap <= other->offset) break;
    offset = std::max(offset, aligned(other->offset + other->bytes + gap));
  }
  return offset;
}

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
  } else if (const auto* attention = std::get_if<codegen::AttentionLaunch>(&launch)) {
    for (const codegen::View* view : attention->reads()) use.reads.push_back(view->buffer);
    for (const codegen::View* view : attention->writes()) use.writes.push_back(view->buffer);
  } else {
    const auto& host = std::get<codegen::HostLaunch>(launch);
    for (const codegen::View& view : host.operands) use.reads.push_back(view.buffer);
    for (const codegen::View& view : host.results) use.writes.push_back(view.buffer);
  }
  return use;
}

MemoryPlan plan_memory(const codegen::Program& program, std::int64_t gap) {
  MemoryPlan plan;
  plan.buffers.resize(program.buffers.size());
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const BufferUse use = buffers_of(program.launches[i]);
    for (const auto* list : {&use.reads, &use.writes}) {
      for (std::int32_t buffer : *list) {
        PlannedBuffer& planned = plan.buffers[static_cast<std::size_t>(buffer)];
        if (planned.first < 0) planned.first = static_cast<int>(i);
        planned.last = static_cast<int>(i);
      }
    }
  }
  std::vector<std::size_t> order;
  std::vector<std::int64_t> live(program.launches.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    PlannedBuffer& planned = plan.buffers[i];
    if (program.buffers[i].kind != codegen::BufferKind::temporary || planned.first < 0) continue;
    planned.bytes = std::max<std::int64_t>(aligned(program.buffers[i].type.bytes()), kLine);
    order.push_back(i);
    for (int at = planned.first; at <= planned.last; ++at)
      live[static_cast<std::size_t>(at)] += planned.bytes;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  std::vector<const PlannedBuffer*> placed;
  for (std::size_t index : order) {
    PlannedBuffer& planned = plan.buffers[index];
    planned.offset = lowest_offset(planned, placed, gap);
    plan.arena_bytes = std::max(plan.arena_bytes, aligned(planned.offset + planned.bytes + gap));
    placed.push_back(&planned);
  }
  if (!live.empty()) plan.live_peak_bytes = *std::max_element(live.begin(), live.end());
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
