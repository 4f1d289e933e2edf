// GEMM by oneDNN on the calling thread; see gemm.h. oneDNN 2 takes an op descriptor, oneDNN 3 takes its
// arguments at once: the one difference stands in make_descriptor.
#include "codegen/library/gemm.h"

#include <omp.h>

#include <dnnl.hpp>
#include <unordered_map>

#include "ir/error.h"

namespace rewire::codegen {
namespace {

using dnnl::memory;

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f32:
      return memory::data_type::f32;
    case ir::DType::bf16:
      return memory::data_type::bf16;
    default:
      internal_error("GEMM takes f32 and bf16, not {}", ir::dtype_name(dtype));
  }
}

memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    std::int64_t column_stride, memory::data_type type) {
  return memory::desc({rows, columns}, type, memory::dims{row_stride, column_stride});
}

dnnl::matmul::primitive_desc make_descriptor(const GemmShape& shape, const memory::desc& a,
                                             const memory::desc& b, const memory::desc& bias,
                                             const memory::desc& c) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0F);
    attributes.set_post_ops(post);
  }
#if DNNL_VERSION_MAJOR >= 3
  return shape.bias ? dnnl::matmul::primitive_desc(cpu_engine(), a, b, bias, c, attributes)
                    : dnnl::matmul::primitive_desc(cpu_engine(), a, b, c, attributes);
#else
  const dnnl::matmul::desc op = shape.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return {op, attributes, cpu_engine()};
#endif
}

// One thread a call: oneDNN asks OpenMP for its number of threads when it plans and when it runs.
void use_one_thread() {
  thread_local bool done = false;
  if (!done) omp_set_num_threads(1);
  done = true;
}

}  // namespace

struct Gemm::Impl {
  memory::desc a, b, bias, c, scratch;
  dnnl::matmul primitive;
};

Gemm::Gemm(const GemmShape& shape) : impl_(std::make_unique<Impl>()) {
  use_one_thread();
  const memory::data_type type = data_type(shape.dtype);
  impl_->a = matrix(shape.m, shape.k, shape.a_row, shape.a_column, type);
  impl_->b = matrix(shape.k, shape.n, shape.b_row, shape.b_column, type);
  impl_->c = matrix(shape.m, shape.n, shape.c_row, 1, type);
  if (shape.bias) impl_->bias = matrix(1, shape.n, shape.n, 1, type);
  try {
    const auto descriptor = make_descriptor(shape, impl_->a, impl_->b, impl_->bias, impl_->c);
    impl_->scratch = descriptor.scratchpad_desc();
    impl_->primitive = dnnl::matmul(descriptor);
  } catch (const dnnl::error& error) {
    internal_error("oneDNN has no matmul for {} x {} x {} of {}: {}", shape.m, shape.k, shape.n,
                   ir::dtype_name(shape.dtype), error.what());
  }
}

Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

std::int64_t Gemm::scratch_bytes() const {
  return static_cast<std::int64_t>(impl_->scratch.get_size());
}

void Gemm::run(const void* a, const void* b, void* c, const void* bias, void* scratch) const {
  use_one_thread();
  thread_local dnnl::stream stream(cpu_engine());
  const auto wrap = [](const memory::desc& desc, const void* data) {
    return memory(desc, cpu_engine(), const_cast<void*>(data));
  };
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, wrap(impl_->a, a)},
                                               {DNNL_ARG_WEIGHTS, wrap(impl_->b, b)},
                                               {DNNL_ARG_DST, wrap(impl_->c, c)},
                                               {DNNL_ARG_SCRATCHPAD, wrap(impl_->scratch, scratch)}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, wrap(impl_->bias, bias));
  impl_->primitive.execute(stream, arguments);
  stream.wait();
}

}  // namespace rewire::codegen
