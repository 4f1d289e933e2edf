// The engines that compute a graph of cuDNN's, and the plan of one. For the files cudnn_* alone.
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

/// "9.19.0" of 91900.
std::string version_text(std::size_t version);

/// Which engines are asked for.
struct EngineLimits {
  std::int64_t workspace_bytes = 0;         // the most that one may want
  std::vector<HeuristicMode> modes;         // whose lists follow one another
  std::vector<NumericalNote> refused = {};  // an engine with any of these notes is left out
};

class Engines {
 public:
  /// UnsupportedGraph if cuDNN refuses the graph, or no engine is left. `library` must outlive it.
  Engines(const Cudnn& library, Graph graph, const EngineLimits& limits);

  /// "cuDNN 9.19.0 engine 6, knobs 24=7 29=2": the version, the engine's number and its settings. In cuDNN's
  /// order, each once.
  const std::vector<std::string>& names() const { return names_; }
  /// Makes the plan of one of these, perhaps named by another process. False, and nothing changes, if there
  /// is no such engine here, or it refuses after all.
  bool choose(std::string_view engine);
  const std::string& chosen() const { return names_[chosen_]; }
  /// Of the plan. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Puts the plan on a stream (a CUstream), which may be capturing. `memory`: of the graph's ids, in their
  /// order.
  void run(std::span<const void* const> memory, void* workspace, void* stream) const;
  const Graph& graph() const { return graph_; }

 private:
  /// Whether the heuristic knows any, within the limits or not; `refusal`: cuDNN's words where it does not answer.
  bool add_engines(HeuristicMode mode, const EngineLimits& limits, std::string& refusal);

  const Cudnn::Impl* device_;  // of the library
  Graph graph_;
  std::vector<Object> configs_;
  std::vector<std::string> names_;  // of the configs
  std::size_t chosen_ = 0;
  std::int64_t workspace_bytes_ = 0;
  std::optional<Object> plan_;
};

}  // namespace rewire::codegen::cudnn
