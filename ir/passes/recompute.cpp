#include "ir/passes/recompute.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/ops/work.h"
#include "ir/passes/dce.h"
#include "ir/passes/liveness.h"
#include "ir/passes/recompute_blocks.h"

namespace rewire::ir {
namespace {

/// The limits of a cone. If an op's cone would exceed them, the op's result becomes a leaf.
constexpr std::size_t kMaxChain = 64, kMaxLeaves = 8;

constexpr std::string_view kMode = "recompute", kNone = "none", kBlocks = "block";

bool is_cheap(const Op& op) {
  const OpClass op_class = op_info(op.code).op_class;
  return op_class == OpClass::pointwise || op_class == OpClass::random || is_view(op.code) ||
         op.code == Opcode::transpose;
}

/// Returns whether the kernel that computes `op` can also compute its operands, without writing them.
bool reads_on_the_way(const Op& op) {
  const OpClass op_class = op_info(op.code).op_class;
  return op_class == OpClass::pointwise || op_class == OpClass::reduce || is_view(op.code);
}

/// How to compute a value again: the ops to run, and the leaves in memory to start from. Both are sorted.
struct Cone {
  std::vector<std::int32_t> ops;  // body indices
  std::vector<Value> leaves;
};

template <class T>
void merge_into(std::vector<T>& target, const std::vector<T>& more) {
  std::vector<T> merged;
  std::set_union(target.begin(), target.end(), more.begin(), more.end(), std::back_inserter(merged));
  target = std::move(merged);
}

/// Decides what to compute again for one function and one peak, and rewrites the function.
class Recomputation {
 public:
  Recomputation(Function& function, const Liveness& liveness, std::int32_t peak, const RecomputeCost& cost)
      : function_(function),
        liveness_(liveness),
        peak_(peak),
        cost_(cost),
        cones_(function.types.size()),
        near_cones_(function.types.size()),
        levels_(function.types.size(), 0),
        written_(function.types.size(), false),
        reading_levels_(function.types.size()),
        held_(function.types.size(), false),
        again_(function.types.size(), false),
        needed_in_memory_(function.types.size(), false) {}

  /// Returns whether anything is computed again.
  bool run() {
    find_levels();
    find_compared();
    mark_held();
    for (std::int32_t i = 0; i <= peak_; ++i) decide(i);
    if (std::find(again_.begin(), again_.end(), true) == again_.end()) return false;
    rewrite();
    return true;
  }

 private:
  static std::size_t index(Value value) { return static_cast<std::size_t>(value.id); }
  const Op& op_at(std::int32_t i) const { return function_.body[static_cast<std::size_t>(i)]; }

  /// Returns whether an op after the peak reads the value, directly or through a view.
  bool crosses(Value value) const {
    return liveness_.definition(value) <= peak_ && liveness_.last_use(value) > peak_;
  }

  // A level is roughly what one kernel can hold: everything between two contractions. A value that is read
  // at a later level than its own is in memory, whatever this pass decides.
  void find_levels() {
    std::vector<std::int32_t> readers(function_.types.size(), 0);
    for (const Op& op : function_.body) {
      for (Value operand : op.operands) ++readers[index(operand)];
    }
    for (std::size_t i = 0; i < function_.body.size(); ++i) {
      const Op& op = function_.body[i];
      std::int32_t level = 0;
      for (Value operand : op.operands) level = std::max(level, levels_[index(operand)]);
      const bool on_the_way = reads_on_the_way(op);
      for (Value operand : op.operands) {
        const std::size_t storage = index(liveness_.storage(operand));
        if (static_cast<std::int32_t>(i) > peak_) {
          if (on_the_way && !is_view(op.code)) reading_levels_[storage].insert(level);
        } else if (!on_the_way || level > levels_[index(operand)]) {
          written_[storage] = true;
        }
      }
      for (Value result : op.results) {
        levels_[index(result)] = on_the_way ? level : level + 1;
        written_[index(result)] = !on_the_way;
      }
      find_epilogue(static_cast<std::int32_t>(i), readers);
    }
    // An op that is computed again runs where its result is read, so its operands are read there too.
    for (std::int32_t i = peak_; i >= 0; --i) {
      const Op& op = op_at(i);
      if (!is_cheap(op)) continue;
      const std::set<std::int32_t>& own = reading_levels_[index(liveness_.storage(op.results[0]))];
      for (Value operand : op.operands) {
        if (levels_[index(operand)] == levels_[index(op.results[0])])
          reading_levels_[index(liveness_.storage(operand))].insert(own.begin(), own.end());
      }
    }
  }

