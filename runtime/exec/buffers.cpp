#include "runtime/exec/buffers.h"

namespace rewire::runtime {

HostTensor constant_value(const codegen::Buffer& buffer) {
  ir::Tensor tensor(buffer.type);
  for (std::size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = buffer.values[buffer.values.size() == 1 ? 0 : i];
  return to_host(tensor);
}

}  // namespace rewire::runtime
