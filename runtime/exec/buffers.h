// The buffers of a program as every engine sees them: the values of constants, and the place of each buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/program.h"
#include "runtime/exec/memory_plan.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Returns the value of a constant buffer.
HostTensor constant_value(const codegen::Buffer& buffer);

/// Returns the place of each buffer, as an engine addresses memory. `places` has argument(i), result(i) and
/// constant(i) for the i-th buffer of the kind, state(name), and temporary(offset), bytes into the arena. A
/// temporary that no launch touches is at Place().
template <class Place, class Places>
std::vector<Place> places_of(const codegen::Program& program, const MemoryPlan& plan, const Places& places) {
  using codegen::BufferKind;
  std::vector<Place> list;
  list.reserve(program.buffers.size());
  std::size_t argument = 0, result = 0, constant = 0;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const std::int64_t offset = plan.buffers[i].offset;
    switch (program.buffers[i].kind) {
      case BufferKind::argument:
        list.push_back(places.argument(argument++));
        break;
      case BufferKind::result:
        list.push_back(places.result(result++));
        break;
      case BufferKind::constant:
        list.push_back(places.constant(constant++));
        break;
      case BufferKind::state:
        list.push_back(places.state(program.buffers[i].name));
        break;
      case BufferKind::temporary:
        list.push_back(offset < 0 ? Place() : places.temporary(offset));
        break;
    }
  }
  return list;
}

}  // namespace rewire::runtime
