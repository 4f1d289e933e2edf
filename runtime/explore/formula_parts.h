// The ops that a formula is written from, without what would be written twice: ops that compute the same are one, and
// a part that occurs several times of other operands is a pattern, which the formula defines once as a function.
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
  /// `is_inside`: the ops that are written out; all others are symbols. The function must outlive it.
  FormulaParts(const ir::Function& function, std::function<bool(const ir::Op&)> is_inside);

  const ir::Op* definition(ir::Value value) const;
  bool is_inside(const ir::Op& op) const { return is_inside_(op); }
  static bool is_transparent(const ir::Op& op);
  /// The value before inside ops that only change its form; of inside ops that compute the same, the first one's.
  ir::Value resolved(ir::Value value) const;
  /// Whether the op is written out: inside, no change of form alone, and no op before it computes the same.
  bool is_written(const ir::Op& op) const;
  /// A weight, or what an op outside computes, or a part of one of these.
  bool is_symbol(ir::Value resolved) const;

  struct Pattern {
    ir::Value first;                    // what it is written from
    std::vector<ir::Value> parameters;  // of `first`, what the others have something else for
    std::vector<ir::Value> fixed;       // what it reads besides, in all of them
    std::set<std::int32_t> interior;    // of `first`
  };
  /// A value that a pattern computes, of these in place of its parameters.
  struct Use {
    std::size_t pattern;
    std::vector<ir::Value> arguments;
  };
  /// `roots`: values that have a line of their own, which patterns end at.
  void find_patterns(std::set<std::int32_t> roots);
  const std::vector<Pattern>& patterns() const { return patterns_; }
  /// Null where no pattern computes the value.
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
  /// False where it has too many ops.
  bool describe(ir::Value value, Part& part, std::map<std::int32_t, std::size_t>& seen) const;
  std::size_t written_size(ir::Value value, std::map<std::int32_t, std::size_t>& sizes) const;
  std::set<std::int32_t> partial_sums() const;
  void add_pattern(const std::vector<const Part*>& parts);
  void take(const std::vector<const Part*>& parts, const std::vector<std::vector<ir::Value>>& columns,
            Pattern pattern);

  const ir::Function& function_;
  std::function<bool(const ir::Op&)> is_inside_;
  std::vector<std::int32_t> definitions_;
  std::map<std::int32_t, std::int32_t> same_;  // the first value that is computed so, by value
  std::set<std::int32_t> roots_, taken_;
  std::vector<Pattern> patterns_;
  std::map<std::int32_t, Use> uses_;
};

}  // namespace rewire::runtime
