// Attention as a graph of cuDNN's operations. For cudnn_attention.cpp alone.
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
#include <string>

#include "codegen/library/cudnn_graph.h"
#include "codegen/library/device_attention.h"

namespace rewire::codegen::cudnn {

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

Graph attention_graph(const DeviceAttentionShape& shape, const std::string& what);

}  // namespace rewire::codegen::cudnn
