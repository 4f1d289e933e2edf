// cuDNN's descriptors as objects, and attention as a graph of its operations. For cudnn_attention.cpp alone.
//
// cuDNN knows attention by its parts: its fused engines take a graph whose operations are, up to their order,
//
//   forward    s = q k^T   s = s scale   m = max s   e = exp(s - m)   r = sum e
//              lse = m + log r   p = e / r (bf16)   output = p v
//   gradient   d = (sum (d_output output)) 1     s = q k^T   p = exp(s scale - lse)   dv = p^T d_output
//              ds = (d_output v^T - d) p scale   dk = ds^T q   dq = ds k
//
// as cuDNN's own frontend writes them. Tensors between operations are virtual: they have a shape and a type,
// and no memory; d alone has, of ours. Matrices are the last two axes; a transpose is a view of other
// strides, for virtual tensors a "reshape" onto them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "codegen/library/cudnn_functions.h"
#include "codegen/library/device_attention.h"

namespace rewire::codegen::cudnn {

/// A descriptor. RuntimeFailure names the call that failed and what it was for.
class Object {
 public:
  Object(Kind kind, const std::string& what);
  ~Object();
  Object(Object&& other) noexcept;
  Object& operator=(Object&& other) noexcept;

  void put(Attribute attribute, std::span<const std::int64_t> values);
  void put(Attribute attribute, std::int64_t value) { put(attribute, std::span(&value, 1)); }
  void put(Attribute attribute, bool value) { put(attribute, kBooleanType, 1, &value); }
  void put(Attribute attribute, std::span<const Descriptor> descriptors);
  void put(Attribute attribute, Descriptor descriptor) { put(attribute, std::span(&descriptor, 1)); }
  /// Of one of cuDNN's enumerations, which are ints.
  void put_enum(Attribute attribute, Type type, std::int32_t value) { put(attribute, type, 1, &value); }
  void put(Attribute attribute, Type type, std::int64_t count, const void* array);

  void finalize();
  /// False, with cuDNN's words, where it refuses.
  bool finalize(std::string& refusal);

  std::int64_t get_int64(Attribute attribute) const;
  std::int32_t get_enum(Attribute attribute, Type type) const;
  /// How many descriptors the attribute has to give.
  std::int64_t count(Attribute attribute) const;
  /// Fills descriptors of the right kind, made before; how many it filled.
  std::int64_t fill(Attribute attribute, std::span<const Object> objects) const;

  Descriptor get() const { return descriptor_; }

 private:
  Descriptor descriptor_ = nullptr;
  std::string what_;
};

/// What the tensors with memory are called in a graph, and when it runs.
enum Id : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOutput,
  kLse,
  kDOutput,
  kDq,
  kDk,
  kDv,
  kScale,    // f32, by value
  kOne,      // f32, by value; of the gradient
  kRowSums,  // f32 [batch, heads, queries, 1], no result; of the gradient
  kFirstVirtual
};

/// All descriptors of a graph, which lives as long as they do.
class AttentionGraph {
 public:
  AttentionGraph(const DeviceAttentionShape& shape, const std::string& what);

  /// The graph itself, for this handle (null: for none). False, with cuDNN's words, where it refuses.
  bool finalize(Handle handle, std::string& refusal);
  Descriptor get() const { return graph_.get(); }
  /// The tensors with memory, of which a run needs the addresses.
  const std::vector<std::int64_t>& ids() const { return ids_; }

 private:
  using Dims = std::vector<std::int64_t>;

  void build_forward();
  void build_gradient();
  Descriptor add(Object object);
  Descriptor tensor(std::int64_t id, const Dims& dims, const Dims& strides, DataType type,
                    bool by_value = false);
  /// Heads of so many tokens; `transposed`: channels are the rows.
  Descriptor heads(Id id, const DeviceAttentionShape::Tensor& layout, std::int64_t tokens,
                   bool transposed = false);
  Descriptor scalar(Id id) { return tensor(id, {1, 1, 1, 1}, {1, 1, 1, 1}, kF32, true); }
  Descriptor rows(Id id) { return tensor(id, row_dims_, row_strides_, kF32); }
  Descriptor virtual_tensor(const Dims& dims, const Dims& strides, DataType type);
  Descriptor virtual_scores(DataType type = kF32) { return virtual_tensor(dims_, strides_, type); }
  Descriptor virtual_rows() { return virtual_tensor(row_dims_, row_strides_, kF32); }
  /// y = x, or x and b, through `mode`; returns y.
  Descriptor pointwise(PointwiseMode mode, Descriptor x, Descriptor b, Descriptor y);
  Descriptor matmul(Descriptor a, Descriptor b, Descriptor c);
  Descriptor reduce(ReductionOperator op, Descriptor x, Descriptor y);
  Descriptor reshape(Descriptor x, Descriptor y);
  Descriptor transposed_scores(Descriptor scores);

  DeviceAttentionShape shape_;
  std::string what_;
  Dims dims_, strides_;          // of the scores, [batch, heads, queries, keys]
  Dims row_dims_, row_strides_;  // [batch, heads, queries, 1]
  std::vector<Object> objects_;
  std::vector<Descriptor> operations_;
  std::vector<std::int64_t> ids_;
  std::int64_t next_virtual_ = kFirstVirtual;
  Object graph_;
};

}  // namespace rewire::codegen::cudnn
