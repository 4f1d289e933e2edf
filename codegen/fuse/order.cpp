// The order of nodes; see order.h.
#include "codegen/fuse/order.h"

#include <algorithm>

#include "ir/error.h"

namespace rewire::codegen {

using ir::Value;

std::vector<SpineSpan> spine_spans(const ir::Function& function) {
  const std::vector<std::int32_t> definitions = function.definitions();
  const std::size_t count = function.body.size();
  const auto for_each_operand = [&](std::size_t op, const auto& visit) {
    for (Value operand : function.body[op].operands) {
      const std::int32_t at = definitions[static_cast<std::size_t>(operand.id)];
      if (at >= 0) visit(static_cast<std::size_t>(at));
    }
  };
  // The length of the longest path that ends at each op.
  std::vector<int> length(count, 1), before(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    for_each_operand(i, [&](std::size_t at) {
      if (length[at] + 1 <= length[i]) return;
      length[i] = length[at] + 1;
      before[i] = static_cast<int>(at);
    });
  }
  std::vector<SpineSpan> spans(count);
  if (count == 0) return spans;
  for (auto op = static_cast<int>(std::max_element(length.begin(), length.end()) - length.begin());
       op >= 0;) {
    const auto i = static_cast<std::size_t>(op);
    spans[i] = {length[i], length[i]};
    op = before[i];
  }
  for (std::size_t i = 0; i < count; ++i) {
    for_each_operand(i, [&](std::size_t at) {
      spans[i].reached_from = std::max(spans[i].reached_from, spans[at].reached_from);
    });
  }
  for (std::size_t i = count; i-- > 0;) {
    for_each_operand(
        i, [&](std::size_t at) { spans[at].leads_to = std::min(spans[at].leads_to, spans[i].leads_to); });
  }
  return spans;
}

int NodeOrder::add_node() {
  const int node = static_cast<int>(places_.size());
  places_.push_back(-node);
  next_.emplace_back();
  previous_.emplace_back();
  merged_into_.push_back(-1);
  spans_.emplace_back();
  visited_.push_back(0);
  return node;
}

void NodeOrder::add_span(int node, const SpineSpan& span) {
  SpineSpan& own = spans_[static_cast<std::size_t>(node)];
  own.leads_to = std::min(own.leads_to, span.leads_to);
  own.reached_from = std::max(own.reached_from, span.reached_from);
}

int NodeOrder::home(int node) const {
  while (merged_into_[static_cast<std::size_t>(node)] >= 0)
    node = merged_into_[static_cast<std::size_t>(node)];
  return node;
}

bool NodeOrder::first_visit(int node) const {
  int& seen = visited_[static_cast<std::size_t>(node)];
  if (seen == search_) return false;
  seen = search_;
  ++steps_;
  return true;
}

void NodeOrder::add_edge(int from, int to) {
  if (from == to) return;
  const std::vector<int>& behind = next_[static_cast<std::size_t>(to)];
  if (std::ranges::any_of(behind, [&](int edge) { return home(edge) == from; }))
    internal_error("an order of kernels has a cycle of two");
  if (place(from) > place(to)) put_before(from, to);
  next_[static_cast<std::size_t>(from)].push_back(to);
  previous_[static_cast<std::size_t>(to)].push_back(from);
}

void NodeOrder::merge(int into, int gone) {
  const bool first = place(into) < place(gone);
  put_before(first ? gone : into, first ? into : gone);  // now neighbours, as far as their edges allow
  const auto take = [&](std::vector<std::vector<int>>& edges) {
    std::vector<int>& own = edges[static_cast<std::size_t>(into)];
    std::vector<int>& more = edges[static_cast<std::size_t>(gone)];
    own.insert(own.end(), more.begin(), more.end());
    more = {};
  };
  take(next_);
  take(previous_);
  merged_into_[static_cast<std::size_t>(gone)] = into;
  add_span(into, spans_[static_cast<std::size_t>(gone)]);
}

// Returns the nodes that are reached from `start` up to the place `limit`, both included, without the edge
// from `start` to `except`.
std::vector<int> NodeOrder::region(int start, int except, Way way, std::int64_t limit) const {
  const bool forward = way == Way::forward;
  ++search_;
  first_visit(start);
  std::vector<int> found = {start};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int node = found[i];
    for (const int edge : (forward ? next_ : previous_)[static_cast<std::size_t>(node)]) {
      const int other = home(edge);
      if (forward ? place(other) > limit : place(other) < limit) continue;
      if (node == start && other == except) continue;
      if (other == except) internal_error("an order of kernels has a cycle");
      if (first_visit(other)) found.push_back(other);
    }
  }
  std::sort(found.begin(), found.end(), [&](int a, int b) { return place(a) < place(b); });
  return found;
}

// Moves `upper`, and the nodes that must run before it, in front of `lower` and the nodes that must run
// after that. Together they keep the same places.
void NodeOrder::put_before(int upper, int lower) {
  const std::int64_t low = place(lower), high = place(upper);
  std::vector<int> moved = region(upper, lower, Way::backward, low);
  const std::vector<int> behind = region(lower, upper, Way::forward, high);
  moved.insert(moved.end(), behind.begin(), behind.end());
  std::vector<std::int64_t> places;
  for (const int node : moved) places.push_back(place(node));
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < moved.size(); ++i) places_[static_cast<std::size_t>(moved[i])] = places[i];
}

std::vector<int> NodeOrder::successors(int node) const {
  std::vector<int> next;
  for (const int edge : next_[static_cast<std::size_t>(node)]) {
    const int other = home(edge);
    if (other != node) next.push_back(other);
  }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  return next;
}

bool NodeOrder::reaches(std::vector<int> from, int to) const {
  ++search_;
  to = home(to);
  while (!from.empty()) {
    const int node = home(from.back());
    from.pop_back();
    if (node == to) return true;
    if (place(node) > place(to) || !first_visit(node)) continue;
    if (spans_[static_cast<std::size_t>(node)].leads_to <= spans_[static_cast<std::size_t>(to)].reached_from)
      return true;
    const std::vector<int>& next = next_[static_cast<std::size_t>(node)];
    from.insert(from.end(), next.begin(), next.end());
  }
  return false;
}

}  // namespace rewire::codegen
