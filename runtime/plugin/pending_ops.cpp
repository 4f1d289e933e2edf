#include "runtime/plugin/pending_ops.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/error.h"

namespace rewire::runtime {

PendingOps::PendingOps(ir::Function& function, Definitions& definitions)
    : function_(function), first_(function.body.size()), definitions_(definitions) {}

void PendingOps::begin(std::size_t position) {
  note();
  position_ = position;
}

void PendingOps::stand_behind(ir::Value value) {
  const std::int32_t op = definitions_.of(value);
  if (op < 0) return;
  const auto defined = static_cast<std::size_t>(op);
  position_ = std::max(position_, is_old(defined) ? defined + 1 : position_of(defined));
}

void PendingOps::make_read(std::size_t op, ir::Value value) {
  note();
  const std::int32_t at = definitions_.of(value);
  if (at < 0) return;
  const auto defined = static_cast<std::size_t>(at);
  in_order_ = in_order_ && (is_old(defined) ? defined < op : position_of(defined) <= op);
}

bool PendingOps::depends_on(ir::Value value, const std::vector<std::size_t>& ops) {
  note();
  if (ops.empty()) return false;
  const std::size_t earliest = *std::ranges::min_element(ops);
  std::vector<bool> seen(function_.body.size());
  std::vector<ir::Value> pending = {value};
  while (!pending.empty()) {
    const std::int32_t op = definitions_.of(pending.back());
    pending.pop_back();
    if (op < 0) continue;
    const auto defined = static_cast<std::size_t>(op);
    if (seen[defined]) continue;
    seen[defined] = true;
    if (std::ranges::find(ops, defined) != ops.end()) return true;
    // While all ops are in order, no op before the earliest of `ops` can read their results.
    if (in_order_ && position_of(defined) < earliest) continue;
    const std::vector<ir::Value>& operands = function_.body[defined].operands;
    pending.insert(pending.end(), operands.begin(), operands.end());
  }
  return false;
}

void PendingOps::note() {
  positions_.resize(function_.body.size() - first_, position_);
}

void PendingOps::sort(std::vector<std::size_t>& order) {
  enum class Mark : char { none, open, done };
  std::vector<Mark> marks(function_.body.size());
  std::vector<std::size_t> sorted, stack;
  sorted.reserve(order.size());
  for (const std::size_t root : order) {
    stack.push_back(root);
    while (!stack.empty()) {
      const std::size_t op = stack.back();
      if (marks[op] != Mark::none) {
        if (marks[op] == Mark::open) sorted.push_back(op);
        marks[op] = Mark::done;
        stack.pop_back();
        continue;
      }
      marks[op] = Mark::open;
      for (const ir::Value operand : function_.body[op].operands) {
        const std::int32_t before = definitions_.of(operand);
        if (before < 0) continue;
        const Mark mark = marks[static_cast<std::size_t>(before)];
        if (mark == Mark::open) internal_error("a rewrite made a value depend on itself");
        if (mark == Mark::none) stack.push_back(static_cast<std::size_t>(before));
      }
    }
  }
  order = std::move(sorted);
}

void PendingOps::place() {
  note();
  std::vector<std::size_t> order(function_.body.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t op) {
    return std::pair(position_of(op), is_old(op));  // ops that go before an old op, then that op
  });
  if (!in_order_) sort(order);
  std::vector<ir::Op> body;
  body.reserve(order.size());
  for (const std::size_t op : order) body.push_back(std::move(function_.body[op]));
  function_.body = std::move(body);
}

}  // namespace rewire::runtime
