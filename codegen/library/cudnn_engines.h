// The engines that compute a graph of cuDNN's, and the plan of one; only for the files cudnn_*.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/library/cudnn.h"
#include "codegen/library/cudnn_graph.h"

namespace rewire::codegen::cudnn {

/// Selects the engines that are asked for.
struct EngineLimits {
  std::int64_t workspace_bytes = 0;         // the most that an engine may need
  std::vector<HeuristicMode> modes;         // their lists follow one another
  std::vector<NumericalNote> refused = {};  // an engine with any of these notes is left out
};

class Engines {
 public:
  /// Throws UnsupportedGraph if cuDNN refuses the graph, or no engine is left. `library` must outlive it.
  Engines(const Cudnn& library, Graph graph, const EngineLimits& limits);

  /// Returns "cuDNN 9.19.0 engine 6, knobs 24=7 29=2": the version, the engine's number and its settings. In
  /// cuDNN's order, each once.
  const std::vector<std::string>& names() const { return names_; }
  /// Makes the plan of one of these, perhaps named by another process. Returns false, and changes nothing,
  /// if there is no such engine here, or it refuses after all.
  bool choose(std::string_view engine);
  const std::string& chosen() const { return names_[chosen_]; }
  /// Returns the workspace of the plan. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Puts the plan on a stream (a CUstream), which may be capturing. `memory`: the addresses of the graph's
  /// ids, in their order.
  void run(std::span<const void* const> memory, void* workspace, void* stream) const;
  const Graph& graph() const { return graph_; }

 private:
  /// Returns whether the heuristic knows any engine, within the limits or not. `refusal` gets cuDNN's words
  /// if it does not answer.
  bool add_engines(HeuristicMode mode, const EngineLimits& limits, std::string& refusal);

  const Cudnn::Impl* device_;  // the library's
  Graph graph_;
  std::vector<Object> configs_;
  std::vector<std::string> names_;  // by config
  std::size_t chosen_ = 0;
  std::int64_t workspace_bytes_ = 0;
  std::optional<Object> plan_;
};

}  // namespace rewire::codegen::cudnn
