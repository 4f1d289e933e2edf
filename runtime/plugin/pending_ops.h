// The ops that a rewrite emits, until it ends. They are appended to the function's body, each noted for the
// join that it precedes, and all moved there at once. Moving each one directly would shift all later ops,
// and all definitions would have to be found again.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/module.h"
#include "runtime/plugin/definitions.h"

namespace rewire::runtime {

class PendingOps {
 public:
  /// The arguments must outlive it. Until place(), the function's body may grow only at its end.
  PendingOps(ir::Function& function, Definitions& definitions);

  /// Ops appended from now on go before the op at `position`; later, if they read a later value; earlier, if
  /// an old op is made to read them.
  void begin(std::size_t position);
  /// Must be called for each value that the next appended ops read.
  void stand_behind(ir::Value value);
  /// Must be called before the old op at this body index is made to read the value.
  void make_read(std::size_t op, ir::Value value);
  /// Returns true if any of these ops, given by body index, goes into the value.
  bool depends_on(ir::Value value, const std::vector<std::size_t>& ops);
  /// Returns the number of ops before the rewrite, which come first in the body.
  std::size_t old_ops() const { return first_; }
  /// Moves the appended ops to their places, in their order.
  void place();

 private:
  /// Notes the places of the ops appended since the last call.
  void note();
  bool is_old(std::size_t op) const { return op < first_; }
  /// Returns the place of the op at a body index, if no earlier op reads it.
  std::size_t position_of(std::size_t op) const { return is_old(op) ? op : positions_.at(op - first_); }
  /// Moves ops forward, as few as possible, so that each precedes the ops that read it.
  void sort(std::vector<std::size_t>& order);

  ir::Function& function_;
  std::size_t first_;  // of the appended ops
  Definitions& definitions_;
  std::size_t position_ = 0;            // the place of ops that are not noted yet
  std::vector<std::size_t> positions_;  // of each appended op
  bool in_order_ = true;                // each op's operands precede it
};

}  // namespace rewire::runtime
