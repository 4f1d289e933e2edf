// A random program under construction: the pool of values that steps draw operands from, and what is known of
// each. The steps stand in program_{arithmetic,shapes,layers}.cpp, the rest in random_program.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "tests/support/case_builder.h"
#include "tests/support/random_program.h"

namespace rewire::testing {

/// A float value of the program.
struct Node {
  ir::Value value;
  double bound = 2;    // magnitudes stay below this, for all that is likely
  bool exact = false;  // an f32 backend holds the very same numbers
};

class ProgramWriter {
 public:
  ProgramWriter(std::uint64_t seed, bool gradients);

  CaseBuilder random;
  ir::Builder build;
  const bool gradients;

  const ir::Shape& shape(const Node& node) const { return build.shape(node.value); }
  std::int64_t elements(const Node& node) const { return build.type(node.value).elements(); }

  /// A pool value, the newest preferred; or a new input if none has a rank in [min_rank, max_rank].
  Node pick(int min_rank = 0, int max_rank = 5);
  /// A value that is exact in f32.
  Node pick_exact(int min_rank = 1);
  /// A value that broadcasts against `node`: of its shape, with some extents 1, or of a smaller rank.
  Node partner(const Node& node);
  Node input(ir::Shape shape, double low = -2, double high = 2);
  /// A parameter of the module, read.
  Node parameter(ir::Shape shape, double low = -1, double high = 1);
  /// The node scaled by a constant so that its bound is at most `limit`.
  Node tame(const Node& node, double limit);
  /// True if ops with a kink may look at the node: the gradient there is the same on every backend.
  bool may_bend(const Node& node) const { return !gradients || node.exact; }

  void add(ir::Value value, double bound, bool exact = false) { pool_.push_back({value, bound, exact}); }

  ir::Value seed();
  ir::Value step();
  /// i1[]: is_training, a constant or an argument.
  ir::Value training();
  std::string stream();

  RandomProgram finish();

 private:
  void name_results();
  void name_gradients();
  std::vector<Node> chosen_results();

  std::vector<Node> pool_;
  std::vector<std::string> parameters_;
  ir::Value seed_, step_;
  int streams_ = 0;
};

/// One kind of step, with how often it is drawn.
struct ProgramStep {
  void (*write)(ProgramWriter&);
  int weight;
};
std::span<const ProgramStep> arithmetic_steps();
std::span<const ProgramStep> shape_steps();
std::span<const ProgramStep> layer_steps();

/// Steps make no tensor larger than this.
inline constexpr std::int64_t kMaxProgramElements = 4000;

/// An argument of `count` integers in [0, extent).
ir::Value random_indices(ProgramWriter& w, std::int64_t extent, const ir::Shape& shape);

}  // namespace rewire::testing
