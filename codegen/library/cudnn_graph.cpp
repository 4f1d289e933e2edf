#include "codegen/library/cudnn_graph.h"

#include <algorithm>
#include <utility>

namespace rewire::codegen::cudnn {

Object::Object(Kind kind, const std::string& what) : what_(what) {
  check(Library::usable().create_descriptor(kind, &descriptor_), "cudnnBackendCreateDescriptor", what_);
}

Object::~Object() {
  if (descriptor_ != nullptr) Library::any().destroy_descriptor(descriptor_);
}

Object::Object(Object&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)), what_(std::move(other.what_)) {}

Object& Object::operator=(Object&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(what_, other.what_);
  return *this;
}

void Object::put(Attribute attribute, std::span<const std::int64_t> values) {
  put(attribute, kInt64Type, static_cast<std::int64_t>(values.size()), values.data());
}

void Object::put(Attribute attribute, std::span<const Descriptor> descriptors) {
  put(attribute, kDescriptorType, static_cast<std::int64_t>(descriptors.size()), descriptors.data());
}

void Object::put(Attribute attribute, Type type, std::int64_t count, const void* array) {
  check(Library::usable().set_attribute(descriptor_, attribute, type, count, array),
        "cudnnBackendSetAttribute", what_);
}

void Object::finalize() {
  check(Library::usable().finalize(descriptor_), "cudnnBackendFinalize", what_);
}

bool Object::finalize(std::string& refusal) {
  const Status status = Library::usable().finalize(descriptor_);
  if (is_refusal(status)) {
    refusal = words(status);
    return false;
  }
  check(status, "cudnnBackendFinalize", what_);
  return true;
}

std::int64_t Object::get_int64(Attribute attribute) const {
  std::int64_t value = 0, count = 0;
  check(Library::usable().get_attribute(descriptor_, attribute, kInt64Type, 1, &count, &value),
        "cudnnBackendGetAttribute", what_);
  return value;
}

std::int32_t Object::get_enum(Attribute attribute, Type type) const {
  std::int32_t value = 0;
  std::int64_t count = 0;
  check(Library::usable().get_attribute(descriptor_, attribute, type, 1, &count, &value),
        "cudnnBackendGetAttribute", what_);
  return value;
}

std::vector<std::int32_t> Object::get_enums(Attribute attribute, Type type, std::int64_t most) const {
  std::vector<std::int32_t> values(static_cast<std::size_t>(most));
  std::int64_t count = 0;
  check(Library::usable().get_attribute(descriptor_, attribute, type, most, &count, values.data()),
        "cudnnBackendGetAttribute", what_);
  values.resize(static_cast<std::size_t>(std::min(count, most)));
  return values;
}

std::int64_t Object::count(Attribute attribute) const {
  std::int64_t count = 0;
  check(Library::usable().get_attribute(descriptor_, attribute, kDescriptorType, 0, &count, nullptr),
        "cudnnBackendGetAttribute", what_);
  return count;
}

std::int64_t Object::fill(Attribute attribute, std::span<const Object> objects) const {
  std::vector<Descriptor> descriptors;
  for (const Object& object : objects) descriptors.push_back(object.get());
  std::int64_t count = 0;
  check(Library::usable().get_attribute(descriptor_, attribute, kDescriptorType,
                                        static_cast<std::int64_t>(descriptors.size()), &count,
                                        descriptors.data()),
        "cudnnBackendGetAttribute", what_);
  return count;
}

Graph::Graph(const std::string& what) : what_(what), graph_(kGraph, what) {}

Descriptor Graph::add(Object object) {
  object.finalize();
  objects_.push_back(std::move(object));
  return objects_.back().get();
}

Descriptor Graph::tensor(const GraphTensor& tensor) {
  Object made(kTensor, what_);
  made.put_enum(kTensorType, kDataTypeType, tensor.type);
  made.put(kTensorDimensions, std::span<const std::int64_t>(tensor.dims));
  made.put(kTensorStrides, std::span<const std::int64_t>(tensor.strides));
  made.put(kTensorId, tensor.id);
  made.put(kTensorAlignment, tensor.alignment);
  if (tensor.is_virtual) {
    made.put(kTensorVirtual, true);
  } else {
    ids_.push_back(tensor.id);
  }
  if (tensor.by_value) made.put(kTensorByValue, true);
  return add(std::move(made));
}

bool Graph::finalize(Handle handle, std::string& refusal) {
  graph_.put(kGraphOperations, std::span<const Descriptor>(operations_));
  if (handle != nullptr) graph_.put(kGraphHandle, kHandleType, 1, &handle);
  return graph_.finalize(refusal);
}

}  // namespace rewire::codegen::cudnn
