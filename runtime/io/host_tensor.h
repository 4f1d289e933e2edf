// A tensor in host memory, as files and programs exchange it: raw little-endian bytes of its dtype,
// row-major, 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "ir/types.h"

namespace rewire::runtime {

class HostTensor {
 public:
  HostTensor() = default;
  explicit HostTensor(ir::TensorType type);  // all zeros

  const ir::TensorType& type() const { return type_; }
  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_.get()), size_ / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_.get()), size_ / sizeof(T)};
  }

  HostTensor clone() const;

 private:
  struct Free {
    std::size_t mapped;  // bytes; 0: from the heap
    Free() : mapped(0) {}
    explicit Free(std::size_t bytes) : mapped(bytes) {}
    void operator()(std::byte* pointer) const;
  };
  ir::TensorType type_;
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

/// Tensors by name, in name order.
using TensorMap = std::map<std::string, HostTensor, std::less<>>;

/// Convert between the evaluator's doubles and stored dtypes (floats round to nearest even).
HostTensor to_host(const ir::Tensor& tensor);
ir::Tensor to_double(const HostTensor& tensor);
/// Returns the values in another dtype.
HostTensor convert(const HostTensor& tensor, ir::DType dtype);

}  // namespace rewire::runtime