  // A product's call may also compute an epilogue, and then it writes the epilogue instead of the product.
  // The epilogue is never computed again without the product:
  //   matmul + bias      f32(matmul) + bias      bf16(either sum)
  // Each of these values is read only by the next one.
  void find_epilogue(std::int32_t i, const std::vector<std::int32_t>& readers) {
    const Op& op = op_at(i);
    const auto defined = [&](Value value, Opcode code) {
      const std::int32_t at = liveness_.definition(value);
      return at >= 0 && op_at(at).code == code && readers[index(value)] == 1;
    };
    const auto write_instead_of = [&](Value product) {
      written_[index(product)] = false;
      written_[index(op.results[0])] = true;
    };
    if (op.code == Opcode::cast && defined(op.operands[0], Opcode::add)) {
      const bool narrows = function_.type(op.results[0]).bytes() < function_.type(op.operands[0]).bytes();
      if (!narrows || !epilogues_.contains(liveness_.definition(op.operands[0]))) return;
      write_instead_of(op.operands[0]);
      epilogues_.insert(i);
    }
    if (op.code != Opcode::add) return;
    for (const std::size_t k : {0, 1}) {
      Value product = op.operands[k];
      if (defined(product, Opcode::cast)) product = op_at(liveness_.definition(product)).operands[0];
      if (!defined(product, Opcode::matmul)) continue;
      write_instead_of(product);
      const std::int32_t bias = liveness_.definition(op.operands[1 - k]);
      if (bias >= 0 && op_at(bias).code == Opcode::broadcast) epilogues_.insert(i);
    }
  }

  /// Returns whether the op casts a weight to another dtype. Such a copy is made once, for all its readers.
  bool is_weight_copy(const Op& op) const {
    if (op.code != Opcode::cast) return false;
    const std::int32_t at = liveness_.definition(liveness_.storage(op.operands[0]));
    return at >= 0 && op_at(at).code == Opcode::param && function_.type(op.results[0]).rank() > 0;
  }

  /// Finds each x of x == max(x), which the gradient of a max has. If x were
  /// computed again, it might be rounded differently (a product and a sum may
  /// become one operation, or not). Then it would equal the maximum nowhere.
  void find_compared() {
    for (const Op& op : function_.body) {
      if (op.code != Opcode::compare) continue;
      for (const std::size_t k : {0, 1}) {
        const Value value = liveness_.storage(op.operands[k]);
        const std::int32_t at = liveness_.definition(liveness_.storage(op.operands[1 - k]));
        if (at >= 0 && op_at(at).code == Opcode::max && liveness_.storage(op_at(at).operands[0]) == value)
          compared_.insert(value);
      }
    }
  }

  void mark_held() {
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const Value value{static_cast<std::int32_t>(i)};
      held_[i] = liveness_.storage(value) == value && crosses(value);
    }
    for (std::size_t i = static_cast<std::size_t>(peak_) + 1; i < function_.body.size(); ++i) {
      const Op& op = function_.body[i];
      if (reads_on_the_way(op)) continue;
      for (Value operand : op.operands) needed_in_memory_[index(liveness_.storage(operand))] = true;
    }
    // If a contraction reads a view after the peak, the loop above marks the view's storage. A result of the
    // function stays in memory in any case.
  }

