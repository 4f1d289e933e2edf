// A random program under construction: the pool of values that steps draw operands from, with the known
// facts of each. The steps are in program_{arithmetic,shapes,layers}.cpp, the rest in random_program.cpp.
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
  double bound = 2;    // magnitudes very likely stay below this
  bool exact = false;  // an f32 backend holds exactly these numbers
};

class ProgramWriter {
 public:
  ProgramWriter(std::uint64_t seed, bool gradients);

  CaseBuilder random;
  ir::Builder build;
  const bool gradients;

  const ir::Shape& shape(const Node& node) const { return build.shape(node.value); }
  std::int64_t elements(const Node& node) const { return build.type(node.value).elements(); }

  /// Returns a pool value, preferring the newest; a new input if none has a rank in [min_rank, max_rank].
  Node pick(int min_rank = 0, int max_rank = 5);
  /// Returns a value that is exact in f32.
  Node pick_exact(int min_rank = 1);
  /// Returns a value that broadcasts against `node`: of its shape, with some extents 1, or of a smaller
  /// rank.
  Node partner(const Node& node);
  Node input(ir::Shape shape, double low = -2, double high = 2);
  /// Adds a parameter of the module and reads it.
  Node parameter(ir::Shape shape, double low = -1, double high = 1);
  /// Returns the node scaled by a constant so that its bound is at most `limit`.
  Node tame(const Node& node, double limit);
  /// Returns true if ops with a kink may read the node: the gradient there is the same on every backend.
  bool may_bend(const Node& node) const { return !gradients || node.exact; }

  void add(ir::Value value, double bound, bool exact = false) { pool_.push_back({value, bound, exact}); }

  ir::Value seed();
  ir::Value step();
  /// Returns an i1[]: is_training, a constant or an argument.
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

/// A kind of step, and how often it is drawn.
struct ProgramStep {
  void (*write)(ProgramWriter&);
  int weight;
};
std::span<const ProgramStep> arithmetic_steps();
std::span<const ProgramStep> shape_steps();
std::span<const ProgramStep> layer_steps();

/// The largest tensor that a step makes.
inline constexpr std::int64_t kMaxProgramElements = 4000;

/// Adds an argument of `count` integers in [0, extent).
ir::Value random_indices(ProgramWriter& w, std::int64_t extent, const ir::Shape& shape);

}  // namespace rewire::testing
