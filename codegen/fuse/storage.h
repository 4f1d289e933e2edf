// Places every value that must be in memory: in a buffer of its own, in a window of the concat that it
// becomes part of, or in the memory of its copy (a transposed attention output is written transposed, and
// the copy disappears).
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

  /// Returns the memory of a value that is an argument, a leaf, or exported.
  const View& view(ir::Value value) const;
  /// Returns the state buffer of a parameter.
  std::int32_t state(const std::string& name) const { return states_.at(name); }
  /// Returns whether a copy node has nothing left to do.
  bool is_elided(int node) const { return elided_.contains(node); }
  /// Returns true if another value of the same kernel, computed alike, is written to the memory of this one.
  bool is_written_by_twin(ir::Value value) const { return twins_.contains(value.id); }
  /// The copies that a concat still needs: operands that could not be written into their window.
  struct Copy {
    View from, to;
  };
  std::vector<Copy> concat_copies(int node) const;
  /// Adds a temporary; returns its buffer.
  std::int32_t add_temporary(std::string name, ir::TensorType type);

 private:
  bool needs_memory(const ir::Op& constant) const;
  void assign(ir::Value value);
  bool assign_as_sum(ir::Value value);
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

/// Returns a constant's value, if it has one for all elements.
std::optional<double> splat_value(const ir::Op& constant);

/// Returns whether a GEMM can read a view as a matrix: one of the last two strides is 1 and neither is 0 (an
/// extent of 1 always fits).
bool is_gemm_view(const View& view);

}  // namespace rewire::codegen
