// The plugins built beside these tests, and what every test does with them.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/module.h"
#include "runtime/network/initialise.h"
#include "runtime/plugin/plugin.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {

inline std::string fixture_path(const std::string& name) {
  return std::string(REWIRE_FIXTURES) + "/" + name + ".so";
}

/// load("gain", "factor=3,sites=attn")
inline runtime::PluginHandle load(const std::string& name, const std::string& values = "") {
  runtime::PluginSpec spec = runtime::parse_plugin_spec(values.empty() ? "x" : "x:" + values);
  spec.name = fixture_path(name);
  return runtime::load_plugin(spec, {});
}

inline std::string load_error(const std::string& name, const std::string& values = "") {
  return message_of<UserError>([&] { load(name, values); });
}

inline ir::Module rewritten(ir::Module module, const std::vector<runtime::PluginHandle>& plugins,
                            std::uint64_t seed = 11, std::int64_t epoch = 0) {
  runtime::apply_plugins(module, plugins, seed, epoch);
  return module;
}

inline ir::EvalState to_eval_state(const runtime::TensorMap& state) {
  ir::EvalState result;
  for (const auto& [name, tensor] : state) result.tensors[name] = runtime::to_double(tensor);
  return result;
}

/// A tensor of numbers in (-1, 1) without pattern.
inline ir::Tensor sample(const ir::TensorType& type, double phase = 0) {
  ir::Tensor tensor(type);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    tensor.data[i] = ir::round_to(type.dtype, std::sin(1.7 * static_cast<double>(i) + 0.3 + phase));
  }
  return tensor;
}

}  // namespace rewire::test
