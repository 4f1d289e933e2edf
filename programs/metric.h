// The numbers that programs give of what they run on, by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::programs {

/// How a person reads it: as it is, times 100 with a percent sign, or in the files of a run alone.
enum class Shown : std::uint8_t { number, percent, in_files };

/// A mean that adds up right whatever it is over: batches, the micro-batches of a step, ranks. It is the sum
/// of its numerators over the sum of its denominators.
struct Metric {
  std::string name;              // "top1"
  std::string numerator;         // a result of the program, f32[]
  std::string denominator = {};  // likewise; none: each run counts `count`
  double count = 1;
};
using Metrics = std::vector<Metric>;

/// Which of two values is that of the better network.
enum class Better : std::uint8_t { lower, higher };

/// What a metric of this name is called.
struct MetricInfo {
  std::string name;   // "top1": in files
  std::string title;  // "top-1": for people
  Shown shown = Shown::in_files;
  Better better = Better::lower;
};

/// Of so few classes the right one is always among the first five: top-5 is not told.
constexpr bool tells_top5(std::int64_t classes) {
  return classes > 5;
}

/// Stands before the name of a metric that is told of the weights' averages: "ema_top1".
inline constexpr std::string_view kOfAverages = "ema_";

}  // namespace rewire::programs
