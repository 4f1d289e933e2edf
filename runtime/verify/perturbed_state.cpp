#include "runtime/verify/perturbed_state.h"

#include <cmath>

#include "ir/philox.h"
#include "programs/programs.h"
#include "runtime/network/initialise.h"

namespace rewire::runtime {
namespace {

constexpr double kPerturbation = 0.02;

}  // namespace

std::vector<double> normal_numbers(std::uint64_t seed, const std::string& stream, std::size_t count) {
  const ir::PhiloxStream philox{seed, 0, ir::stream_hash(stream)};
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = philox.normal(i);
  return values;
}

std::map<std::string, ir::Tensor, std::less<>> perturbed_state(const ir::Module& module,
                                                               const TensorMap& given, std::uint64_t seed) {
  std::map<std::string, ir::Tensor, std::less<>> state;
  const TensorMap fresh = initialise(module, seed);
  for (const ir::Parameter& parameter : module.parameters) {
    const auto weight = given.find(parameter.name);
    ir::Tensor tensor =
        to_double(weight != given.end() ? weight->second : fresh.find(parameter.name)->second);
    if (parameter.trainable) {
      const std::vector<double> noise = normal_numbers(seed, "noise/" + parameter.name, tensor.data.size());
      for (std::size_t i = 0; i < noise.size(); ++i) tensor.data[i] += kPerturbation * noise[i];
    }
    state.emplace(parameter.name, std::move(tensor));
  }
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.average_of.empty()) state.at(parameter.name) = state.at(parameter.average_of);
  }
  return state;
}

ir::Tensor random_argument(const ir::Module& module, const ir::Function& program,
                           const ir::Argument& argument, std::uint64_t seed) {
  ir::Tensor tensor(program.type(argument.value));
  const ir::PhiloxStream philox{seed, 0, ir::stream_hash("argument/" + argument.name)};
  auto categories = static_cast<double>(programs::categories(module, argument.name));
  if (categories == 0 && !ir::is_float(tensor.type.dtype)) categories = 2;  // any number will do
  for (std::size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = categories > 0 ? std::floor(philox.uniform(i) * categories) : philox.normal(i);
  return tensor;
}

TensorMap perturbed_tensors(const ir::Module& module, const TensorMap& given, std::uint64_t seed) {
  TensorMap tensors;
  for (const auto& [name, tensor] : perturbed_state(module, given, seed))
    tensors.emplace(name, to_host(tensor));
  return tensors;
}

TensorMap random_arguments(const ir::Module& module, const ir::Function& program, std::uint64_t seed) {
  TensorMap arguments;
  for (const ir::Argument& argument : program.arguments)
    arguments.emplace(argument.name, to_host(random_argument(module, program, argument, seed)));
  return arguments;
}

}  // namespace rewire::runtime
