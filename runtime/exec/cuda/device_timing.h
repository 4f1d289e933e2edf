// How long work takes on a device, by its own clock: several runs of it in one captured graph, so that
// neither the host nor the start of one launch counts.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device/cuda/device.h"

namespace rewire::runtime {

/// The byte of which memory is made that work is timed on: as a number of any floating type neither 0 nor
/// large.
inline constexpr unsigned char kTimedByte = 0x3C;

class GraphTimer {
 public:
  /// For so many works, each known by its number. `purpose`, for messages: "to time matrix products". The
  /// stream must outlive it.
  GraphTimer(const cuda::Stream& stream, std::string purpose, std::size_t works);

  /// Seconds of one run of a work, which enqueues the same on the stream whenever it is called: it is, when
  /// its number first comes, and may load code then.
  double time(std::size_t number, const std::function<void()>& work);

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
