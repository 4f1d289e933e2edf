// A sample is a set of named tensors; a field is one of them.
#pragma once

#include <string>
#include <vector>

#include "ir/types.h"
#include "programs/field.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

using programs::FieldKind;

/// Marks an extent in which samples differ: height and width of images of any size, the number of boxes.
inline constexpr std::int64_t kRagged = -1;

struct Field {
  std::string name;
  ir::DType dtype = ir::DType::f32;
  ir::Shape shape;  // shape of one sample; kRagged for extents that differ
  FieldKind kind = FieldKind::number;
  std::int64_t categories = 0;          // for integers, each in [0, categories); 0: any
  std::vector<std::string> names = {};  // names of categories or tokens; may be empty
};

/// The tensors of one sample, by field name. Memory is kept from one sample to the next.
using Sample = TensorMap;

/// Returns the tensor of that name and type, with undefined elements, for a source that fills a sample.
HostTensor& place_in(Sample& sample, const std::string& name, const ir::TensorType& type);

}  // namespace rewire::runtime
