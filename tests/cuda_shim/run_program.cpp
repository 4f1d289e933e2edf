// Buffers into device memory, launches in order, results out.
#include "tests/cuda_shim/run_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/ops/op_info.h"
#include "ir/passes/pass.h"
#include "runtime/exec/buffers.h"

namespace rewire::cuda_shim {
namespace {

using codegen::Buffer;
using codegen::BufferKind;
using codegen::GemmLaunch;
using codegen::OpCall;
using codegen::Program;
using codegen::View;
using runtime::HostTensor;
using runtime::TensorMap;

/// The device memory of a program's buffers for one run.
class Memory {
 public:
  Memory(FakeDevice& device, const Program& program) : device_(device), program_(program) {
    for (const Buffer& buffer : program.buffers)
      addresses_.push_back(device.allocate(buffer.name, buffer.type.bytes()));
  }
  ~Memory() {
    for (void* address : addresses_) device_.free(address);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* address(std::int32_t buffer) const { return addresses_[static_cast<std::size_t>(buffer)]; }
  ir::DType dtype(std::int32_t buffer) const {
    return program_.buffers[static_cast<std::size_t>(buffer)].type.dtype;
  }
  void* address(const View& view) const {
    const auto size = static_cast<std::int64_t>(ir::dtype_bytes(dtype(view.buffer)));
    return static_cast<std::byte*>(address(view.buffer)) + view.offset * size;
  }

  void write(std::size_t buffer, const HostTensor& value) {
    device_.copy_in(addresses_[buffer], value.bytes());
  }
  HostTensor read(std::size_t buffer) const {
    HostTensor value(program_.buffers[buffer].type);
    device_.copy_out(value.bytes(), addresses_[buffer]);
    return value;
  }

  /// A view as a dense tensor, and back.
  ir::Tensor gather(const View& view) const {
    const HostTensor whole = read(static_cast<std::size_t>(view.buffer));
    HostTensor dense({dtype(view.buffer), view.shape});
    each(view, [&](std::size_t from, std::size_t to, std::size_t size) {
      std::copy_n(whole.bytes().data() + from, size, dense.bytes().data() + to);
    });
    return runtime::to_double(dense);
  }
  void scatter(const View& view, const ir::Tensor& tensor) {
    HostTensor whole = read(static_cast<std::size_t>(view.buffer));
    const HostTensor dense = runtime::to_host(tensor);
    each(view, [&](std::size_t to, std::size_t from, std::size_t size) {
      std::copy_n(dense.bytes().data() + from, size, whole.bytes().data() + to);
    });
    write(static_cast<std::size_t>(view.buffer), whole);
  }

 private:
  /// Calls visit(byte in the buffer, byte in the dense tensor, bytes of an element) for every element.
  template <class Visit>
  void each(const View& view, Visit visit) const {
    const std::size_t size = ir::dtype_bytes(dtype(view.buffer));
    for (std::int64_t i = 0; i < ir::element_count(view.shape); ++i) {
      std::int64_t rest = i, element = view.offset;
      for (std::size_t d = view.shape.size(); d-- > 0; rest /= view.shape[d])
        element += rest % view.shape[d] * view.strides[d];
      visit(static_cast<std::size_t>(element) * size, static_cast<std::size_t>(i) * size, size);
    }
  }

  FakeDevice& device_;
  const Program& program_;
  std::vector<void*> addresses_;
};

/// The matrices of a view: the innermost batch dimension as a stride, `outer` counts through the others of
/// the product's shape.
MatrixProduct::Matrix matrix(const Memory& memory, const View& view, const ir::Shape& shape,
                             std::int64_t outer) {
  const std::size_t rank = view.shape.size();
  std::int64_t elements = 0;
  for (std::size_t d = rank > 3 ? rank - 3 : 0; d-- > 0; outer /= shape[d])
    elements += outer % shape[d] * view.strides[d];
  const auto size = static_cast<std::int64_t>(ir::dtype_bytes(memory.dtype(view.buffer)));
  return {static_cast<std::byte*>(memory.address(view)) + elements * size,
          {rank > 2 ? view.strides[rank - 3] : 0, view.strides[rank - 2], view.strides[rank - 1]}};
}

void run_gemm(FakeDevice& device, const Memory& memory, const GemmLaunch& launch) {
  if (launch.epilogue != codegen::GemmEpilogue::none)
    internal_error("this device's products have no epilogue but a bias");
  const std::size_t rank = launch.c.shape.size();
  MatrixProduct product;
  product.batch = rank > 2 ? launch.c.shape[rank - 3] : 1;
  product.m = launch.c.shape[rank - 2];
  product.n = launch.c.shape[rank - 1];
  product.k = launch.a.shape.back();
  product.dtype = memory.dtype(launch.a.buffer);
  product.c_dtype = memory.dtype(launch.c.buffer);
  product.accumulate = launch.accumulate;
  if (launch.bias.buffer >= 0) {
    product.bias = memory.address(launch.bias);
    product.bias_dtype = memory.dtype(launch.bias.buffer);
    product.bias_stride = launch.bias.strides[0];
  }
  const std::int64_t products = ir::element_count(launch.c.shape) / (product.batch * product.m * product.n);
  for (std::int64_t outer = 0; outer < products; ++outer) {
    product.a = matrix(memory, launch.a, launch.c.shape, outer);
    product.b = matrix(memory, launch.b, launch.c.shape, outer);
    product.c = matrix(memory, launch.c, launch.c.shape, outer);
    device.multiply(product);
  }
}

void run_host(Memory& memory, const OpCall& launch) {
  std::vector<ir::Tensor> operands, results;
  for (const View& view : launch.operands) operands.push_back(memory.gather(view));
  for (const View& view : launch.results)
    results.emplace_back(ir::TensorType{memory.dtype(view.buffer), view.shape});
  ir::EvalState state;
  ir::EvalContext context{launch.op, {}, results, state};
  for (const ir::Tensor& operand : operands) context.operands.push_back(&operand);
  ir::op_info(launch.op.code).evaluate(context);
  for (std::size_t i = 0; i < results.size(); ++i) memory.scatter(launch.results[i], results[i]);
}

void run_kernel(FakeDevice& device, const Memory& memory, const codegen::KernelLaunch& launch,
                const std::string& symbol, const Grid& grid) {
  std::vector<void*> pointers;
  for (std::size_t member = 0; member < launch.members(); ++member) {
    for (std::int32_t buffer : launch.member_buffers(member)) pointers.push_back(memory.address(buffer));
  }
  if (!launch.is_table()) return device.launch(symbol, grid, pointers);
  void* const table = device.allocate("the table of " + launch.kernel.name,
                                      static_cast<std::int64_t>(pointers.size() * sizeof(void*)));
  device.copy_in(table, std::as_bytes(std::span(pointers)));
  device.launch(symbol, grid, std::span(&table, 1));
  device.free(table);
}

Program lower(const ir::Module& module, std::string_view function, bool fuse,
              const codegen::cuda::DeviceTarget& target, const ir::LeftOut& left_out) {
  ir::PassContext context;
  context.left_out = left_out;
  return codegen::compile(module, module.function(function), codegen::cuda::machine(target, {fuse}), context)
      .program;
}

bool read_only(BufferKind kind) {
  return kind == BufferKind::argument || kind == BufferKind::constant;
}

}  // namespace

DeviceProgram::DeviceProgram(const ir::Module& module, std::string_view function, bool fuse,
                             const codegen::cuda::DeviceTarget& target, const ir::LeftOut& left_out)
    : DeviceProgram(lower(module, function, fuse, target, left_out), target) {}

DeviceProgram::DeviceProgram(Program program, const codegen::cuda::DeviceTarget& target)
    : program_(std::move(program)) {
  std::set<std::string> known;
  for (const codegen::Launch& launch : program_.launches) {
    const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
    if (kernel == nullptr) continue;
    const std::string symbol = fmt::format("kernel_{:016x}", hash_text(codegen::cuda::text_key(*kernel)));
    codegen::cuda::KernelSource source = codegen::cuda::emit(*kernel, symbol, target);
    kernels_.push_back({symbol,
                        {source.launch.blocks, source.launch.threads, source.launch.shared_bytes,
                         static_cast<std::int64_t>(kernel->members())}});
    if (known.insert(symbol).second) texts_.push_back({symbol, std::move(source.text)});
  }
}

TensorMap DeviceProgram::run(FakeDevice& device, const HostCompiler& compiler, const TensorMap& inputs,
                             TensorMap& state) const {
  Memory memory(device, program_);
  std::map<std::size_t, HostTensor> kept;  // what nobody may write to
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& buffer = program_.buffers[i];
    if (buffer.kind == BufferKind::argument) kept.emplace(i, inputs.at(buffer.name).clone());
    if (buffer.kind == BufferKind::constant) kept.emplace(i, runtime::constant_value(buffer));
    if (buffer.kind == BufferKind::state) memory.write(i, state.at(buffer.name));
  }
  for (const auto& [buffer, value] : kept) memory.write(buffer, value);
  std::size_t next = 0;
  for (const codegen::Launch& launch : program_.launches) {
    if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
      run_gemm(device, memory, *gemm);
    } else if (const auto* host = std::get_if<OpCall>(&launch)) {
      run_host(memory, *host);
    } else {
      const auto& kernel = std::get<codegen::KernelLaunch>(launch);
      const BoundKernel& bound = kernels_[next++];
      device.add_kernel(compiler.kernel(bound.symbol));
      run_kernel(device, memory, kernel, bound.symbol, bound.grid);
    }
  }
  TensorMap results;
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& buffer = program_.buffers[i];
    if (buffer.kind == BufferKind::result) results.emplace(buffer.name, memory.read(i));
    if (buffer.kind == BufferKind::state) state.at(buffer.name) = memory.read(i);
    if (read_only(buffer.kind) && !std::ranges::equal(memory.read(i).bytes(), kept.at(i).bytes()))
      throw RuntimeFailure(fmt::format("program '{}' wrote to '{}'", program_.name, buffer.name));
  }
  return results;
}

}  // namespace rewire::cuda_shim
