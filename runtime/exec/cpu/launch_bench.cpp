#include "runtime/exec/cpu/launch_bench.h"

#include <algorithm>
#include <chrono>

#include "ir/error.h"
#include "runtime/exec/memory_plan.h"

namespace rewire::runtime {
namespace {

/// Fills a buffer with ordinary numbers. On some machines zeros and NaN multiply at another speed.
void fill_buffer(const ir::TensorType& type, std::byte* memory) {
  if (type.dtype == ir::DType::f32) {
    auto* x = reinterpret_cast<float*>(memory);
    for (std::int64_t i = 0; i < type.elements(); ++i) x[i] = static_cast<float>(i % 97) / 64 - 0.75F;
  } else {
    if (type.dtype != ir::DType::bf16)
      internal_error("cannot time a launch with a buffer of {}", ir::dtype_name(type.dtype));
    auto* x = reinterpret_cast<std::uint16_t*>(memory);
    for (std::int64_t i = 0; i < type.elements(); ++i) x[i] = i % 2 == 0 ? 0x3F80 : 0xBF00;  // 1, -0.5
  }
}

void make_room(HostTensor& memory, std::int64_t bytes) {
  if (static_cast<std::int64_t>(memory.bytes().size()) >= bytes) return;
  memory = HostTensor({ir::DType::u8, {bytes}});
}

}  // namespace

LaunchBench::LaunchBench(const codegen::Program& program, ThreadPool& pool)
    : pool_(pool), pointers_(program.buffers.size(), nullptr) {
  for (const codegen::Launch& launch : program.launches) {
    const BufferUse use = buffers_of(launch);
    for (const auto* buffers : {&use.reads, &use.writes}) {
      for (const std::int32_t buffer : *buffers) {
        const auto at = static_cast<std::size_t>(buffer);
        if (pointers_[at] != nullptr) continue;
        const ir::TensorType& type = program.buffers[at].type;
        memory_.emplace_back(type);
        pointers_[at] = memory_.back().bytes().data();
        fill_buffer(type, pointers_[at]);
      }
    }
  }
}

double LaunchBench::run(CpuLaunch& launch) {
  const std::int64_t stride = in_lines(std::max<std::int64_t>(launch.scratch_bytes(), 1));
  make_room(scratch_, stride * pool_.threads());
  make_room(shared_, std::max<std::int64_t>(launch.shared_bytes(), 1));
  launch.bind(pointers_);
  launch.lend(shared_.bytes().data());
  std::vector<std::int64_t> ends = launch.barriers();
  ends.push_back(launch.tasks());
  const auto start = std::chrono::steady_clock::now();
  std::int64_t first = 0;
  for (const std::int64_t until : ends) {
    pool_.run(until - first, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t task = begin; task < end; ++task)
        launch.run(first + task, scratch_.bytes().data() + worker * stride);
    });
    first = until;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace rewire::runtime
