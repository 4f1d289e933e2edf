#include "runtime/measure/conditioning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/exec/make_engine.h"
#include "runtime/linalg/lapack.h"
#include "runtime/measure/block_program.h"
#include "runtime/network/weights.h"
#include "runtime/plugin/branch_weights.h"

namespace rewire::runtime {
namespace {

using Doubles = std::vector<double>;

constexpr double kDouble = std::numeric_limits<double>::epsilon();
constexpr double kSingle = std::numeric_limits<float>::epsilon();

std::vector<double> conditions_of(const MatrixBatch& batch, std::span<const double> matrices,
                                  double precision = kDouble) {
  const std::size_t k = std::min(batch.rows, batch.cols);
  Doubles values(batch.count * k), conditions;
  singular_values(batch, matrices, values);
  for (std::size_t i = 0; i < batch.count; ++i)
    conditions.push_back(condition_number(std::span(values).subspan(i * k, k), precision));
  return conditions;
}

/// a [n, k] b [k, m].
Doubles product(std::span<const double> a, std::span<const double> b, std::size_t n, std::size_t k,
                std::size_t m) {
  Doubles c(n * m);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      const double factor = a[i * k + l];
      for (std::size_t j = 0; j < m; ++j) c[i * m + j] += factor * b[l * m + j];
    }
  }
  return c;
}

/// Applies softmax in place to each row of n.
void softmax(std::span<double> rows, std::size_t n) {
  for (std::size_t first = 0; first < rows.size(); first += n) {
    const std::span<double> row = rows.subspan(first, n);
    const double largest = *std::ranges::max_element(row);
    double total = 0;
    for (double& x : row) total += x = std::exp(x - largest);
    for (double& x : row) x /= total;
  }
}

/// Returns the number of matrices: all axes but the last two.
std::size_t matrices_in(const ir::Shape& shape) {
  std::size_t count = 1;
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}

std::vector<double> attention_of_block(const ir::Function& forward, const Block& block, std::size_t index,
                                       const TensorMap& probed) {
  std::vector<double> all;
  const std::vector<std::size_t> ops = attention_ops(forward, block);
  for (std::size_t a = 0; a < ops.size(); ++a) {
    const ir::Tensor query = to_double(probed.find(fmt::format("query.{}.{}", index, a))->second);
    const ir::Tensor key = to_double(probed.find(fmt::format("key.{}.{}", index, a))->second);
    const ir::Shape& shape = query.type.shape;
    if (shape != key.type.shape) continue;  // not a square map
    const std::vector<double> conditions = attention_conditions(
        query.data, key.data, matrices_in(shape), static_cast<std::size_t>(shape[shape.size() - 2]),
        static_cast<std::size_t>(shape.back()), forward.body[ops[a]].attributes.get_double("scale"));
    all.insert(all.end(), conditions.begin(), conditions.end());
  }
  return all;
}

/// Returns the first matrix of this role among the weights of the block's joins, or nothing.
std::optional<ir::Tensor> matrix_of_role(const BranchWeights& branches, const Block& block,
                                         std::string_view role, const TensorMap& weights) {
  for (const ir::Join& join : block.joins) {
    for (const ir::Parameter* weight : branches.of(join)) {
      if (weight->role == role && weight->type.rank() == 2)
        return to_double(weights.find(weight->name)->second);
    }
  }
  return std::nullopt;
}

/// Weights are stored out by in. So W_O^T W_V^T is proj [d, m] times the last third of qkv [3 m, d].
std::optional<double> value_output_of(const ir::Module& module, const Block& block,
                                      const TensorMap& weights) {
  const BranchWeights branches(module, module.function("forward"));
  const std::optional<ir::Tensor> qkv = matrix_of_role(branches, block, "qkv", weights);
  const std::optional<ir::Tensor> proj = matrix_of_role(branches, block, "proj", weights);
  if (!qkv || !proj || qkv->type.shape[0] != 3 * proj->type.shape[1]) return std::nullopt;
  const auto n = static_cast<std::size_t>(proj->type.shape[0]),
             m = static_cast<std::size_t>(proj->type.shape[1]);
  const auto d = static_cast<std::size_t>(qkv->type.shape[1]);
  const Doubles w = product(proj->data, std::span(qkv->data).subspan(2 * m * d), n, m, d);
  return conditions_of({1, n, d}, w).front();
}

