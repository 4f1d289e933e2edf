// Values inside a network, forward and backward, as a training step computes them for one batch: their
// statistics, and their distance from another engine's values or from files. docs/guide/trace.md shows the
// uses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "programs/programs.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"
#include "runtime/trace/tensors.h"

namespace rewire::runtime {

/// Statistics of a tensor's elements. Mean, deviation and extremes are of the finite ones, NaN if there are
/// none.
struct TraceStatistics {
  double mean = 0, deviation = 0, minimum = 0, maximum = 0;
  double zeros = 0, non_finite = 0;  // shares of all elements
};
TraceStatistics trace_statistics(const HostTensor& tensor);

struct TraceDifference {
  double error =
      0;  // relative, in the L2 norm; infinite if the types differ, or which of the elements are finite
  double tolerance = 0;
  bool differs() const { return !(error <= tolerance); }
};

struct TraceRow {
  std::string name;  // "blocks.3.attn"; of a gradient "blocks.3.attn.grad"
  std::string op;    // "residual"; of a gradient "gradient"
  ir::TensorType type;
  TraceStatistics statistics;
  std::optional<TraceDifference> difference = {};  // if there was something to compare with
};

struct Trace {
  std::vector<TraceRow>
      rows;                // forward in order, the loss, then gradients in the order in which they are made
  TensorMap values;        // by the rows' names
  TensorMap expected;      // likewise, for the rows that were compared
  std::string non_finite;  // "": all is finite; else the program's first tensor that is not
};

struct TraceJob {
  ir::Module network;  // what training calls, as it is computed (Network::training_module)
  programs::TrainOptions options;
  TensorMap weights, inputs;  // all weights; the arguments of the program
  std::uint64_t seed = 0;     // for other state
  /// `reference` may be empty: then nothing is compared.
  std::function<std::unique_ptr<Engine>(const ir::Module&)> engine, reference = {};
};

/// Returns the network with the program `trace`, whose results are the tensors and, with `backward`, the
/// gradients by them.
ir::Module trace_module(const TraceJob& job, const std::vector<TracedTensor>& tensors, bool backward);
/// Traces the tensors. With a reference, each must be within the bounds of engine_check.h.
Trace trace_tensors(const TraceJob& job, const std::vector<TracedTensor>& tensors, bool backward);

/// The ops after the last tensor that agrees, up to the first that does not, each traced.
struct TracedWay {
  std::string after;  // "": from the start
  Trace trace;
};
/// Returns the way if the job has a reference and the first tensor that differs is in forward.
std::optional<TracedWay> trace_way_to_difference(const TraceJob& job, const std::vector<TracedTensor>& all,
                                                 const Trace& trace);

/// Writes NAME.npy for each value, and makes the folder if it is missing. Throws UserError if a file exists
/// or cannot be written.
void write_trace(const Trace& trace, const std::string& folder);
/// Compares with the existing files FOLDER/NAME.npy. Throws UserError if there are none.
void expect_trace(Trace& trace, const std::string& folder, double tolerance);

/// Returns the first row that differs; null if none does.
const TraceRow* first_difference(const Trace& trace);
/// Explains a row that is off by a multiple: "it is -1 x what is expected", "its difference is -2 x
/// blocks.0.attn.proj"; "" if it is no multiple.
std::string explain_difference(const Trace& trace, const TraceRow& row);

}  // namespace rewire::runtime
