#include "runtime/verify/rewrite_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "runtime/verify/perturbed_state.h"

namespace rewire::runtime {
namespace {

constexpr int kPoints = 3;
constexpr double kUnchanged = 1e-9;  // relative: masks by exp(-1e9) leave nothing, rounding in double less

bool differs(double a, double b) {
  return !(std::abs(a - b) <= kUnchanged * std::max({1.0, std::abs(a), std::abs(b)}));
}

/// Returns, by Value::id, what the results of the function depend on. For a join only the terms of its sum
/// count: stream, branch and input stay its operands even if it does not sum them.
std::vector<bool> read_values(const ir::Function& function) {
  std::vector<bool> read(function.types.size());
  const auto mark = [&](ir::Value value) { read[static_cast<std::size_t>(value.id)] = true; };
  for (const ir::Argument& result : function.results) mark(result.value);
  for (auto op = function.body.rbegin(); op != function.body.rend(); ++op) {
    const bool is_read = op->code == ir::Opcode::update || std::ranges::any_of(op->results, [&](ir::Value v) {
                           return read[static_cast<std::size_t>(v.id)];
                         });
    if (!is_read) continue;
    const std::size_t first = op->code == ir::Opcode::residual ? ir::kFirstJoinTerm : 0;
    std::for_each(op->operands.begin() + static_cast<std::ptrdiff_t>(first), op->operands.end(), mark);
  }
  return read;
}

ir::EvalState state_at(const ir::Module& module, const TensorMap& weights, std::uint64_t seed,
                       bool training) {
  ir::EvalState state;
  state.tensors = perturbed_state(module, weights, seed);
  state.training = training;
  return state;
}

std::vector<ir::Tensor> arguments_of(const ir::Module& module, const ir::Function& function,
                                     std::uint64_t seed) {
  std::vector<ir::Tensor> arguments;
  for (const ir::Argument& argument : function.arguments)
    arguments.push_back(random_argument(module, function, argument, seed));
  return arguments;
}

}  // namespace

JoinCounts count_joins(const ir::Module& module) {
  JoinCounts counts;
  const ir::Function& forward = module.function("forward");
  for (const std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    counts.changed +=
        join.shortcut != join.stream || join.branch_slot != join.branch || !join.changes.empty();
    ++counts.all;
  }
  return counts;
}

std::vector<std::string> unused_parts(const ir::Module& original, const ir::Module& rewritten,
                                      const std::string& plugin) {
  const ir::Function& forward = rewritten.function("forward");
  const std::vector<bool> read = read_values(forward);
  const auto is_read = [&](const ir::Op& op) {
    return op.results.empty() ||
           std::ranges::any_of(op.results, [&](ir::Value v) { return read[static_cast<std::size_t>(v.id)]; });
  };
  std::vector<std::string> parts;
  std::vector<std::pair<std::string, std::vector<std::string_view>>> places;
  std::set<std::string, std::less<>> used_weights;
  const std::string end = "." + plugin;
  for (const ir::Op& op : forward.body) {
    if (op.code == ir::Opcode::param) {
      if (is_read(op)) used_weights.insert(op.attributes.get_string("name"));
      continue;
    }
    if (!op.location.ends_with(end) || is_read(op)) continue;
    const std::string place = op.location.substr(0, op.location.size() - end.size());
    if (places.empty() || places.back().first != place) places.push_back({place, {}});
    places.back().second.push_back(ir::opcode_name(op.code));
  }
  for (const auto& [place, ops] : places) parts.push_back(fmt::format("{}: {}", place, fmt::join(ops, ", ")));
  for (const ir::Parameter& parameter : rewritten.parameters) {
    if (parameter.trainable && original.find_parameter(parameter.name) == nullptr &&
        !used_weights.contains(parameter.name))
      parts.push_back("the weight " + parameter.name);
  }
  return parts;
}

std::vector<std::string> weights_without_gradient(const ir::Module& module, const TensorMap& weights,
                                                  std::uint64_t seed) {
  const ir::Function& grad = module.function("grad");
  std::map<std::string, bool, std::less<>> has_gradient;
  for (std::uint64_t point = seed; point < seed + kPoints; ++point) {
    ir::EvalState state = state_at(module, weights, point, true);
    const std::vector<ir::Tensor> results =
        ir::evaluate(module, grad, arguments_of(module, grad, point), state);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const bool flows = std::ranges::any_of(results[i].data, [](double g) { return g != 0; });
      has_gradient[grad.results[i].name] |= flows;
    }
  }
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : module.parameters) {
    const auto found = has_gradient.find(parameter.name);
    if (parameter.trainable && found != has_gradient.end() && !found->second) names.push_back(parameter.name);
  }
  return names;
}

