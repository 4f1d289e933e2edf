// Values inside a network, forward and backward, as a training step computes them for one batch: what they are like,
// and how far they are from those of another engine or of files. docs/guide/trace.md tells what for.
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

/// Of a tensor's elements: mean, deviation and extremes are those of the finite ones, NaN where there are none.
struct TraceStatistics {
  double mean = 0, deviation = 0, minimum = 0, maximum = 0;
  double zeros = 0, non_finite = 0;  // shares of all elements
};
TraceStatistics trace_statistics(const HostTensor& tensor);

struct TraceDifference {
  double error =
      0;  // relative, in the L2 norm; infinite where the types differ, or the elements that are not finite
  double tolerance = 0;
  bool differs() const { return !(error <= tolerance); }
};

struct TraceRow {
  std::string name;  // "blocks.3.attn"; of a gradient "blocks.3.attn.grad"
  std::string op;    // "residual"; of a gradient "gradient"
  ir::TensorType type;
  TraceStatistics statistics;
  std::optional<TraceDifference> difference = {};  // where there was something to compare with
};

struct Trace {
  std::vector<TraceRow>
      rows;                // forward in order, the loss, gradients in the order in which they are computed
  TensorMap values;        // by the rows' names
  TensorMap expected;      // those of them that there was something for
  std::string non_finite;  // "": all is finite; else which tensor of the program is the first that is not
};

struct TraceJob {
  ir::Module network;  // what training calls, as it is computed (Network::training_module)
  programs::TrainOptions options;
  TensorMap weights, inputs;  // all weights; the arguments of the program
  std::uint64_t seed = 0;     // of other state
  /// `reference` may be empty: then there is nothing to compare with.
  std::function<std::unique_ptr<Engine>(const ir::Module&)> engine, reference = {};
};

/// The network and the program `trace`, whose results are the tensors, with `backward` and the gradients by them.
ir::Module trace_module(const TraceJob& job, const std::vector<TracedTensor>& tensors, bool backward);
/// Where there is a reference, each tensor is held to the bounds of engine_check.h.
Trace trace_tensors(const TraceJob& job, const std::vector<TracedTensor>& tensors, bool backward);

/// What is computed behind the last tensor that agrees, op by op, up to the first that does not.
struct TracedWay {
  std::string after;  // "": from the start on
  Trace trace;
};
/// Where the job has a reference and the first tensor that differs is one of forward.
std::optional<TracedWay> trace_way_to_difference(const TraceJob& job, const std::vector<TracedTensor>& all,
                                                 const Trace& trace);

/// NAME.npy for each value, in a folder that is made where there is none. UserError where it cannot be written, or holds
/// such a file already.
void write_trace(const Trace& trace, const std::string& folder);
/// Compares with FOLDER/NAME.npy, as far as there are such files. UserError where there is none.
void expect_trace(Trace& trace, const std::string& folder, double tolerance);

/// The first row that differs; null: none does.
const TraceRow* first_difference(const Trace& trace);
/// What the difference of a row is a multiple of, where it is one: "it is -1 x what is expected", "its difference is
/// -2 x blocks.0.attn.proj"; "" where it is none.
std::string explain_difference(const Trace& trace, const TraceRow& row);

}  // namespace rewire::runtime
