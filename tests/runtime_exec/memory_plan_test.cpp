// The plan of an arena stands where a search through everything that is placed would put it.
#include "runtime/exec/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "ir/opcodes.h"
#include "runtime/exec/cpu/launches.h"
#include "tests/support/catch.h"

using namespace rewire;

namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// Largest first, each at the lowest offset that is free of all placed buffers that live at the same time.
std::vector<std::int64_t> naive_offsets(const std::vector<runtime::PlannedBuffer>& buffers,
                                        std::int64_t gap) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::int64_t> offsets(buffers.size(), -1);
  for (const std::size_t index : order) {
    const runtime::PlannedBuffer& buffer = buffers[index];
    const auto collides = [&](std::int64_t offset) {
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        const runtime::PlannedBuffer& other = buffers[i];
        if (offsets[i] < 0 || other.last < buffer.first || buffer.last < other.first) continue;
        if (offset < aligned(offsets[i] + other.bytes + gap) && offsets[i] < offset + buffer.bytes + gap)
          return true;
      }
      return false;
    };
    std::int64_t offset = 0;
    while (collides(offset)) offset += 64;
    offsets[index] = offset;
  }
  return offsets;
}

}  // namespace

TEST_CASE("buffers stand at the lowest offset that is free for their whole lives, the largest first") {
  const unsigned seed = GENERATE(1u, 2u, 3u, 4u, 5u);
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int round = 0; round < 12; ++round) {
    const int launches = 1 + draw(40), count = draw(60);
    codegen::Program program;
    program.launches.resize(static_cast<std::size_t>(launches), codegen::OpCall{});
    for (int i = 0; i < count; ++i) {
      program.buffers.push_back({"t", codegen::BufferKind::temporary, {ir::DType::f32, {1 + draw(100)}}, {}});
      for (int use = 0; use < 2; ++use) {
        auto& launch = std::get<codegen::OpCall>(program.launches[static_cast<std::size_t>(draw(launches))]);
        launch.operands.push_back({i, 0, {1}, {1}});
      }
    }
    for (const std::int64_t gap : {std::int64_t{0}, runtime::kGap}) {
      const runtime::MemoryPlan plan = runtime::plan_memory(program, gap);
      const std::vector<std::int64_t> expected = naive_offsets(plan.buffers, gap);
      std::int64_t arena = 0;
      std::vector<std::int64_t> live(static_cast<std::size_t>(launches));
      for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
        const runtime::PlannedBuffer& buffer = plan.buffers[i];
        CHECK(buffer.offset == expected[i]);
        arena = std::max(arena, aligned(buffer.offset + buffer.bytes + gap));
        for (int at = buffer.first; at <= buffer.last; ++at)
          live[static_cast<std::size_t>(at)] += buffer.bytes;
      }
      CHECK(plan.arena_bytes == arena);
      CHECK(plan.live_peak_bytes == *std::ranges::max_element(live));
    }
  }
}

TEST_CASE("decompositions that stand one behind the other are one wave, unless one reads another's result") {
  // Each reads a matrix of its own and writes one that nobody reads after it: alone it would stand where the last one was.
  const bool chained = GENERATE(false, true);
  const ir::Opcode code = GENERATE(ir::Opcode::qr, ir::Opcode::eigh);
  CAPTURE(chained);
  codegen::Program program;
  const auto buffer = [&] {
    program.buffers.push_back({"t", codegen::BufferKind::temporary, {ir::DType::f32, {8, 8}}, {}});
    return codegen::View{static_cast<std::int32_t>(program.buffers.size()) - 1, 0, {8, 8}, {8, 1}};
  };
  for (int i = 0; i < 4; ++i) {
    codegen::OpCall call;
    call.op.code = code;
    call.operands = {chained && i == 2 ? std::get<codegen::OpCall>(program.launches.back()).results[0]
                                       : buffer()};
    call.results = {buffer()};
    program.launches.emplace_back(call);
  }
  const runtime::MemoryPlan plan = runtime::plan_memory(program, 0, runtime::Decompositions::together);
  const std::vector<std::vector<int>> one = {{0, 1, 2, 3}}, two = {{0, 1}, {2, 3}};
  CHECK(runtime::make_waves(program, plan) == (chained ? two : one));
}
