// Convolutions on the CPU by oneDNN, one thread per call. Maps are dense f32 of either layout. Weights are
// first packed into the library's own layout, once for all the parts that the runtime cuts a batch into.
// Gradients of weights come out in that layout.
#pragma once

#include <cstdint>
#include <memory>

#include "ir/ops/convolution.h"

namespace rewire::codegen {

/// The part of the relation y = x * w that is computed.
enum class ConvProduct : std::uint8_t { output, input, weight };

class Convolution {
 public:
  /// `shape.batch` is the batch of one call. All parts of a launch must have the same packed layout: all but
  /// the first are made `like` it.
  Convolution(ConvProduct product, const ir::ConvShape& shape, bool channels_last,
              const Convolution* like = nullptr);
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  std::int64_t scratch_bytes() const;  // for any function below; each takes 64-byte aligned memory
  std::int64_t packed_bytes() const;
  /// Returns into how many pieces packing may be cut; they share no memory.
  std::int64_t pieces() const;
  void pack(std::int64_t piece, const float* weight, float* packed, void* scratch) const;
  void unpack(std::int64_t piece, const float* packed, float* weight, void* scratch) const;

  /// Runs it. output: (x, packed w) -> y; input: (gradient of y, packed w) -> gradient of x; weight: (x,
  /// gradient of y) -> packed gradient of w. Callable from several threads at once with different scratch.
  void run(const float* first, const float* second, float* result, void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Computes sum[i] += part[i] for i in [0, count).
void add_parts(const float* part, std::int64_t count, float* sum);

}  // namespace rewire::codegen
