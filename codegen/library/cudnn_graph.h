// cuDNN's descriptors as objects, and a graph of its operations over tensors; only for the files cudnn_*.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/library/cudnn_functions.h"

namespace rewire::codegen::cudnn {

/// A descriptor. RuntimeFailure names the call that failed and its purpose.
class Object {
 public:
  Object(Kind kind, const std::string& what);
  ~Object();
  Object(Object&& other) noexcept;
  Object& operator=(Object&& other) noexcept;

  void put(Attribute attribute, std::span<const std::int64_t> values);
  void put(Attribute attribute, std::int64_t value) { put(attribute, std::span(&value, 1)); }
  void put(Attribute attribute, bool value) { put(attribute, kBooleanType, 1, &value); }
  void put(Attribute attribute, float value) { put(attribute, kFloatType, 1, &value); }
  void put(Attribute attribute, std::span<const Descriptor> descriptors);
  void put(Attribute attribute, Descriptor descriptor) { put(attribute, std::span(&descriptor, 1)); }
  /// Sets a value of one of cuDNN's enumerations, which are ints.
  void put_enum(Attribute attribute, Type type, std::int32_t value) { put(attribute, type, 1, &value); }
  void put(Attribute attribute, Type type, std::int64_t count, const void* array);

  void finalize();
  /// Returns false, with cuDNN's words, if it refuses.
  bool finalize(std::string& refusal);

  std::int64_t get_int64(Attribute attribute) const;
  std::int32_t get_enum(Attribute attribute, Type type) const;
  /// Returns at most `most` of them.
  std::vector<std::int32_t> get_enums(Attribute attribute, Type type, std::int64_t most) const;
  /// Returns how many descriptors the attribute has.
  std::int64_t count(Attribute attribute) const;
  /// Fills descriptors of the right kind, made before. Returns how many it filled.
  std::int64_t fill(Attribute attribute, std::span<const Object> objects) const;

  Descriptor get() const { return descriptor_; }

 private:
  Descriptor descriptor_ = nullptr;
  std::string what_;
};

using Dims = std::vector<std::int64_t>;

struct GraphTensor {
  std::int64_t id = 0;  // by which a run finds its memory
  Dims dims, strides;   // in elements
  DataType type = kF32;
  std::int64_t alignment = 16;  // bytes
  bool is_virtual = false;      // between operations, without memory
  bool by_value = false;        // one element, in the host's memory
};

/// Operations over tensors. It owns all their descriptors.
class Graph {
 public:
  explicit Graph(const std::string& what);

  /// Finalizes an object, which the graph then owns.
  Descriptor add(Object object);
  Descriptor tensor(const GraphTensor& tensor);
  /// Adds operations in the order in which they compute.
  void operation(Object operation) { operations_.push_back(add(std::move(operation))); }

  /// Finalizes the graph for this handle (null: for none). Returns false, with cuDNN's words, if it refuses.
  bool finalize(Handle handle, std::string& refusal);
  Descriptor get() const { return graph_.get(); }
  const std::string& what() const { return what_; }
  /// Returns the tensors with memory, whose addresses a run needs.
  const std::vector<std::int64_t>& ids() const { return ids_; }

 private:
  std::string what_;
  std::vector<Object> objects_;
  std::vector<Descriptor> operations_;
  std::vector<std::int64_t> ids_;
  Object graph_;
};

}  // namespace rewire::codegen::cudnn
