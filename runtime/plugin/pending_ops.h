// The ops that a rewrite emits, until it is over. They are appended to the function's body, each noted for
// the join that it goes before, and moved there all at once: put in place one by one, each would move all
// that stand behind it, and `what is defined where` would have to be found anew for each.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

class PendingOps {
 public:
  /// The function must outlive it, and its body grow at its end only until place().
  explicit PendingOps(ir::Function& function);

  /// What is appended to the body from now on goes before the op at `position`.
  void begin(std::size_t position);
  /// Whether the value will be defined before the op at `position`. Values of no op are defined everywhere.
  bool is_defined_before(ir::Value value, std::size_t position);
  /// Moves what was appended to where it goes, in the order in which it was.
  void place();

 private:
  /// Notes where the ops go that have been appended since the last call.
  void note();

  ir::Function& function_;
  std::size_t first_;                         // of the appended ops
  std::vector<std::int32_t> definitions_;     // of the values that were there, as Function::definitions
  std::size_t position_ = 0;                  // where the ops go that are not noted yet
  std::vector<std::size_t> positions_;        // of each appended op
  std::vector<std::size_t> value_positions_;  // of each value that came with them
};

}  // namespace rewire::runtime
