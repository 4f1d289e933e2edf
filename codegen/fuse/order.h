// Who must run before whom, while groups grow and merge: a graph without cycles over the nodes of a grouping,
// and an order of them that agrees with it at any time, so that a question about two nodes looks at what
// stands between them and not at the whole function.
//
// Two things keep that little. `places_` is kept in order as edges come (Pearce and Kelly, A dynamic
// topological sort algorithm for directed acyclic graphs, 2006): what is out of place is moved, and nothing
// else. And a longest chain of ops through the function, the spine, is found once: an op that leads to the
// spine at or before the position from which another is reached comes before it, however far apart they are.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ir/module.h"

namespace rewire::codegen {

/// Positions of the spine: the first that ops lead to, the last that leads to them.
struct SpineSpan {
  int leads_to = std::numeric_limits<int>::max();
  int reached_from = -1;
};

/// By body index.
std::vector<SpineSpan> spine_spans(const ir::Function& function);

class NodeOrder {
 public:
  /// A node before all others, and without edges. Numbers count up from 0.
  int add_node();
  /// Ops of this span belong to the node.
  void add_span(int node, const SpineSpan& span);
  /// Between homes. InternalError if `to` comes before `from`.
  void add_edge(int from, int to);
  /// Of homes: `gone` becomes part of `into`; beside an edge from one to the other there must be no way
  /// between them.
  void merge(int into, int gone);

  /// The node that a node is part of.
  int home(int node) const;
  /// Homes that must run later and that an edge leads to, ascending.
  std::vector<int> successors(int node) const;
  /// Whether a way leads from one of these nodes to `to`, or one of them is `to`.
  bool reaches(std::vector<int> from, int to) const;
  /// Nodes that reaches() and the upkeep of the order have looked at.
  std::int64_t steps() const { return steps_; }

 private:
  std::int64_t place(int node) const { return places_[static_cast<std::size_t>(node)]; }
  void put_before(int upper, int lower);
  enum class Way : std::uint8_t { forward, backward };
  std::vector<int> region(int start, int except, Way way, std::int64_t limit) const;
  bool first_visit(int node) const;

  std::vector<std::vector<int>> next_, previous_;  // by node; homes by home() alone
  std::vector<int> merged_into_;                   // by node: the node that took it in, or -1
  std::vector<std::int64_t> places_;               // by node
  std::vector<SpineSpan> spans_;                   // by node
  mutable std::vector<int> visited_;               // by node: the search that saw it last
  mutable int search_ = 0;
  mutable std::int64_t steps_ = 0;
};

}  // namespace rewire::codegen
