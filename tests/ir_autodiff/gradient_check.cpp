#include "tests/ir_autodiff/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/verify.h"

namespace rewire::ir::testing {
namespace {

/// The probe of result `i`: the same numbers for the IR's loss and for the differences.
Doubles probe(std::uint64_t seed, std::size_t i, std::int64_t elements) {
  std::mt19937_64 random(seed * 1000003 + i);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  Doubles values(static_cast<std::size_t>(elements));
  for (double& value : values) value = uniform(random);
  return values;
}

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

std::vector<std::size_t> choose_elements(std::size_t count, std::size_t max_elements, std::uint64_t seed) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(std::min(count, max_elements));
  return all;
}

/// (L(x + h) - L(x - h)) / 2h, subtracted result by result: what does not move cancels exactly.
class CentralDifference {
 public:
  CentralDifference(const Module& module, const Function& function, const std::vector<Tensor>& arguments,
                    const EvalState& state, std::uint64_t seed)
      : module_(module), function_(function), arguments_(arguments), state_(state), seed_(seed) {}

  double operator()(std::size_t argument, std::size_t element) {
    double& x = arguments_[argument].data[element];
    const double centre = x;
    const double step = 6e-6 * std::max(std::abs(centre), 0.1);
    const double above = centre + step, below = centre - step;
    x = above;
    const std::vector<Tensor> upper = run();
    x = below;
    const std::vector<Tensor> lower = run();
    x = centre;
    return probed_difference(upper, lower) / (above - below);
  }

 private:
  std::vector<Tensor> run() {
    EvalState state = state_;
    return evaluate(module_, function_, arguments_, state);
  }

  double probed_difference(const std::vector<Tensor>& upper, const std::vector<Tensor>& lower) const {
    double total = 0;
    for (std::size_t i = 0; i < upper.size(); ++i) {
      if (!is_float(upper[i].type.dtype)) continue;
      const Doubles weights = probe(seed_, i, upper[i].type.elements());
      for (std::size_t k = 0; k < weights.size(); ++k)
        total += weights[k] * (upper[i].data[k] - lower[i].data[k]);
    }
    return total;
  }

  const Module& module_;
  const Function& function_;
  std::vector<Tensor> arguments_;
  EvalState state_;
  std::uint64_t seed_;
};

Value probed_loss(Builder& b, std::uint64_t seed) {
  const std::vector<Argument> results = b.function().results;
  Value loss = b.constant(0.0, DType::f64);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorType type = b.type(results[i].value);
    if (!is_float(type.dtype)) continue;
    const Value weights = b.emit(Opcode::constant, {}, {{"values", probe(seed, i, type.elements())}},
                                 TensorType{DType::f64, type.shape});
    Ints axes(type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    const Value total = b.sum(b.mul(b.cast(results[i].value, DType::f64), weights), axes);
    loss = b.add(loss, b.reshape(total, {}));
  }
  return loss;
}

}  // namespace

double ArgumentGradient::relative_error() const {
  std::vector<double> error(exact.size());
  std::transform(exact.begin(), exact.end(), difference.begin(), error.begin(), std::minus<>());
  return norm(error) / std::max(norm(difference), 1e-3);
}

void append_probed_gradients(Module& module, Function& function, std::uint64_t seed) {
  Builder b(module, function);
  const Value loss = probed_loss(b, seed);
  std::vector<Value> wrt;
  std::vector<std::string> names;
  for (const Argument& argument : function.arguments) {
    if (!is_float(b.type(argument.value).dtype)) continue;
    wrt.push_back(argument.value);
    names.push_back("grad." + argument.name);
  }
  const std::vector<Value> gradients = differentiate(b, loss, wrt);
  function.results.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i) b.result(names[i], gradients[i]);
}

std::vector<ArgumentGradient> compare_gradients(const Module& module, std::string_view function_name,
                                                const std::vector<Tensor>& arguments, const EvalState& state,
                                                std::uint64_t seed, std::size_t max_elements) {
  const Function& forward = module.function(function_name);
  Module differentiated = module;
  Function& function = differentiated.function(function_name);
  append_probed_gradients(differentiated, function, seed);
  verify(differentiated);
  EvalState gradient_state = state;
  const std::vector<Tensor> gradients = evaluate(differentiated, function, arguments, gradient_state);

  CentralDifference difference(module, forward, arguments, state, seed);
  std::vector<ArgumentGradient> compared;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!is_float(arguments[i].type.dtype)) continue;
    const Tensor& gradient = gradients[compared.size()];
    ArgumentGradient entry{i, forward.arguments[i].name, {}, {}};
    for (std::size_t element : choose_elements(arguments[i].data.size(), max_elements, seed)) {
      entry.exact.push_back(gradient.data[element]);
      entry.difference.push_back(difference(i, element));
    }
    compared.push_back(std::move(entry));
  }
  return compared;
}

}  // namespace rewire::ir::testing
