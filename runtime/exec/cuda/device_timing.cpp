#include "runtime/exec/cuda/device_timing.h"

#include <algorithm>

namespace rewire::runtime {
namespace {

constexpr double kGraphSeconds = 2e-4;  // duration of one timing, which sets its number of runs
constexpr int kMostRuns = 20;

}  // namespace

GraphTimer::GraphTimer(const cuda::Stream& stream, std::string purpose, std::size_t works)
    : stream_(stream), purpose_(std::move(purpose)), replays_(works) {}

double GraphTimer::time(std::size_t number, const std::function<void()>& work) {
  Replay& replay = replays_[number];
  if (!replay.graph) {
    work();
    stream_.synchronise(purpose_);
    const double once = seconds(work);
    replay.runs = static_cast<int>(std::clamp(kGraphSeconds / std::max(once, 1e-9), 1.0, double{kMostRuns}));
    replay.graph = cuda::Graph(stream_, purpose_, [&] {
      for (int i = 0; i < replay.runs; ++i) work();
    });
  }
  return seconds([&] { replay.graph.launch(stream_, purpose_); }) / replay.runs;
}

double GraphTimer::seconds(const std::function<void()>& work) const {
  start_.record(stream_);
  work();
  end_.record(stream_);
  stream_.synchronise(purpose_);
  return end_.seconds_since(start_);
}

}  // namespace rewire::runtime
