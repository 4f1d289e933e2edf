// The ops that a formula is written from, without repetition. Ops that compute the same are one. A part that
// occurs several times with other operands is a pattern, which the formula defines once as a function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

class FormulaParts {
 public:
  /// `is_inside` selects the ops that are written out; all others are symbols. `function` must outlive this
  /// object.
  FormulaParts(const ir::Function& function, std::function<bool(const ir::Op&)> is_inside);

  const ir::Op* definition(ir::Value value) const;
  bool is_inside(const ir::Op& op) const { return is_inside_(op); }
  static bool is_transparent(const ir::Op& op);
  /// Skips inside ops that only change a value's form. Of inside ops that compute the same, returns the
  /// first one's value.
  ir::Value resolved(ir::Value value) const;
  /// True if the op is written out: inside, more than a change of form, and the first to compute this.
  bool is_written(const ir::Op& op) const;
  /// True for a weight, the result of an op outside, or a part of one of these.
  bool is_symbol(ir::Value resolved) const;

  struct Pattern {
    ir::Value first;                    // the value that it is written from
    std::vector<ir::Value> parameters;  // the leaves of `first` that differ in other uses
    std::vector<ir::Value> fixed;       // the other leaves, the same in all uses
    std::set<std::int32_t> interior;    // values inside `first`
  };
  /// A value that a pattern computes, with these arguments for its parameters.
  struct Use {
    std::size_t pattern;
    std::vector<ir::Value> arguments;
  };
  /// `roots` are values with a line of their own, at which patterns end.
  void find_patterns(std::set<std::int32_t> roots);
  const std::vector<Pattern>& patterns() const { return patterns_; }
  /// Returns null if no pattern computes the value.
  const Use* use_of(ir::Value resolved) const;

 private:
  struct Part {
    ir::Value top;
    std::string structure;  // equal for parts that differ in their leaves alone
    std::vector<ir::Value> leaves;
    std::set<std::int32_t> interior;
    std::size_t operations = 0;
  };

  std::string key_of(const ir::Op& op, bool with_operands) const;
  void add_owners(std::set<std::int32_t>& roots) const;
  bool is_leaf(ir::Value resolved) const;
  /// Returns false if it has too many ops.
  bool describe(ir::Value value, Part& part, std::map<std::int32_t, std::size_t>& seen) const;
  std::size_t written_size(ir::Value value, std::map<std::int32_t, std::size_t>& sizes) const;
  std::set<std::int32_t> partial_sums() const;
  void add_pattern(const std::vector<const Part*>& parts);
  void take(const std::vector<const Part*>& parts, const std::vector<std::vector<ir::Value>>& columns,
            Pattern pattern);

  const ir::Function& function_;
  std::function<bool(const ir::Op&)> is_inside_;
  std::vector<std::int32_t> definitions_;
  std::map<std::int32_t, std::int32_t> same_;  // the first value that is computed the same way, by value
  std::set<std::int32_t> roots_, taken_;
  std::vector<Pattern> patterns_;
  std::map<std::int32_t, Use> uses_;
};

}  // namespace rewire::runtime
