// The example's joins against their formula, written here as loops:
//   x' = g x + (1 - g) f,   g = sigmoid(W x + b), or sigmoid(w x + b) channel by channel.
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "runtime/network/initialise.h"
#include "runtime/plugin/plugin.h"
#include "tests/support/catch.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

using ir::Tensor;
using ir::TensorType;

Tensor sample(const TensorType& type, double phase) {
  Tensor tensor(type);
  for (std::size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = std::sin(1.7 * static_cast<double>(i) + phase);
  return tensor;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// For an element of the stream: the flat index of each channel at its place, and which channel it is.
struct Place {
  std::vector<std::size_t> channels;
  std::size_t own = 0;
};
Place place_of(const ir::Shape& shape, std::size_t channel_axis, std::size_t index) {
  const auto stride = static_cast<std::size_t>(ir::row_major_strides(shape)[channel_axis]);
  const auto extent = static_cast<std::size_t>(shape[channel_axis]);
  Place place;
  place.own = index / stride % extent;
  for (std::size_t c = 0; c < extent; ++c) place.channels.push_back(index + (c - place.own) * stride);
  return place;
}

TEST_CASE("The example's joins are the gated sum, on tokens and on feature maps, for both gates") {
  struct Case {
    ir::Shape shape;
    JoinAxes axes;
    std::size_t channel;
  };
  const Case cases[] = {{{2, 3, 5}, {}, 2},
                        {{1, 1, 1}, {}, 2},
                        {{2, 3, 5}, {.batch = -3, .token = -2, .channel = -1}, 2},
                        {{2, 5, 3, 2}, {.batch = 0, .token = 2, .channel = 1}, 1}};
  for (const Case& c : cases) {
    for (const std::string gate : {"linear", "channel"}) {
      CAPTURE(ir::to_string(c.shape), gate);
      const TensorType type{ir::DType::f32, c.shape};
      ir::Module module = single_join(type, c.axes);
      runtime::apply_plugins(
          module, {runtime::load_plugin({REWIRE_EXAMPLE_PLUGIN, {{"gate", gate}, {"bias", "0.5"}}}, {})}, 0);
      ir::EvalState state;
      for (const auto& [name, tensor] : runtime::initialise(module, 0))
        state.tensors[name] = runtime::to_double(tensor);
      for (const double b : state.tensors.at("blocks.0.join_mlp.gate_bias").data) CHECK(b == 0.5);
      Tensor& weight = state.tensors.at("blocks.0.join_mlp.gate_weight");
      weight = sample(weight.type, 2.1);

      const Tensor x = sample(type, 0.3), f = sample(type, 1.1);
      const std::vector<double> y =
          ir::evaluate(module, module.function("forward"), {x, f}, state).at(0).data;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const Place at = place_of(c.shape, c.channel, i);
        double score = 0.5;
        for (std::size_t k = 0; k < at.channels.size(); ++k) {
          if (gate == "linear")
            score += weight.data[at.own * at.channels.size() + k] * x.data[at.channels[k]];
          else if (k == at.own)
            score += weight.data[k] * x.data[i];
        }
        const double g = sigmoid(score);
        CHECK(y[i] == Approx(g * x.data[i] + (1 - g) * f.data[i]).epsilon(0).margin(1e-12));
      }
    }
  }
}

TEST_CASE("By default a fresh join of the example is nearly the shortcut, and the gate learns") {
  const TensorType type{ir::DType::f32, {2, 3, 16}};
  ir::Module module = single_join(type);
  runtime::apply_plugins(module, {runtime::load_plugin({REWIRE_EXAMPLE_PLUGIN, {}}, {})}, 0);
  ir::EvalState state;
  for (const auto& [name, tensor] : runtime::initialise(module, 0))
    state.tensors[name] = runtime::to_double(tensor);
  const Tensor x = sample(type, 0.3), f = sample(type, 1.1);
  const std::vector<double> y = ir::evaluate(module, module.function("forward"), {x, f}, state).at(0).data;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double g = (y[i] - f.data[i]) / (x.data[i] - f.data[i]);
    CHECK(g == Approx(sigmoid(2)).margin(0.05));
  }
  for (const char* name : {"blocks.0.join_mlp.gate_weight", "blocks.0.join_mlp.gate_bias"}) {
    const ir::Parameter* parameter = module.find_parameter(name);
    REQUIRE(parameter != nullptr);
    CHECK(parameter->trainable);
    CHECK(parameter->decay == (std::string(name).ends_with("weight")));
  }
}

TEST_CASE("Beside a stream of 16 bits the example's weights are f32, and the join stays of 16 bits") {
  for (const ir::DType dtype : {ir::DType::bf16, ir::DType::f16}) {
    for (const char* gate : {"linear", "channel"}) {
      CAPTURE(ir::dtype_name(dtype), gate);
      ir::Module module = single_join({dtype, {2, 3, 5}});
      runtime::apply_plugins(module, {runtime::load_plugin({REWIRE_EXAMPLE_PLUGIN, {{"gate", gate}}}, {})},
                             0);
      for (const ir::Parameter& parameter : module.parameters) CHECK(parameter.type.dtype == ir::DType::f32);
      CHECK(module.parameters.size() == 2);
      const ir::Function& forward = module.function("forward");
      CHECK(forward.type(forward.result("y")).dtype == dtype);
    }
  }
}

}  // namespace
}  // namespace rewire::test
