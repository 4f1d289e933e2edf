// Where every value that must be in memory stands: a buffer of its own, a window of the concat it becomes
// part of, or the memory of the copy it would be turned into (a transposed attention output is written
// transposed, and the copy disappears).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "codegen/fuse/grouping.h"
#include "codegen/program.h"

namespace rewire::codegen {

class Storage {
 public:
  /// Adds the buffers of arguments, state, constants, results and values to `program`.
  Storage(const Grouping& grouping, const ir::Module& module, Program& program);

  /// The memory of a value that is an argument, a leaf, or exported.
  const View& view(ir::Value value) const;
  /// The state buffer of a parameter.
  std::int32_t state(const std::string& name) const { return states_.at(name); }
  /// Copy nodes that have nothing left to do.
  bool is_elided(int node) const { return elided_.contains(node); }
  /// True if another value of the same kernel, computed alike, is written to the memory of this one.
  bool is_written_by_twin(ir::Value value) const { return twins_.contains(value.id); }
  /// What a concat must still copy: operands that could not be written into their window.
  struct Copy {
    View from, to;
  };
  std::vector<Copy> concat_copies(int node) const;
  /// A new temporary.
  std::int32_t add_temporary(std::string name, ir::TensorType type);

 private:
  bool needs_memory(const ir::Op& constant) const;
  void assign(ir::Value value);
  bool assign_in_concat(ir::Value value);
  void assign_dense(ir::Value value);
  bool assign_through_copy(ir::Value value);
  bool assign_as_twin(ir::Value value);
  bool fits_users(ir::Value value, const View& view) const;
  std::int32_t add_buffer(Buffer buffer);
  View dense_view(std::int32_t buffer, const ir::Shape& shape) const;

  const Grouping& grouping_;
  Program& program_;
  std::map<std::int32_t, View> views_;  // by Value::id
  std::map<std::string, std::int32_t> states_;
  std::set<int> elided_;
  std::vector<std::int32_t> classes_;                        // by Value::id: twins.h
  std::map<std::pair<int, std::int32_t>, ir::Value> first_;  // by node and class: a value with memory
  std::set<std::int32_t> twins_;                             // by Value::id
  std::map<int, std::vector<Copy>> copies_;                  // by concat node
};

/// The one value of a constant that has the same everywhere.
std::optional<double> splat_value(const ir::Op& constant);

/// A matrix product's operand as a GEMM reads it: one of its last two strides is 1 and neither is 0 (an
/// extent of 1 is always right).
bool is_gemm_view(const View& view);

}  // namespace rewire::codegen
