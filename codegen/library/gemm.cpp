// GEMM by oneDNN on the calling thread; see gemm.h. oneDNN 2 takes an op descriptor, oneDNN 3 takes its
// arguments at once. Only make_descriptor differs.
#include "codegen/library/gemm.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codegen/library/onednn.h"
#include "codegen/library/vector_clones.h"
#include "codegen/library_call.h"
#include "ir/error.h"

namespace rewire::codegen {
namespace {

using dnnl::memory;

memory::data_type dnnl_type(ir::DType dtype) {
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
  dnnl::primitive_attr attributes = user_scratch();
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

/// Makes oneDNN compile its sgemm. It makes all kernels of it (24 MB, 25 ms) at the first product that uses
/// them. Here no other thread computes, so none takes the memory that was found free.
void make_sgemm_kernels() {
  static const bool made = [] {
    const LibraryCall call(kGemmHeadroom);
    constexpr dnnl_dim_t kExtent = 16;
    const std::vector<float> a(kExtent * kExtent), b(kExtent * kExtent);
    std::vector<float> c(kExtent * kExtent);
    const auto status = dnnl::sgemm('N', 'N', kExtent, kExtent, kExtent, 1.0F, a.data(), kExtent, b.data(),
                                    kExtent, 0.0F, c.data(), kExtent);
    if (status == dnnl::status::out_of_memory) throw std::bad_alloc();
    return true;
  }();
  static_cast<void>(made);
}

constexpr std::size_t kCacheLine = 64;

REWIRE_VECTOR_CLONES
void widen_run(const std::uint16_t* __restrict from, std::int64_t count, float* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
}

// Rounds f32 to bf16, to nearest even; a NaN stays a NaN.
REWIRE_VECTOR_CLONES
void narrow_run(const float* __restrict from, std::int64_t count, std::uint16_t* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
    const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    to[i] = static_cast<std::uint16_t>((is_nan ? bits | 0x400000 : rounded) >> 16);
  }
}

bool covers(dnnl::cpu_isa isa, dnnl::cpu_isa least) {  // an instruction set is a set of bits
  return (static_cast<unsigned>(isa) & static_cast<unsigned>(least)) == static_cast<unsigned>(least);
}

}  // namespace

bool has_fast_bf16() {
  static const bool fast = [] {
    limit_instructions();
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
    return covers(isa, dnnl::cpu_isa::avx512_core_amx) ||
           (covers(isa, dnnl::cpu_isa::avx512_core_bf16) && __builtin_cpu_is("amd"));
  }();
  return fast;
}

// A dense copy of a matrix in another type. The dimension with unit stride stays the same.
struct Gemm::Copy {
  std::int64_t lines = 0, length = 0, stride = 0;  // of the original: runs of unit stride
  std::size_t offset = 0;                          // in scratch, bytes
  bool by_columns = false;

  Copy(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column, std::size_t at)
      : lines(rows), length(columns), stride(row), offset(at), by_columns(column != 1) {
    if (by_columns) lines = columns, length = rows, stride = column;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(lines * length) * sizeof(float); }
  std::size_t end() const { return (offset + bytes() + kCacheLine - 1) / kCacheLine * kCacheLine; }
  float* in(void* scratch) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + offset);
  }
  memory::desc desc() const {
    return by_columns ? matrix(length, lines, 1, length, memory::data_type::f32)
                      : matrix(lines, length, length, 1, memory::data_type::f32);
  }
  float* widen(const void* from, void* scratch) const {
    for (std::int64_t i = 0; i < lines; ++i) {
      widen_run(static_cast<const std::uint16_t*>(from) + i * stride, length, in(scratch) + i * length);
    }
    return in(scratch);
  }
  void narrow(void* to, void* scratch) const {
    for (std::int64_t i = 0; i < lines; ++i) {
      narrow_run(in(scratch) + i * length, length, static_cast<std::uint16_t*>(to) + i * stride);
    }
  }
};

// A contiguous copy of the only row of an a, or the only column of a c, whose elements do not lie side by
// side. oneDNN 3.7 (Debian 13) computes such a product wrongly: it walks them with a stride of 1, and so
// writes a column of c over its neighbours.
struct Gemm::Line {
  std::int64_t count = 0, stride = 0;
  std::size_t element = 0, offset = 0;  // bytes; where in scratch

  std::size_t end() const {
    return (offset + static_cast<std::size_t>(count) * element + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  const void* gather(const void* from, void* scratch) const {
    std::byte* const to = static_cast<std::byte*>(scratch) + offset;
    const std::size_t step = static_cast<std::size_t>(stride) * element;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      std::memcpy(to + i * element, static_cast<const std::byte*>(from) + i * step, element);
    return to;
  }
  void* in(void* scratch) const { return static_cast<std::byte*>(scratch) + offset; }
  void scatter(void* to, void* scratch) const {
    const std::byte* const from = static_cast<const std::byte*>(in(scratch));
    const std::size_t step = static_cast<std::size_t>(stride) * element;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * step, from + i * element, element);
  }
};

struct Gemm::Impl {
  memory::desc a, b, bias, c, scratch;
  dnnl::matmul primitive;
  // The f32 copies, if bf16 is multiplied as f32.
  std::optional<Copy> wide_a, wide_b, wide_bias, wide_c;
  std::optional<Line> row_a, column_c;
  std::size_t scratch_bytes = 0;
  bool accumulate = false;

