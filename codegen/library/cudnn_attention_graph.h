// Attention as a graph of cuDNN's operations; only for cudnn_attention.cpp.
//
// cuDNN recognises attention by its parts. Its fused engines take a graph with these operations, in any
// order, as cuDNN's own frontend writes them:
//
//   forward    s = q k^T   s = s scale   m = max s   e = exp(s - m)   r = sum e
//              lse = m + log r   p = e / r (bf16)   output = p v
//   gradient   d = (sum (d_output output)) 1     s = q k^T   p = exp(s scale - lse)   dv = p^T d_output
//              ds = (d_output v^T - d) p scale   dk = ds^T q   dq = ds k
//
// Tensors between operations are virtual: they have a shape and a type, but no memory. Only d has memory,
// which Rewire provides. Matrices are the last two axes. A transpose is a view with other strides; for
// virtual tensors it is a "reshape" onto them.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/library/cudnn_graph.h"
#include "codegen/library/device_attention.h"

namespace rewire::codegen::cudnn {

/// The ids of the tensors with memory, in a graph and when it runs.
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
  kOne,      // f32, by value; only of the gradient
  kRowSums,  // f32 [batch, heads, queries, 1], no result; only of the gradient
  kFirstVirtual
};

Graph attention_graph(const DeviceAttentionShape& shape, const std::string& what);

}  // namespace rewire::codegen::cudnn
