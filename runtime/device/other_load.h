// Measures the use of this process's CPUs by other programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

class OtherLoad {
 public:
  /// Begins to measure. `root` replaces "/".
  explicit OtherLoad(std::string root = "/");
  /// Returns how many of these CPUs others kept busy since, on average; nothing if the system does not say.
  std::optional<double> cpus() const;

 private:
  std::string root_;
  std::vector<int> allowed_;
  double wall_ = 0, own_ = 0;
  std::optional<double> busy_;
};

/// Returns the seconds that these CPUs were busy since the system started, from the text of /proc/stat,
/// whose ticks are hundredths; nothing if it has none of them.
std::optional<double> busy_seconds(std::string_view proc_stat, const std::vector<int>& cpus);

}  // namespace rewire::runtime