/// Computes the Jacobian [outputs, inputs] of a block at the first sample of `stream`, a batch of rows at a
/// time. Every sample of the batch is that one, each with another unit cotangent.
class JacobianRows {
 public:
  JacobianRows(Engine& engine, const ir::Function& function, const ir::Tensor& at)
      : engine_(engine),
        program_(function.name),
        cotangent_(function.type(function.argument("cotangent"))),
        batch_(static_cast<std::size_t>(at.type.shape.at(0))),
        inputs_(at.data.size() / batch_),
        outputs_(cotangent_.data.size() / batch_) {
    ir::Tensor repeated = at;
    for (std::size_t i = inputs_; i < repeated.data.size(); ++i)
      repeated.data[i] = repeated.data[i - inputs_];
    at_ = to_host(repeated);
  }

  Doubles compute() {
    Doubles rows(outputs_ * inputs_);
    for (std::size_t first = 0; first < outputs_; first += batch_) {
      const std::size_t count = std::min(batch_, outputs_ - first);
      std::ranges::fill(cotangent_.data, 0.0);
      for (std::size_t i = 0; i < count; ++i) cotangent_.data[i * outputs_ + first + i] = 1;
      TensorMap arguments;
      arguments.emplace("at", at_.clone());
      arguments.emplace("cotangent", to_host(cotangent_));
      const ir::Tensor result = to_double(engine_.run(program_, arguments).at("row"));
      std::copy_n(result.data.begin(), count * inputs_,
                  rows.begin() + static_cast<std::ptrdiff_t>(first * inputs_));
    }
    return rows;
  }

  MatrixBatch shape() const { return {1, outputs_, inputs_}; }

 private:
  Engine& engine_;
  std::string program_;
  ir::Tensor cotangent_;
  std::size_t batch_, inputs_, outputs_;
  HostTensor at_;
};

}  // namespace

