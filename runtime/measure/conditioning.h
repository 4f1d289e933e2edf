// The conditioning of a network, block by block, after Ji et al., Cutting the Skip (2025): the condition
// number, largest over smallest singular value, of what a gradient passes through.
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

/// A smallest singular value below kResolution times `precision` times the largest may be rounding alone.
inline constexpr double kResolution = 8;
/// Returns the largest over the smallest singular value; infinity for such a smallest, 1 for no values.
/// `precision`: the distance of 1 to the next number.
double condition_number(std::span<const double> singular_values, double precision);

/// Returns the condition number of softmax(scale query key^T), row by row, for each of `count` consecutive
/// pairs of query and key [n, k].
std::vector<double> attention_conditions(std::span<const double> queries, std::span<const double> keys,
                                         std::size_t count, std::size_t n, std::size_t k, double scale);

struct JoinConditioning {
  std::string site;
  std::optional<double> jacobian;  // of the join by its branch's input, block_program.h's join_section
};

struct BlockConditioning {
  std::string block;
  std::vector<double> attention;       // of every head's map, for every image
  std::optional<double> value_output;  // of W_V W_O, if the block has matrices of the roles qkv and proj
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
  std::uint64_t seed = 0;             // of state that is not a weight
  std::int64_t largest_jacobian = 0;  // rows and columns; a larger one is not computed
};

/// Measures `module`'s function forward, rewritten or not, for any weights; compiles its programs once.
/// Throws UserError if the network has no residual joins.
class ConditioningMeter {
 public:
  ConditioningMeter(const ir::Module& module, const ConditioningOptions& options);
  ~ConditioningMeter();
  Conditioning measure(const TensorMap& weights, const TensorMap& arguments);

 private:
  class Programs;
  std::unique_ptr<Programs> programs_;
};

/// Measures once, on a batch that is the only argument of forward.
Conditioning measure_conditioning(const ir::Module& module, const TensorMap& weights,
                                  const HostTensor& images, const ConditioningOptions& options);

}  // namespace rewire::runtime