  void decide(std::int32_t i) {
    const Op& op = op_at(i);
    for (Value result : op.results) {
      const Value storage = liveness_.storage(result);
      const bool free = liveness_.bytes(storage) == 0;
      if (free) continue;  // its cones stay empty: it is always available
      const Cone itself{{}, {storage}};
      const bool cheap =
          is_cheap(op) && !is_weight_copy(op) && !epilogues_.contains(i) && !compared_.contains(storage);
      Cone cone = cheap ? extend(cones_, op, i).value_or(itself) : itself;
      Cone near = cheap ? extend(near_cones_, op, i).value_or(itself) : itself;
      if (storage == result && crosses(result)) {
        const std::optional<std::int64_t> far_won = won(result, cone), near_won = won(result, near);
        const bool takes_near = near_won && (!far_won || (cost_.takes_best_chain && *near_won > *far_won));
        if (takes_near || !far_won) cone = takes_near ? near : itself;
        again_[index(result)] = !cone.ops.empty();
        if (again_[index(result)]) {
          held_[index(result)] = false;
          for (Value leaf : cone.leaves) held_[index(leaf)] = true;
        }
        near = cone;
      } else if (written_[index(storage)]) {
        near = itself;
      }
      cones_[index(result)] = std::move(cone);
      near_cones_[index(result)] = std::move(near);
    }
  }

  /// Returns the cone of the result of `op`, or nothing if the cone grows too large.
  static std::optional<Cone> extend(const std::vector<Cone>& cones, const Op& op, std::int32_t i) {
    Cone cone;
    for (Value operand : op.operands) {
      merge_into(cone.ops, cones[index(operand)].ops);
      merge_into(cone.leaves, cones[index(operand)].leaves);
      if (cone.ops.size() >= kMaxChain || cone.leaves.size() > kMaxLeaves) return std::nullopt;
    }
    cone.ops.push_back(i);  // the largest index so far
    return cone;
  }

  /// Returns the bytes of traffic that recomputing the value saves, or nullopt if it is not worth it.
  std::optional<std::int64_t> won(Value value, const Cone& cone) const {
    if (cone.ops.empty()) return std::nullopt;
    if (liveness_.last_use(value) == static_cast<std::int32_t>(function_.body.size())) return std::nullopt;
    const std::int64_t bytes = liveness_.bytes(value);
    std::int64_t newly_held = 0, newly_written = 0, read = 0, flops = 0;
    for (Value leaf : cone.leaves) {
      read += liveness_.bytes(leaf);
      if (held_[index(leaf)]) continue;
      newly_held += liveness_.bytes(leaf);
      if (!written_[index(leaf)]) newly_written += liveness_.bytes(leaf);
    }
    for (std::int32_t i : cone.ops) {
      flops += static_cast<std::int64_t>(op_work(function_, op_at(i)).flops);
    }
    const std::set<std::int32_t>& levels = reading_levels_[index(value)];
    const bool written_again = needed_in_memory_[index(value)] || levels.size() > 1;
    const bool read_later =
        needed_in_memory_[index(value)] || (!levels.empty() && *levels.rbegin() > levels_[index(value)]);
    const bool spares_write = !written_[index(value)] && read_later;
    const std::int64_t gain = bytes - newly_held;
    const std::int64_t written = (written_again ? bytes : 0) + newly_written - (spares_write ? bytes : 0);
    const std::int64_t cost =
        flops / cost_.flops_per_byte + written + std::max<std::int64_t>(0, read - bytes);
    const std::int64_t won = cost_.worth * gain - cost;
    return won > 0 || (won == 0 && gain > 0) ? std::optional(won) : std::nullopt;
  }

  void rewrite() {
    std::vector<Op> old_body = std::move(function_.body);
    function_.body.assign(old_body.begin(), old_body.begin() + peak_ + 1);
    clones_.assign(function_.types.size(), Value{});
    for (std::size_t i = static_cast<std::size_t>(peak_) + 1; i < old_body.size(); ++i) {
      for (Value& operand : old_body[i].operands) operand = available(old_body, operand);
      function_.body.push_back(std::move(old_body[i]));
    }
  }

