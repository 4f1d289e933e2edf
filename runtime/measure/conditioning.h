// How well conditioned a network is, block by block, in the terms of Ji et al., Cutting the Skip (2025): the
// condition number, largest over smallest singular value, of what a gradient must pass through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Largest over smallest singular value; infinite where rounding alone could have made the smallest: where it
/// is below kResolution times `precision` (the distance of 1 to the next number) times the largest. 1 for no
/// values.
inline constexpr double kResolution = 8;
double condition_number(std::span<const double> singular_values, double precision);

/// For each of `count` pairs of query and key [n, k], one behind the other, the condition number of
/// softmax(scale query key^T), row by row.
std::vector<double> attention_conditions(std::span<const double> queries, std::span<const double> keys,
                                         std::size_t count, std::size_t n, std::size_t k, double scale);

struct JoinConditioning {
  std::string site;
  std::optional<double> jacobian;  // of the join by its branch's input, block_program.h's join_section
};

struct BlockConditioning {
  std::string block;
  std::vector<double> attention;       // of every head's map, for every image
  std::optional<double> value_output;  // of W_V W_O, where the block has matrices of the roles qkv and proj
  std::vector<JoinConditioning> joins;
  std::optional<double> jacobian;  // of d exit / d entrance, norms included
};

/// Jacobians are of the first image: all tokens and channels by all tokens and channels.
struct Conditioning {
  std::vector<BlockConditioning> blocks;
  std::string no_jacobian;  // why some Jacobian is missing, for people; else ""
};

struct ConditioningOptions {
  std::string engine = "jit";         // f32, or the evaluator in double precision
  std::uint64_t seed = 0;             // of the state that is no weight
  std::int64_t largest_jacobian = 0;  // rows and columns; beyond it none is computed
};

/// Of `module`'s function forward, rewritten or not, for any weights: its programs are compiled once. UserError if the
/// network has no residual joins.
class ConditioningMeter {
 public:
  ConditioningMeter(const ir::Module& module, const ConditioningOptions& options);
  ~ConditioningMeter();
  Conditioning measure(const TensorMap& weights, const TensorMap& arguments);

 private:
  class Programs;
  std::unique_ptr<Programs> programs_;
};

/// The same once, on a batch of the only argument of forward.
Conditioning measure_conditioning(const ir::Module& module, const TensorMap& weights,
                                  const HostTensor& images, const ConditioningOptions& options);

}  // namespace rewire::runtime
