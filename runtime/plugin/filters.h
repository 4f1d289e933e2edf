// The filters that the host gives every plugin: which joins it sees, and in which epochs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

class Filters {
 public:
  static bool is_filter(std::string_view name);
  static std::vector<ir::ParameterInfo> infos();

  /// Throws UserError on a value that no model accepts.
  void set(std::string_view name, std::string_view text);
  /// Throws UserError if no epoch is left.
  void check() const;
  /// Returns all six, as written or by default.
  std::vector<std::pair<std::string, std::string>> values() const;

  /// The plugin is on from the first to before the second.
  std::int64_t from_epoch() const { return from_epoch_; }
  std::int64_t to_epoch() const { return to_epoch_; }
  bool active(std::int64_t epoch) const { return from_epoch_ <= epoch && epoch < to_epoch_; }
  /// Returns the body indices of the `residual` ops that pass, in order. Throws UserError if a filter names
  /// something that the model lacks, or if no join passes.
  std::vector<std::size_t> select(const ir::Function& function) const;

 private:
  /// Numbers in the form "0+1+4-5".
  struct Numbers {
    struct Range {
      std::int64_t first, last;  // both included
    };
    std::string text = "all";
    std::vector<Range> ranges;  // empty: all

    bool holds(std::int64_t number) const;
  };
  static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  static Numbers read_numbers(std::string_view filter, std::string_view what, std::string_view text);
  /// Throws UserError if a range ends after the last number.
  static void check_last(std::string_view filter, std::string_view what, const Numbers& numbers,
                         std::int64_t last);

  // Empty lists: all.
  std::vector<std::string> sites_;
  Numbers layers_, stages_;
  std::string scope_ = "encoder";
  std::int64_t from_epoch_ = 0;
  std::int64_t to_epoch_ = kEnd;
};

}  // namespace rewire::runtime
