// One function of a module on a GPU: its launches, its memory besides the arena, and the graph that they
// become.
//
// Arguments, results and constants lie in one allocation each, so that a run copies once in and once out. A
// graph holds addresses: when the arena grows, it is captured again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/launches.h"
#include "runtime/exec/memory_plan.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Buffers one after another, by position among the buffers of their kind.
struct PackedBuffers {
  std::vector<const codegen::Buffer*> buffers;
  std::vector<std::int64_t> offsets;
  std::int64_t bytes = 0;

  PackedBuffers(const codegen::Program& program, codegen::BufferKind kind);
};

/// The memory that all programs share.
struct SharedMemory {
  cuda::Address arena = 0;  // at least arena_bytes()
  std::function<cuda::Address(const std::string& parameter)> state;
};

class CudaProgram {
 public:
  /// `gap` is the number of bytes after each buffer of the arena that must not be written.
  CudaProgram(codegen::Program program, CudaKernels& kernels, CudaLibraries& libraries,
              const cuda::Stream& stream, std::int64_t gap);
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  const codegen::Program& program() const { return program_; }
  const MemoryPlan& plan() const { return plan_; }
  const PackedBuffers& arguments() const { return arguments_; }
  const PackedBuffers& results() const { return results_; }
  cuda::Address argument_memory() const { return argument_memory_.address(); }
  cuda::Address result_memory() const { return result_memory_.address(); }
  /// The bytes of the plan and of a workspace after it.
  std::int64_t arena_bytes() const { return workspace_offset_ + workspace_bytes_; }
  const std::vector<std::unique_ptr<CudaLaunch>>& launches() const { return launches_; }
  HostFailure& failure() { return failure_; }

  /// The addresses of all buffers, and of the workspace.
  std::vector<cuda::Address> addresses(const SharedMemory& shared) const;
  cuda::Address workspace(const SharedMemory& shared) const {
    return shared.arena + static_cast<cuda::Address>(workspace_offset_);
  }

  /// Fills the pointer tables, and loads what libraries load at their first run. Call it before the first
  /// enqueue() over this memory.
  void prepare(const SharedMemory& shared, const cuda::Stream& stream);
  /// Enqueues the launches in their order.
  void enqueue(const SharedMemory& shared, const cuda::Stream& stream) const;
  /// Prepares, and captures the launches as one graph.
  void capture(const SharedMemory& shared, const cuda::Stream& stream);
  bool captured() const { return static_cast<bool>(graph_); }
  void forget_graph() { graph_ = {}; }
  void launch(const cuda::Stream& stream) const { graph_.launch(stream, what_); }
  /// Runs once without the graph, with an event between launches; `best` keeps the shortest time of each.
  void time_launches(const SharedMemory& shared, const cuda::Stream& stream, std::vector<double>& best) const;

 private:
  codegen::Program program_;
  std::string what_;  // "of 'step'"
  MemoryPlan plan_;
  HostFailure failure_;
  PointerTables tables_;  // over the memory that the graph was captured on
  std::vector<std::unique_ptr<CudaLaunch>> launches_;
  PackedBuffers arguments_, results_, constants_;
  cuda::DeviceMemory argument_memory_, result_memory_, constant_memory_;
  std::int64_t workspace_offset_ = 0, workspace_bytes_ = 0;
  bool warm_ = false;  // the libraries' calls have run once
  cuda::Graph graph_;
};

}  // namespace rewire::runtime
