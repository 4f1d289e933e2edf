// Graphs of cuDNN's operations in double precision: what they say is computed, whatever it is for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/fake_cuda/dnn_convolution.h"

namespace rewire::fake_cuda::dnn {

enum DataType : int { kF32 = 0, kBf16 = 9 };

struct Tensor {
  std::int64_t id = 0, alignment = 0;
  int type = kF32;
  std::vector<std::int64_t> dims, strides;
  bool is_virtual = false, by_value = false;

  std::int64_t count() const;
  std::int64_t bytes() const;  // from its first to behind its last element
};

struct Operation {
  enum class Kind : std::uint8_t {
    pointwise,
    matmul,
    reduction,
    reshape,
    convolution
  } kind = Kind::pointwise;
  int mode = 0;  // of a pointwise operation or a reduction
  std::vector<Tensor> inputs;
  Tensor output;
  Convolution convolution = {};  // inputs: (x, w), (y, w) or (x, y)

  /// Of a convolution.
  const Tensor& x() const;
  const Tensor& w() const;
  const Tensor& y() const;
};

struct Graph {
  std::vector<Operation> operations;

  /// Every tensor that is not virtual, each once, by id.
  std::map<std::int64_t, Tensor> with_memory() const;
  /// "matmul mul max sub exp sum log add div matmul": the operations in order; "convolution": one.
  std::string names() const;
};

/// How an engine computes, as far as it shows.
enum class Arithmetic : std::uint8_t {
  exact,            // in double precision
  rounded,          // every virtual tensor is rounded to its type
  single,           // the sums of a convolution are of f32
  tf32,             // its operands are rounded to TF32
  narrow,           // its operands are rounded to bf16
  nondeterministic  // its results are others each time, by some last bits
};

/// What is no graph: shapes that disagree, a tensor that two operations write, one that none does, two
/// tensors of one id. "": nothing.
std::string fault_of(const Graph& graph);

/// `memory`: of each tensor that has some, by id.
void run(const Graph& graph, const std::map<std::int64_t, void*>& memory,
         const std::map<std::int64_t, double>& values, Arithmetic arithmetic);

}  // namespace rewire::fake_cuda::dnn
