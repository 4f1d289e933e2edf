// Runs an op without a tile form on host memory by the evaluator's function: exact, on one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/program.h"

namespace rewire::runtime {

/// The address of element 0 of every buffer of a program.
using BufferPointers = std::vector<std::byte*>;

class HostOp {
 public:
  HostOp(const codegen::Program& program, const codegen::OpCall& call);

  /// `buffers` needs the addresses of the op's views alone.
  void run(const BufferPointers& buffers) const;

 private:
  codegen::OpCall call_;
  std::vector<ir::TensorType> operand_types_, result_types_;
};

}  // namespace rewire::runtime
