// What the tests of every strategy do: load it, apply it, set it up, compute with it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "ir/module.h"
#include "runtime/network/initialise.h"
#include "runtime/plugin/plugin.h"

namespace rewire::test {

inline runtime::PluginHandle load(const std::string& spec) {
  return runtime::load_plugin(runtime::parse_plugin_spec(spec), {});
}

inline std::vector<runtime::PluginHandle> load_all(const std::vector<std::string>& specs) {
  std::vector<runtime::PluginHandle> plugins;
  for (const std::string& spec : specs) plugins.push_back(load(spec));
  return plugins;
}

inline ir::Module rewritten(ir::Module module, const std::vector<std::string>& specs,
                            std::uint64_t seed = 0) {
  runtime::apply_plugins(module, load_all(specs), seed);
  return module;
}

/// The state that training would start from: the module's own, then the plugins'.
inline runtime::TensorMap started(const ir::Module& module, const std::vector<std::string>& specs,
                                  std::uint64_t seed = 0) {
  runtime::TensorMap state = runtime::initialise(module, seed);
  runtime::initialise_plugins(module, load_all(specs), seed, state);
  return state;
}

inline ir::EvalState to_eval_state(const runtime::TensorMap& state) {
  ir::EvalState result;
  for (const auto& [name, tensor] : state) result.tensors[name] = runtime::to_double(tensor);
  return result;
}

inline ir::Tensor sample(const ir::TensorType& type, double phase = 0) {
  ir::Tensor tensor(type);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    tensor.data[i] = std::sin(1.7 * static_cast<double>(i) + phase);
  }
  return tensor;
}

}  // namespace rewire::test