  std::size_t add_copy(std::optional<Copy>& copy, memory::desc& desc, std::int64_t rows, std::int64_t columns,
                       std::int64_t row, std::int64_t column) {
    copy.emplace(rows, columns, row, column, scratch_bytes);
    desc = copy->desc();
    return scratch_bytes = copy->end();
  }
};

Gemm::Gemm(const GemmShape& shape, bool native_bf16) : impl_(std::make_unique<Impl>()) {
  use_one_thread();
  Impl& impl = *impl_;
  impl.accumulate = shape.accumulate;
  const memory::data_type type = dnnl_type(shape.dtype), c_type = dnnl_type(shape.c_dtype);
  impl.a = matrix(shape.m, shape.k, shape.a_row, shape.a_column, type);
  impl.b = matrix(shape.k, shape.n, shape.b_row, shape.b_column, type);
  impl.c = matrix(shape.m, shape.n, shape.c_row, 1, c_type);
  if (shape.bias) impl.bias = matrix(1, shape.n, shape.n, 1, dnnl_type(shape.bias_dtype));
  if (shape.dtype == ir::DType::bf16 && !native_bf16) {
    impl.add_copy(impl.wide_a, impl.a, shape.m, shape.k, shape.a_row, shape.a_column);
    impl.add_copy(impl.wide_b, impl.b, shape.k, shape.n, shape.b_row, shape.b_column);
    if (shape.c_dtype == ir::DType::bf16)
      impl.add_copy(impl.wide_c, impl.c, shape.m, shape.n, shape.c_row, 1);
    if (shape.bias && shape.bias_dtype == ir::DType::bf16)
      impl.add_copy(impl.wide_bias, impl.bias, 1, shape.n, shape.n, 1);
  }
  if (shape.m == 1 && shape.k > 1 && shape.a_column != 1 && !impl.wide_a) {
    impl.row_a = Line{shape.k, shape.a_column, ir::dtype_bytes(shape.dtype), impl.scratch_bytes};
    impl.a = matrix(1, shape.k, shape.k, 1, type);
    impl.scratch_bytes = impl.row_a->end();
  }
  if (shape.n == 1 && shape.m > 1 && shape.c_row != 1 && !impl.wide_c) {
    impl.column_c = Line{shape.m, shape.c_row, ir::dtype_bytes(shape.c_dtype), impl.scratch_bytes};
    impl.c = matrix(shape.m, 1, 1, 1, c_type);
    impl.scratch_bytes = impl.column_c->end();
  }
  const LibraryCall call(kGemmHeadroom);
  try {
    const auto descriptor = make_descriptor(shape, impl.a, impl.b, impl.bias, impl.c);
    impl.scratch = descriptor.scratchpad_desc();
    impl.primitive = dnnl::matmul(descriptor);
    if (std::string_view(descriptor.impl_info_str()).starts_with("gemm")) make_sgemm_kernels();
  } catch (const dnnl::error& error) {
    fail_of_onednn(error, fmt::format("has no matmul for {} x {} x {} of {}", shape.m, shape.k, shape.n,
                                      ir::dtype_name(shape.dtype)));
  }
}

Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

std::int64_t Gemm::scratch_bytes() const {
  return static_cast<std::int64_t>(impl_->scratch_bytes + impl_->scratch.get_size());
}

void Gemm::run(const void* a, const void* b, void* c, const void* bias, void* scratch) const {
  use_one_thread();
  const Impl& impl = *impl_;
  if (impl.wide_a) a = impl.wide_a->widen(a, scratch);
  if (impl.row_a) a = impl.row_a->gather(a, scratch);
  if (impl.wide_b) b = impl.wide_b->widen(b, scratch);
  if (impl.wide_bias) bias = impl.wide_bias->widen(bias, scratch);
  if (impl.wide_c && impl.accumulate) impl.wide_c->widen(c, scratch);
  if (impl.column_c && impl.accumulate) impl.column_c->gather(c, scratch);
  void* const result = impl.wide_c     ? impl.wide_c->in(scratch)
                       : impl.column_c ? impl.column_c->in(scratch)
                                       : c;
  std::byte* const own = static_cast<std::byte*>(scratch) + impl.scratch_bytes;
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, wrap(impl.a, a)},
                                               {DNNL_ARG_WEIGHTS, wrap(impl.b, b)},
                                               {DNNL_ARG_DST, wrap(impl.c, result)},
                                               {DNNL_ARG_SCRATCHPAD, wrap(impl.scratch, own)}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, wrap(impl.bias, bias));
  try {
    impl.primitive.execute(cpu_stream(), arguments);
    cpu_stream().wait();
  } catch (const dnnl::error& error) {
    fail_of_onednn(error, "cannot multiply");
  }
  if (impl.wide_c) impl.wide_c->narrow(c, scratch);
  if (impl.column_c) impl.column_c->scatter(c, scratch);
}

}  // namespace rewire::codegen
