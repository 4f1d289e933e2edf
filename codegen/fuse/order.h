// Keeps a grouping's nodes in order while groups grow and merge: a graph without cycles, and an order of its
// nodes that agrees with it at any time. So a question about two nodes looks at what is between them, not at
// the whole function.
//
// Two things keep that small. `places_` is updated as edges come (Pearce and Kelly, A dynamic topological
// sort algorithm for directed acyclic graphs, 2006): only nodes out of place are moved. And a longest chain
// of ops through the function, the spine, is found once: an op that leads to the spine at or before the
// position from which another op is reached comes before that op, however far apart they are.
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

/// Returns the span of each op, by body index.
std::vector<SpineSpan> spine_spans(const ir::Function& function);

class NodeOrder {
 public:
  /// Adds a node before all others, without edges. Returns its number; numbers count up from 0.
  int add_node();
  /// Adds the span of ops that belong to the node.
  void add_span(int node, const SpineSpan& span);
  /// Adds an edge between homes. Throws InternalError if `to` comes before `from`.
  void add_edge(int from, int to);
  /// Makes the home `gone` part of the home `into`. Only an edge may connect them, no longer path.
  void merge(int into, int gone);

  /// Returns the node that a node is part of.
  int home(int node) const;
  /// Returns the homes that edges from the node lead to and that run later, ascending.
  std::vector<int> successors(int node) const;
  /// Returns whether a path leads from one of these nodes to `to`, or one of them is `to`.
  bool reaches(std::vector<int> from, int to) const;
  /// Returns how many nodes reaches() and the updates of the order have visited.
  std::int64_t steps() const { return steps_; }

 private:
  std::int64_t place(int node) const { return places_[static_cast<std::size_t>(node)]; }
  void put_before(int upper, int lower);
  enum class Way : std::uint8_t { forward, backward };
  std::vector<int> region(int start, int except, Way way, std::int64_t limit) const;
  bool first_visit(int node) const;

  std::vector<std::vector<int>> next_, previous_;  // by node; homes by home() alone
  std::vector<int> merged_into_;                   // by node: the node it was merged into, or -1
  std::vector<std::int64_t> places_;               // by node
  std::vector<SpineSpan> spans_;                   // by node
  mutable std::vector<int> visited_;               // by node: the search that visited it last
  mutable int search_ = 0;
  mutable std::int64_t steps_ = 0;
};

}  // namespace rewire::codegen
