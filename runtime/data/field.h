// A sample is a set of named tensors; a field is one of them.
#pragma once

#include <string>
#include <vector>

#include "ir/types.h"
#include "programs/field.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

using programs::FieldKind;

/// An extent in which samples differ: height and width of images of any size, the number of boxes.
inline constexpr std::int64_t kRagged = -1;

struct Field {
  std::string name;
  ir::DType dtype = ir::DType::f32;
  ir::Shape shape;  // of one sample; kRagged where each has its own extent
  FieldKind kind = FieldKind::number;
  std::int64_t categories = 0;          // of integers: each lies in [0, categories); 0: any
  std::vector<std::string> names = {};  // by category or token; empty where they have none
};

/// The tensors of one sample by the names of its source's fields. Memory is kept from one sample to the next.
using Sample = TensorMap;

/// The tensor of that name, of that type, its elements undefined. For sources that fill a sample.
HostTensor& place_in(Sample& sample, const std::string& name, const ir::TensorType& type);

}  // namespace rewire::runtime
