#include "runtime/plugin/pending_ops.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace rewire::runtime {

PendingOps::PendingOps(ir::Function& function)
    : function_(function), first_(function.body.size()), definitions_(function.definitions()) {}

void PendingOps::begin(std::size_t position) {
  note();
  position_ = position;
}

bool PendingOps::is_defined_before(ir::Value value, std::size_t position) {
  note();
  const auto id = static_cast<std::size_t>(value.id);
  if (id >= definitions_.size()) return value_positions_.at(id - definitions_.size()) <= position;
  return definitions_[id] < static_cast<std::int64_t>(position);
}

void PendingOps::note() {
  positions_.resize(function_.body.size() - first_, position_);
  value_positions_.resize(function_.types.size() - definitions_.size(), position_);
}

void PendingOps::place() {
  note();
  std::vector<std::size_t> order(positions_.size());
  std::iota(order.begin(), order.end(), first_);
  std::ranges::stable_sort(order, {}, [&](std::size_t op) { return positions_[op - first_]; });
  std::vector<ir::Op> body;
  body.reserve(function_.body.size());
  auto next = order.begin();
  for (std::size_t i = 0; i < first_; ++i) {
    for (; next != order.end() && positions_[*next - first_] == i; ++next)
      body.push_back(std::move(function_.body[*next]));
    body.push_back(std::move(function_.body[i]));
  }
  function_.body = std::move(body);
}

}  // namespace rewire::runtime