/// The programs of one network, and the engine that runs them.
class ConditioningMeter::Programs {
 public:
  Programs(const ir::Module& module, const ConditioningOptions& options)
      : programs_(module), options_(options), blocks_(find_blocks(forward())) {
    if (blocks_.empty()) user_error("the network has no residual joins, and so no blocks to analyze");
    add_probe_program(programs_, blocks_);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      for (const Section& section : sections(b)) plan(section, blocks_[b]);
    }
    ir::verify(programs_);
    engine_ = make_engine(options_.engine, programs_);
  }

  Conditioning measure(const TensorMap& weights, const TensorMap& arguments) {
    TensorMap own;  // a run may have weights of other epochs too
    for (const ir::Parameter& parameter : programs_.parameters) {
      const auto weight = weights.find(parameter.name);
      if (weight != weights.end()) own.emplace(parameter.name, weight->second.clone());
    }
    start_state(*engine_, programs_, own, options_.seed);
    const TensorMap probed = engine_->run("probe", arguments);
    Conditioning result{{}, no_jacobian_};
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      result.blocks.push_back(measure_block(b, weights, probed));
    return result;
  }

 private:
  const ir::Function& forward() const { return programs_.function("forward"); }

  /// Returns the sections of the joins, then that of the block.
  std::vector<Section> sections(std::size_t b) const {
    std::vector<Section> all;
    for (std::size_t j = 0; j < blocks_[b].joins.size(); ++j)
      all.push_back(join_section(forward(), blocks_[b], b, j));
    all.push_back(block_section(blocks_[b], b));
    return all;
  }

  /// Adds the section's program, or notes why there is none.
  void plan(const Section& section, const Block& block) {
    const ir::TensorType &in = forward().type(section.from.front()), &out = forward().type(section.to);
    const std::int64_t batch = in.shape.at(0);
    const std::int64_t columns = in.elements() / batch, rows = out.elements() / batch;
    const bool one_type =
        std::ranges::all_of(section.from, [&](ir::Value value) { return forward().type(value) == in; });
    std::string why_not;
    if (block.joins.front().batch_axis != 0 || out.shape.at(0) != batch) {
      why_not = fmt::format("{} does not have the batch as its first axis", block.name);
    } else if (!one_type) {
      why_not = fmt::format("a branch of {} reads a shape other than its stream's", block.name);
    } else if (std::max(rows, columns) > options_.largest_jacobian) {
      why_not = fmt::format("it is {} x {} in {}", rows, columns, block.name);
    } else if (!add_jacobian_program(programs_, section)) {
      why_not = fmt::format("{} reads the network's input past its stream", block.name);
    }
    if (no_jacobian_.empty()) no_jacobian_ = why_not;
  }

  std::optional<double> condition_of(const Section& section, const TensorMap& probed) {
    const ir::Function* program = programs_.find_function(section.name);
    if (program == nullptr) return std::nullopt;
    JacobianRows rows(*engine_, *program, to_double(probed.find(section.at)->second));
    const bool exact = options_.engine == "evaluator" || program->types.front().dtype == ir::DType::f64;
    return conditions_of(rows.shape(), rows.compute(), exact ? kDouble : kSingle).front();
  }

  BlockConditioning measure_block(std::size_t b, const TensorMap& weights, const TensorMap& probed) {
    const Block& block = blocks_[b];
    BlockConditioning measured{block.name,
                               attention_of_block(forward(), block, b, probed),
                               value_output_of(programs_, block, weights),
                               {},
                               condition_of(block_section(block, b), probed)};
    for (std::size_t j = 0; j < block.joins.size(); ++j)
      measured.joins.push_back(
          {block.joins[j].site, condition_of(join_section(forward(), block, b, j), probed)});
    return measured;
  }

  ir::Module programs_;
  const ConditioningOptions options_;
  const std::vector<Block> blocks_;
  std::unique_ptr<Engine> engine_;
  std::string no_jacobian_;
};

ConditioningMeter::ConditioningMeter(const ir::Module& module, const ConditioningOptions& options)
    : programs_(std::make_unique<Programs>(module, options)) {}
ConditioningMeter::~ConditioningMeter() = default;

Conditioning ConditioningMeter::measure(const TensorMap& weights, const TensorMap& arguments) {
  return programs_->measure(weights, arguments);
}

double condition_number(std::span<const double> singular_values, double precision) {
  if (singular_values.empty()) return 1;
  const auto [least, largest] = std::ranges::minmax(singular_values);
  const bool lost = least <= kResolution * precision * largest;
  return lost ? std::numeric_limits<double>::infinity() : largest / least;
}

std::vector<double> attention_conditions(std::span<const double> queries, std::span<const double> keys,
                                         std::size_t count, std::size_t n, std::size_t k, double scale) {
  Doubles maps(count * n * n);
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t l = 0; l < k; ++l) sum += queries[(m * n + i) * k + l] * keys[(m * n + j) * k + l];
        maps[(m * n + i) * n + j] = scale * sum;
      }
    }
  }
  softmax(maps, n);
  return conditions_of({count, n, n}, maps);
}

Conditioning measure_conditioning(const ir::Module& module, const TensorMap& weights,
                                  const HostTensor& images, const ConditioningOptions& options) {
  TensorMap arguments;
  arguments.emplace(module.function("forward").arguments.at(0).name, images.clone());
  return ConditioningMeter(module, options).measure(weights, arguments);
}

}  // namespace rewire::runtime
