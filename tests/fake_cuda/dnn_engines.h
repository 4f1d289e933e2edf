// The engines of the fake cuDNN. Each shows in what it computes, so that a test sees which one ran.
//
//   attention     1  wants a workspace, which it fills with NaN
//                 2  rounds what stands between operations to its type
//   convolutions  1  not deterministic         2  narrows its operands to bf16
//                 3  rounds them to TF32       4  wants a workspace, which it fills with NaN
//                 5  of the fallback mode alone; its sums are of f32
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fake_cuda/dnn_graph.h"

namespace rewire::fake_cuda::dnn {

struct Engine {
  std::int64_t index = 0;
  Arithmetic arithmetic = Arithmetic::exact;
  std::vector<int> notes = {};  // cudnnBackendNumericalNote_t
  bool has_knob = false;
};

/// Why no engine takes the graph; "": some do.
std::string refusal_of(const Graph& graph);
/// In the order of the heuristic's mode (cudnnBackendHeurMode_t).
std::vector<Engine> engines_of(const Graph& graph, int mode);
/// Of a graph that is taken.
Engine engine_of(const Graph& graph, std::int64_t index);
std::int64_t workspace_of(const Graph& graph, std::int64_t index);
/// Whether a test wants no plan of this engine.
bool refuses_plan(const Graph& graph, std::int64_t index);

}  // namespace rewire::fake_cuda::dnn
