#include "runtime/exec/cuda/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/exec/buffers.h"

namespace rewire::runtime {
namespace {

using codegen::Buffer;
using codegen::BufferKind;
using cuda::Address;

std::vector<CudaKernel> load_kernels(const codegen::Program& program, CudaKernels& kernels) {
  std::vector<const codegen::KernelLaunch*> list;
  for (const codegen::Launch& launch : program.launches) {
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) list.push_back(kernel);
  }
  return kernels.load(list);
}

}  // namespace

PackedBuffers::PackedBuffers(const codegen::Program& program, BufferKind kind) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind != kind) continue;
    buffers.push_back(&buffer);
    offsets.push_back(bytes);
    bytes = device_aligned(bytes + buffer.type.bytes());
  }
}

CudaProgram::CudaProgram(codegen::Program program, CudaKernels& kernels, CudaLibraries& libraries,
                         const cuda::Stream& stream, std::int64_t gap)
    : program_(std::move(program)),
      what_(fmt::format("of '{}'", program_.name)),
      plan_(plan_memory(program_, gap)),
      launches_(make_cuda_launches(program_, load_kernels(program_, kernels), libraries, tables_, failure_)),
      arguments_(program_, BufferKind::argument),
      results_(program_, BufferKind::result),
      constants_(program_, BufferKind::constant),
      argument_memory_(arguments_.bytes, fmt::format("the inputs of '{}'", program_.name)),
      result_memory_(results_.bytes, fmt::format("the results of '{}'", program_.name)),
      constant_memory_(constants_.bytes, fmt::format("the constants of '{}'", program_.name)),
      workspace_offset_(device_aligned(plan_.arena_bytes)) {
  for (const auto& launch : launches_)
    workspace_bytes_ = std::max(workspace_bytes_, launch->workspace_bytes());
  // Clears padding between results, which is copied out with them. Clears inputs too: a library's first call
  // may read them before any arrive.
  stream.fill(argument_memory_.address(), 0, argument_memory_.bytes(), what_);
  stream.fill(result_memory_.address(), 0, result_memory_.bytes(), what_);
  for (std::size_t i = 0; i < constants_.buffers.size(); ++i) {
    const HostTensor value = constant_value(*constants_.buffers[i]);
    stream.copy_in(constant_memory_.address() + static_cast<Address>(constants_.offsets[i]),
                   value.bytes().data(), constants_.buffers[i]->type.bytes(),
                   fmt::format("for the constants {}", what_));
    stream.synchronise(fmt::format("for the constants {}", what_));
  }
}

std::vector<Address> CudaProgram::addresses(const SharedMemory& shared) const {
  struct Places {
    const CudaProgram& program;
    const SharedMemory& shared;

    static Address at(Address base, std::int64_t offset) { return base + static_cast<Address>(offset); }
    Address argument(std::size_t i) const {
      return at(program.argument_memory_.address(), program.arguments_.offsets[i]);
    }
    Address result(std::size_t i) const {
      return at(program.result_memory_.address(), program.results_.offsets[i]);
    }
    Address constant(std::size_t i) const {
      return at(program.constant_memory_.address(), program.constants_.offsets[i]);
    }
    Address state(const std::string& name) const { return shared.state(name); }
    Address temporary(std::int64_t offset) const { return at(shared.arena, offset); }
  };
  return places_of<Address>(program_, plan_, Places{*this, shared});
}

void CudaProgram::prepare(const SharedMemory& shared, const cuda::Stream& stream) {
  const std::vector<Address> buffers = addresses(shared);
  tables_.fill(buffers, stream, what_);
  if (warm_) return;
  for (const auto& launch : launches_) {
    if (launch->is_library_call()) launch->enqueue(buffers, workspace(shared), stream);
  }
  warm_ = true;
}

void CudaProgram::enqueue(const SharedMemory& shared, const cuda::Stream& stream) const {
  const std::vector<Address> buffers = addresses(shared);
  for (const auto& launch : launches_) launch->enqueue(buffers, workspace(shared), stream);
}

void CudaProgram::capture(const SharedMemory& shared, const cuda::Stream& stream) {
  prepare(shared, stream);
  graph_ = cuda::Graph(stream, what_, [&] { enqueue(shared, stream); });
}

void CudaProgram::time_launches(const SharedMemory& shared, const cuda::Stream& stream,
                                std::vector<double>& best) const {
  const std::vector<Address> buffers = addresses(shared);
  std::vector<cuda::Event> events;
  for (std::size_t i = 0; i <= launches_.size(); ++i) events.emplace_back(true);
  events[0].record(stream);
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    launches_[i]->enqueue(buffers, workspace(shared), stream);
    events[i + 1].record(stream);
  }
  stream.synchronise(fmt::format("after the launches {}", what_));
  for (std::size_t i = 0; i < launches_.size(); ++i)
    best[i] = std::min(best[i], events[i + 1].seconds_since(events[i]));
}

}  // namespace rewire::runtime