std::vector<std::string> modes_that_mix_samples(const ir::Module& module, const TensorMap& weights,
                                                std::uint64_t seed) {
  const ir::Function& forward = module.function("forward");
  const std::vector<ir::Tensor> given = arguments_of(module, forward, seed);
  std::vector<ir::Tensor> changed = given;
  ir::Tensor& image = changed.front();
  const std::size_t first = image.data.size() / static_cast<std::size_t>(image.type.shape.front());
  for (std::size_t i = 0; i < first; ++i) image.data[i] = 1 - image.data[i];
  std::vector<std::string> modes;
  for (const bool training : {true, false}) {
    const auto output = [&](const std::vector<ir::Tensor>& arguments) {
      ir::EvalState state = state_at(module, weights, seed, training);
      return ir::evaluate(module, forward, arguments, state).front();
    };
    const ir::Tensor before = output(given), after = output(changed);
    const std::size_t own = before.data.size() / static_cast<std::size_t>(before.type.shape.front());
    bool mixes = false;
    for (std::size_t i = own; i < before.data.size(); ++i)
      mixes = mixes || differs(before.data[i], after.data[i]);
    if (mixes) modes.emplace_back(training ? "in training" : "in evaluation");
  }
  return modes;
}

std::string token_that_reads_a_later_one(const ir::Module& module, const TensorMap& weights,
                                         std::uint64_t seed) {
  const ir::Function& forward = module.function("forward");
  const std::vector<ir::Tensor> given = arguments_of(module, forward, seed);
  const std::vector<std::size_t> joins = ir::find_joins(forward);
  const ir::Shape& stream = forward.type(forward.body[joins.front()].results[0]).shape;  // [B, N, D]
  const auto joined = [&](const std::vector<ir::Tensor>& arguments) {
    std::vector<std::pair<std::string, ir::Tensor>> sums;
    ir::EvalState state = state_at(module, weights, seed, true);
    ir::evaluate_until(forward, arguments, state, [&](const ir::Op& op, ir::Value, const ir::Tensor& value) {
      if (op.code == ir::Opcode::residual) sums.emplace_back(ir::read_join(op).describe(), value);
      return true;
    });
    return sums;
  };
  const auto before = joined(given);
  const std::int64_t batch = stream[0], tokens = stream[1], channels = stream[2];
  for (std::int64_t late = tokens - 1; late > 0; --late) {
    std::vector<ir::Tensor> changed = given;
    std::vector<double>& image = changed.front().data;  // [B, 1, N, P]
    const std::int64_t pixels = static_cast<std::int64_t>(image.size()) / (batch * tokens);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        double& pixel = image[static_cast<std::size_t>((b * tokens + late) * pixels + p)];
        pixel = 1 - pixel;
      }
    }
    const auto after = joined(changed);
    for (std::size_t j = 0; j < before.size(); ++j) {
      for (std::int64_t i = 0; i < batch * tokens * channels; ++i) {
        const std::int64_t token = i / channels % tokens;
        const auto at = static_cast<std::size_t>(i);
        if (token < late && differs(before[j].second.data[at], after[j].second.data[at]))
          return fmt::format("{}: token {} reads token {}", before[j].first, token, late);
      }
    }
  }
  return "";
}

}  // namespace rewire::runtime
