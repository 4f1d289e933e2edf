// Runs the tasks of a CPU launch by hand. Memory that none of them has written is NaN.
#pragma once

#include <algorithm>
#include <limits>

#include "runtime/exec/cpu/launches.h"
#include "runtime/io/host_tensor.h"

namespace rewire::test {

inline constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

/// `count` floats, or one where that is none.
inline runtime::HostTensor poisoned(std::int64_t count) {
  runtime::HostTensor tensor({ir::DType::f32, {std::max<std::int64_t>(count, 1)}});
  std::ranges::fill(tensor.as<float>(), kNone);
  return tensor;
}

/// The tasks of each phase in order, or from the last to the first.
inline void run_poisoned(runtime::CpuLaunch& launch, const runtime::BufferPointers& pointers,
                         bool backwards) {
  runtime::HostTensor shared = poisoned(launch.shared_bytes() / 4),
                      scratch = poisoned(launch.scratch_bytes() / 4);
  launch.bind(pointers);
  launch.lend(shared.bytes().data());
  std::vector<std::int64_t> ends = launch.barriers();
  ends.push_back(launch.tasks());
  std::int64_t first = 0;
  for (const std::int64_t end : ends) {
    for (std::int64_t task = first; task < end; ++task) {
      std::ranges::fill(scratch.as<float>(), kNone);
      launch.run(backwards ? end - 1 - (task - first) : task, scratch.bytes().data());
    }
    first = end;
  }
}

}  // namespace rewire::test
