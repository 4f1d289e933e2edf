// Times work on a device by its own clock. Several runs are one captured graph, so that neither the host nor
// the start of a launch counts.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types.h"
#include "runtime/device/cuda/device.h"

namespace rewire::runtime {

/// The byte that fills the memory of timed work: a number of any floating type that is neither 0 nor large.
inline constexpr unsigned char kTimedByte = 0x3C;

/// Fills memory with elements of this dtype for work whose time is measured: floats uniform in [-1, 1), the
/// same every time, other types 0. A device's power, and with it its clock, depends on the numbers that its
/// multipliers receive. Waits until the memory is filled.
void fill_at_random(const cuda::Stream& stream, cuda::Address to, std::int64_t bytes, ir::DType dtype,
                    std::string_view purpose);

/// Memory that some work writes.
struct WrittenMemory {
  cuda::Address address = 0;
  std::int64_t bytes = 0;
};
class GraphTimer {
 public:
  /// Makes a timer for `works` pieces of work, known by their numbers. `purpose`, for messages: "to time
  /// matrix products". The stream must outlive it.
  GraphTimer(const cuda::Stream& stream, std::string purpose, std::size_t works);

  /// Returns the seconds of one run. `work` is called when its number first comes, may load code then, and
  /// must enqueue the same at every call.
  double time(std::size_t number, const std::function<void()>& work);
  /// Runs `work` twice, each time over memory that holds kTimedByte, and returns true if it writes the same
  /// bits both times.
  bool repeats(const std::function<void()>& work, std::span<const WrittenMemory> written) const;

 private:
  struct Replay {
    cuda::Graph graph;
    int runs = 1;
  };
  double seconds(const std::function<void()>& work) const;

  const cuda::Stream& stream_;
  std::string purpose_;
  cuda::Event start_{true}, end_{true};
  std::vector<Replay> replays_;
};

}  // namespace rewire::runtime
