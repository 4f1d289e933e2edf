#include "tests/fake_cuda/dnn_engines.h"

#include <algorithm>

#include "tests/fake_cuda/calls.h"

namespace rewire::fake_cuda::dnn {
namespace {

constexpr int kFallbackMode = 2;
constexpr int kTensorCoreNote = 0, kDownConvertNote = 1, kNondeterministicNote = 4, kStrictNanNote = 9;

constexpr const char* kForward = "matmul mul max sub exp sum log add div matmul";
constexpr const char* kGradient =
    "mul sum mul matmul mul sub exp reshape matmul matmul sub mul mul reshape matmul reshape matmul";

bool is_gradient(const Graph& graph) {
  return graph.names() == kGradient;
}

bool is_convolution(const Graph& graph) {
  return graph.names() == "convolution";
}

/// Maps of either layout, filters as they are or with their channels last; all dense.
std::string refusal_of_convolution(const Graph& graph) {
  if (refuses("convolution")) return "a test wants it so";
  for (const auto& [id, tensor] : graph.with_memory()) {
    if (tensor.is_virtual || tensor.by_value) return "a convolution of what has no memory";
    if (tensor.type == kBf16 && refuses("convolution_bf16")) return "a test wants none of bf16";
    const std::vector<std::int64_t>&d = tensor.dims, &s = tensor.strides;
    const bool first = s == std::vector{d[1] * d[2] * d[3], d[2] * d[3], d[3], std::int64_t{1}};
    const bool last = s == std::vector{d[1] * d[2] * d[3], std::int64_t{1}, d[3] * d[1], d[1]};
    if (!first && !last) return "tensors of a convolution that are not dense";
  }
  return "";
}

const std::vector<Engine>& attention_engines() {
  static const std::vector<Engine> engines = {{1, Arithmetic::exact, {}, true}, {2, Arithmetic::rounded}};
  return engines;
}

const std::vector<Engine>& convolution_engines() {
  static const std::vector<Engine> engines = {{1, Arithmetic::nondeterministic, {kNondeterministicNote}},
                                              {2, Arithmetic::narrow, {kTensorCoreNote, kDownConvertNote}},
                                              {3, Arithmetic::tf32, {kTensorCoreNote}},
                                              {4, Arithmetic::exact, {}, true},
                                              {5, Arithmetic::single, {kStrictNanNote}}};
  return engines;
}

const std::vector<Engine>& all_engines(const Graph& graph) {
  return is_convolution(graph) ? convolution_engines() : attention_engines();
}

std::string refusal_of_attention(const Graph& graph) {
  if (refuses("attention") || (is_gradient(graph) && refuses("attention_gradient")))
    return "a test wants it so";
  for (const auto& [id, tensor] : graph.with_memory()) {
    if (tensor.dims.size() != 4) return "attention has four dimensions";
    if (tensor.type == kF32) {
      std::int64_t dense = 1;
      for (std::size_t d = 4; d-- > 0; dense *= tensor.dims[d]) {
        if (tensor.strides[d] != dense) return "statistics that are not dense";
      }
      continue;
    }
    const bool transposed = tensor.strides[2] == 1 && tensor.strides[3] != 1;
    const std::int64_t width = tensor.dims[transposed ? 2 : 3];
    if (width % 8 != 0 || width > 128) return "a width that is no multiple of 8, or above 128";
    if (tensor.strides[transposed ? 2 : 3] != 1) return "channels that do not stand together";
    for (const std::size_t d : {std::size_t{0}, std::size_t{1}, std::size_t{transposed ? 3U : 2U}}) {
      if (tensor.strides[d] % 8 != 0) return "rows that do not begin at multiples of 16 bytes";
    }
    if (tensor.alignment % 16 != 0) return "an alignment of less than 16 bytes";
  }
  return "";
}

}  // namespace

std::string refusal_of(const Graph& graph) {
  if (is_convolution(graph)) return refusal_of_convolution(graph);
  if (graph.names() == kForward || is_gradient(graph)) return refusal_of_attention(graph);
  return "no engine takes " + graph.names();
}

std::vector<Engine> engines_of(const Graph& graph, int mode) {
  if (refuses(is_convolution(graph) ? "convolution_engine" : "attention_engine")) return {};
  std::vector<Engine> engines = all_engines(graph);
  if (is_convolution(graph))
    std::erase_if(engines, [&](const Engine& engine) {
      return mode == kFallbackMode ? engine.index < 4 : engine.index == 5;
    });
  return engines;
}

Engine engine_of(const Graph& graph, std::int64_t index) {
  return *std::ranges::find(all_engines(graph), index, &Engine::index);
}

std::int64_t workspace_of(const Graph& graph, std::int64_t index) {
  if (is_convolution(graph)) return index == 4 ? graph.operations[0].x().bytes() : 0;
  if (index != 1) return 256;
  if (!is_gradient(graph)) return 4096;
  const std::vector<std::int64_t>& dims = graph.operations[3].output.dims;  // of the scores
  return dims[0] * dims[1] * ((dims[2] + 63) / 64 * 64) * ((dims[3] + 127) / 128 * 128) * 2;
}

bool refuses_plan(const Graph& graph, std::int64_t index) {
  if (!is_convolution(graph)) return refuses("attention_plan");
  return refuses("convolution_plan") || (index == 4 && refuses("convolution_plan_4"));
}

}  // namespace rewire::fake_cuda::dnn