  /// Returns the value itself if it is held or is made after the peak, else its clone.
  Value available(const std::vector<Op>& old_body, Value value) {
    if (liveness_.definition(value) > peak_ || !again_[index(liveness_.storage(value))]) return value;
    if (cones_[index(value)].ops.empty()) return value;  // a view that was cut from its storage's chain
    if (!clones_[index(value)]) clone(old_body, value);
    return clones_[index(value)];
  }

  /// Clones the ops of the value's cone, and the views from its storage to it.
  void clone(const std::vector<Op>& old_body, Value value) {
    std::vector<std::int32_t> chain = cones_[index(value)].ops;
    for (std::int32_t i : chain) {
      const Op& op = old_body[static_cast<std::size_t>(i)];
      if (clones_[index(op.results[0])]) continue;
      Op copy = op;
      copy.location += copy.location.empty() ? "recomputed" : ".recomputed";
      for (Value& operand : copy.operands) {
        if (clones_[index(operand)]) operand = clones_[index(operand)];
      }
      copy.results[0] = function_.new_value(TensorType(function_.type(op.results[0])));
      clones_[index(op.results[0])] = copy.results[0];
      function_.body.push_back(std::move(copy));
    }
  }

  Function& function_;
  const Liveness& liveness_;
  std::int32_t peak_;
  const RecomputeCost cost_;
  std::vector<Cone> cones_;                             // by Value::id, like all that follow
  std::vector<Cone> near_cones_;                        // the same, cut at what is written in any case
  std::vector<std::int32_t> levels_;                    // contractions on the longest path to the value
  std::set<Value> compared_;                            // values that are compared with their own maximum
  std::set<std::int32_t> epilogues_;                    // body indices of biases and casts after products
  std::vector<bool> written_;                           // written before the peak, whatever reads it later
  std::vector<std::set<std::int32_t>> reading_levels_;  // levels after the peak that read it
  std::vector<bool> held_;                              // has memory across the peak, as decided so far
  std::vector<bool> again_;                             // computed again after the peak
  std::vector<bool> needed_in_memory_;                  // a user after the peak reads it from memory
  std::vector<Value> clones_;
};

}  // namespace

std::int64_t peak_bytes(const Function& function) {
  return Liveness(function).peak().bytes;
}

Recompute recompute_mode(const Module& module) {
  const Attribute* attribute = module.attributes.find(kMode);
  if (attribute == nullptr) return Recompute::cheap;
  const auto* name = std::get_if<std::string>(attribute);
  if (name != nullptr && *name == kNone) return Recompute::none;
  if (name != nullptr && *name == kBlocks) return Recompute::blocks;
  user_error("module @{}: attribute '{}' must be \"{}\" or \"{}\"", module.name, kMode, kNone, kBlocks);
}

void set_recompute(Module& module, Recompute mode) {
  if (mode == Recompute::cheap) {
    module.attributes.erase(kMode);
  } else {
    module.attributes.set(kMode, std::string(mode == Recompute::none ? kNone : kBlocks));
  }
}

namespace {

bool recompute_cheap(Function& function, const RecomputeCost& cost) {
  const Liveness liveness(function);
  const Liveness::Peak peak = liveness.peak();
  return peak.op >= 0 && Recomputation(function, liveness, peak.op, cost).run();
}

}  // namespace

void recompute(Module& module, PassContext& context) {
  const Recompute mode = recompute_mode(module);
  if (mode == Recompute::none) return;
  for (Function& function : module.functions) {
    Function tried = function;
    const auto keep_smaller = [&](bool changed) {
      if (changed && peak_bytes(tried) < peak_bytes(function)) function = tried;
    };
    if (mode == Recompute::cheap) {
      keep_smaller(recompute_cheap(tried, context.recompute));
      continue;
    }
    Function cheap = function;
    keep_smaller(recompute_blocks(tried, context.blocks));
    keep_smaller(recompute_cheap(tried, context.recompute));
    std::swap(tried, cheap);
    keep_smaller(recompute_cheap(tried, context.recompute));
  }
  dce(module, context);
}

}  // namespace rewire::ir
