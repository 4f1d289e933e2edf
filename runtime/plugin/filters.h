// The filters that every plugin has from the host: which joins it sees, and in which epochs.
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

  /// UserError on a value that is none for any model.
  void set(std::string_view name, std::string_view text);
  /// UserError if no epoch is left.
  void check() const;
  /// All five, as written or by default.
  std::vector<std::pair<std::string, std::string>> values() const;

  /// On from the first to before the second.
  std::int64_t from_epoch() const { return from_epoch_; }
  std::int64_t to_epoch() const { return to_epoch_; }
  bool active(std::int64_t epoch) const { return from_epoch_ <= epoch && epoch < to_epoch_; }
  /// The body indices of the `residual` ops that pass, in order. UserError where a filter names what the
  /// model does not have, and where nothing passes.
  std::vector<std::size_t> select(const ir::Function& function) const;

 private:
  struct Range {
    std::int64_t first, last;  // both belong to it
  };
  static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  void set_layers(std::string_view text);
  bool holds_layer(std::int64_t block) const;

  // Empty lists: all.
  std::vector<std::string> sites_;
  std::vector<Range> layers_;
  std::string scope_ = "encoder";
  std::int64_t from_epoch_ = 0;
  std::int64_t to_epoch_ = kEnd;
  std::string layers_text_ = "all";
};

}  // namespace rewire::runtime
