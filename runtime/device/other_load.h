// What other programs take of the CPUs that this process may run on, while something is measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

class OtherLoad {
 public:
  /// Begins to measure. `root` stands for "/".
  explicit OtherLoad(std::string root = "/");
  /// How many of these CPUs others kept busy since, on average; nothing where the system does not tell.
  std::optional<double> cpus() const;

 private:
  std::string root_;
  std::vector<int> allowed_;
  double wall_ = 0, own_ = 0;
  std::optional<double> busy_;
};

/// Seconds that the CPUs of these numbers were busy since the start, by the text of /proc/stat, whose ticks are
/// hundredths; nothing where it has none of them.
std::optional<double> busy_seconds(std::string_view proc_stat, const std::vector<int>& cpus);

}  // namespace rewire::runtime
