// cuBLASLt's functions, types and numbers are declared here from its documentation; see cublas_lt.h.
#include "codegen/library/cublas_lt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "codegen/cuda/shared_library.h"
#include "ir/error.h"

namespace rewire::codegen {
namespace {

using ir::DType;
using Handle = void*;
using Description = void*;  // cublasLtMatmulDesc_t
using Layout = void*;       // cublasLtMatrixLayout_t
using Preference = void*;   // cublasLtMatmulPreference_t
using Status = int;         // cublasStatus_t; 0: success

struct Algorithm {
  std::array<std::uint64_t, 8> opaque;
};
/// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace;
  Status state;
  float waves;
  std::array<int, 4> reserved;
};

enum DataType : std::int32_t { kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 14 };            // cudaDataType
enum Compute : std::int32_t { kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77 };  // cublasComputeType_t
enum LayoutAttribute : std::int32_t { kBatchCount = 5, kBatchStride = 6 };            // int32, int64
enum DescriptionAttribute : std::int32_t { kTransposeA = 3, kTransposeB, kEpilogue = 7, kBiasPointer };
enum Transpose : std::int32_t { kPlain = 0, kTransposed = 1 };
enum Epilogue : std::uint32_t { kNoEpilogue = 1, kBias = 4 };
enum PreferenceAttribute : std::int32_t { kWorkspace = 1, kReductionSchemes = 3, kAlignmentA = 5 };
enum ReductionScheme : std::uint32_t { kInComputeType = 2 };
enum ConfigAttribute : std::int32_t {
  kId = 0,
  kTile = 1,
  kSplit = 2,
  kSwizzle = 4,
  kOption = 5,
  kStages = 6
};

constexpr std::int64_t kBufferAlignment = 64, kBiasAlignment = 16;  // bytes

struct Functions {
  cuda::SharedLibrary file{{"cuBLASLt (libcublasLt.so, part of the CUDA toolkit 12 or newer)",
                            "REWIRE_CUBLASLT",
                            {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}}};

  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  std::size_t (*version)();
  const char* (*status_name)(Status);
  const char* (*status_text)(Status);
  Status (*create_description)(Description*, std::int32_t compute, std::int32_t scale);
  Status (*destroy_description)(Description);
  Status (*set_description)(Description, std::int32_t, const void*, std::size_t);
  Status (*create_layout)(Layout*, std::int32_t type, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t leading);
  Status (*destroy_layout)(Layout);
  Status (*set_layout)(Layout, std::int32_t, const void*, std::size_t);
  Status (*create_preference)(Preference*);
  Status (*destroy_preference)(Preference);
  Status (*set_preference)(Preference, std::int32_t, const void*, std::size_t);
  Status (*heuristic)(Handle, Description, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,
                      void* results, int* found);
  Status (*config)(const void* algorithm, std::int32_t, void*, std::size_t, std::size_t* written);
  Status (*multiply)(Handle, Description, const void* alpha, const void* a, Layout, const void* b, Layout,
                     const void* beta, const void* c, Layout, void* d, Layout, const void* algorithm,
                     void* workspace, std::size_t, void* stream);

  Functions() {
    file.find(create, "cublasLtCreate");
    file.find(destroy, "cublasLtDestroy");
    file.find(version, "cublasLtGetVersion");
    file.find(status_name, "cublasLtGetStatusName");
    file.find(status_text, "cublasLtGetStatusString");
    file.find(create_description, "cublasLtMatmulDescCreate");
    file.find(destroy_description, "cublasLtMatmulDescDestroy");
    file.find(set_description, "cublasLtMatmulDescSetAttribute");
    file.find(create_layout, "cublasLtMatrixLayoutCreate");
    file.find(destroy_layout, "cublasLtMatrixLayoutDestroy");
    file.find(set_layout, "cublasLtMatrixLayoutSetAttribute");
    file.find(create_preference, "cublasLtMatmulPreferenceCreate");
    file.find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
    file.find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    file.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    file.find(config, "cublasLtMatmulAlgoConfigGetAttribute");
    file.find(multiply, "cublasLtMatmul");
  }
};

const Functions& any_functions() {
  static const Functions functions;
  return functions;
}

const Functions& usable_functions() {
  const Functions& functions = any_functions();
  functions.file.require();
  return functions;
}

void check(Status status, const char* call, const std::string& what) {
  if (status == 0) return;
  const Functions& functions = any_functions();
  throw RuntimeFailure(fmt::format("{} for {}: {} ({})", call, what, functions.status_name(status),
                                   functions.status_text(status)));
}

DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return kF64;
    case DType::f32:
      return kF32;
    case DType::bf16:
      return kBf16;
    case DType::f16:
      return kF16;
    default:
      internal_error("no matrices of {} on a device", ir::dtype_name(dtype));
  }
}

/// A matrix of ours as one of cuBLASLt's: its rows and columns, and whether it must be read transposed.
struct ColumnMajor {
  std::int64_t rows, columns, leading;
  Transpose transpose;
};

/// Ours is [rows, columns]. Along an axis of extent 1 any stride is right.
ColumnMajor column_major(const DeviceGemmShape::Matrix& matrix, std::int64_t rows, std::int64_t columns,
                         const std::string& what) {
  if (matrix.column == 1 || columns == 1) {
    const std::int64_t leading = rows == 1 ? columns : matrix.row;
    if (leading >= columns) return {columns, rows, leading, kPlain};
  }
  if (matrix.row == 1 || rows == 1) {
    const std::int64_t leading = columns == 1 ? rows : matrix.column;
    if (leading >= rows) return {rows, columns, leading, kTransposed};
  }
  internal_error("{}: a matrix of {}x{} with strides {} and {} is none of cuBLASLt's", what, rows, columns,
                 matrix.row, matrix.column);
}

class LayoutObject {
 public:
  LayoutObject(DataType type, const ColumnMajor& matrix, std::int64_t batch, std::int64_t batch_stride,
               const std::string& what) {
    const Functions& lt = usable_functions();
    check(lt.create_layout(&layout_, type, static_cast<std::uint64_t>(matrix.rows),
                           static_cast<std::uint64_t>(matrix.columns), matrix.leading),
          "cublasLtMatrixLayoutCreate", what);
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    set(kBatchCount, count, what);
    set(kBatchStride, batch_stride, what);
  }
  ~LayoutObject() { any_functions().destroy_layout(layout_); }
  LayoutObject(const LayoutObject&) = delete;
  LayoutObject& operator=(const LayoutObject&) = delete;
  Layout get() const { return layout_; }

 private:
  template <class Value>
  void set(LayoutAttribute attribute, Value value, const std::string& what) {
    const Status status = any_functions().set_layout(layout_, attribute, &value, sizeof(value));
    if (status == 0) return;
    any_functions().destroy_layout(layout_);
    check(status, "cublasLtMatrixLayoutSetAttribute", what);
  }

  Layout layout_ = nullptr;
};

/// A descriptor that its own function destroys.
struct Destroy {
  Status (*function)(void*);
  void operator()(void* object) const { function(object); }
};
using Owned = std::unique_ptr<void, Destroy>;

template <class Value>
void set(Status (*function)(void*, std::int32_t, const void*, std::size_t), const Owned& object,
         std::int32_t attribute, Value value, const char* call, const std::string& what) {
  check(function(object.get(), attribute, &value, sizeof(value)), call, what);
}

std::string describe(const Algorithm& algorithm) {
  const auto read = [&](ConfigAttribute attribute) {
    std::int32_t value = 0;
    std::size_t written = 0;
    const Status status = any_functions().config(&algorithm, attribute, &value, sizeof(value), &written);
    return status == 0 ? value : -1;
  };
  return fmt::format("algorithm {}, tile {}, stages {}, split {}, swizzle {}, option {}", read(kId),
                     read(kTile), read(kStages), read(kSplit), read(kSwizzle), read(kOption));
}

/// The largest power of two, at most a buffer's, that divides the byte offsets of every matrix of a view.
std::int64_t alignment_of(const View& view, std::int64_t element) {
  std::int64_t bits = kBufferAlignment | (view.offset * element);
  for (std::size_t d = 0; d + 2 < view.shape.size(); ++d) {
    if (view.shape[d] > 1) bits |= view.strides[d] * element;
  }
  return bits & -bits;
}

/// Elements from the view's offset to index `outer` of its axes before the last three, counted in `shape`.
std::int64_t outer_offset(const View& view, const ir::Shape& shape, std::int64_t outer) {
  std::int64_t elements = 0;
  for (std::size_t d = shape.size() > 3 ? shape.size() - 3 : 0; d-- > 0; outer /= shape[d])
    elements += outer % shape[d] * view.strides[d];
  return elements;
}

}  // namespace

std::string short_name(const DeviceGemmShape& shape) {
  return fmt::format("gemm {}{}x{}x{}{}{}", shape.batch == 1 ? "" : fmt::format("{}x", shape.batch), shape.m,
                     shape.n, shape.k, shape.bias ? " + bias" : "", shape.accumulate ? " + c" : "");
}

std::vector<DeviceGemmCall> device_gemm_calls(const Program& program, const GemmLaunch& launch, bool tf32) {
  const auto type = [&](const View& view) {
    return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
  };
  const auto bytes = [&](const View& view) { return static_cast<std::int64_t>(ir::dtype_bytes(type(view))); };
  const ir::Shape& shape = launch.c.shape;
  const std::size_t rank = shape.size();
  const auto matrix = [&](const View& view) {
    return DeviceGemmShape::Matrix{rank > 2 ? view.strides[rank - 3] : 0, view.strides[rank - 2],
                                   view.strides[rank - 1], alignment_of(view, bytes(view))};
  };
  DeviceGemmCall call;
  call.shape = {.batch = rank > 2 ? shape[rank - 3] : 1,
                .m = shape[rank - 2],
                .n = shape[rank - 1],
                .k = launch.a.shape.back(),
                .a = matrix(launch.a),
                .b = matrix(launch.b),
                .c = matrix(launch.c),
                .dtype = type(launch.a),
                .result = type(launch.c),
                .tf32 = tf32 && type(launch.a) == DType::f32,
                .bias = launch.bias.buffer >= 0,
                .accumulate = launch.accumulate};
  if (call.shape.bias) call.bias = launch.bias.offset * bytes(launch.bias);
  const std::int64_t product = call.shape.batch * call.shape.m * call.shape.n;
  std::vector<DeviceGemmCall> calls;
  for (std::int64_t outer = 0; outer * product < ir::element_count(shape); ++outer) {
    call.a = (launch.a.offset + outer_offset(launch.a, shape, outer)) * bytes(launch.a);
    call.b = (launch.b.offset + outer_offset(launch.b, shape, outer)) * bytes(launch.b);
    call.c = (launch.c.offset + outer_offset(launch.c, shape, outer)) * bytes(launch.c);
    calls.push_back(call);
  }
  return calls;
}

std::optional<std::string> cublas_lt_missing() {
  return any_functions().file.missing();
}

CublasLt::CublasLt() {
  check(usable_functions().create(&handle_), "cublasLtCreate", "a handle");
}

CublasLt::~CublasLt() {
  any_functions().destroy(handle_);
}

std::string CublasLt::version() {
  const std::size_t version = usable_functions().version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

struct DeviceGemm::Impl {
  Impl(const CublasLt& library, const DeviceGemmShape& gemm, std::int64_t workspace_limit, int wanted);
  Owned make_description() const;
  LayoutObject layout(const DeviceGemmShape::Matrix& matrix, std::int64_t rows, std::int64_t columns,
                      DType dtype) const {
    return {data_type(dtype), column_major(matrix, rows, columns, name), shape.batch, matrix.batch, name};
  }
  Owned make_preference(std::int64_t workspace_limit) const;

  Handle handle;
  DeviceGemmShape shape;
  std::string name;
  Owned description;
  LayoutObject a, b, c;  // ours: cuBLASLt's second and first operand, and its result
  std::vector<HeuristicResult> candidates;
  std::vector<std::string> names;
  std::size_t chosen = 0;
};

DeviceGemm::Impl::Impl(const CublasLt& library, const DeviceGemmShape& gemm, std::int64_t workspace_limit,
                       int wanted)
    : handle(library.handle_),
      shape(gemm),
      name(short_name(gemm)),
      description(make_description()),
      a(layout(shape.a, shape.m, shape.k, shape.dtype)),
      b(layout(shape.b, shape.k, shape.n, shape.dtype)),
      c(layout(shape.c, shape.m, shape.n, shape.result)) {
  const Functions& lt = usable_functions();
  if (column_major(shape.c, shape.m, shape.n, name).transpose != kPlain)
    internal_error("{}: the result's rows are not contiguous", name);
  const Owned preference = make_preference(workspace_limit);
  candidates.resize(static_cast<std::size_t>(std::max(wanted, 1)));
  int found = 0;
  check(lt.heuristic(handle, description.get(), b.get(), a.get(), c.get(), c.get(), preference.get(),
                     static_cast<int>(candidates.size()), candidates.data(), &found),
        "cublasLtMatmulAlgoGetHeuristic", name);
  candidates.resize(static_cast<std::size_t>(found));
  std::erase_if(candidates, [](const HeuristicResult& result) { return result.state != 0; });
  if (candidates.empty())
    throw RuntimeFailure(fmt::format("cublasLtMatmulAlgoGetHeuristic for {} knows no algorithm", name));
  for (const HeuristicResult& result : candidates) names.push_back(describe(result.algorithm));
}

Owned DeviceGemm::Impl::make_description() const {
  const Functions& lt = usable_functions();
  const bool wide = shape.dtype == DType::f64;
  const Compute compute = wide ? kCompute64 : shape.tf32 ? kComputeTf32 : kCompute32;
  Description made = nullptr;
  check(lt.create_description(&made, compute, wide ? kF64 : kF32), "cublasLtMatmulDescCreate", name);
  Owned owned(made, {lt.destroy_description});
  const auto put = [&](DescriptionAttribute attribute, auto value) {
    set(lt.set_description, owned, attribute, value, "cublasLtMatmulDescSetAttribute", name);
  };
  put(kTransposeA, column_major(shape.b, shape.k, shape.n, name).transpose);
  put(kTransposeB, column_major(shape.a, shape.m, shape.k, name).transpose);
  put(kEpilogue, shape.bias ? kBias : kNoEpilogue);
  // Only looked at for its alignment until a product runs.
  if (shape.bias) put(kBiasPointer, reinterpret_cast<const void*>(kBiasAlignment));
  return owned;
}

Owned DeviceGemm::Impl::make_preference(std::int64_t workspace_limit) const {
  const Functions& lt = usable_functions();
  Preference made = nullptr;
  check(lt.create_preference(&made), "cublasLtMatmulPreferenceCreate", name);
  Owned owned(made, {lt.destroy_preference});
  const auto put = [&](std::int32_t attribute, auto value) {
    set(lt.set_preference, owned, attribute, value, "cublasLtMatmulPreferenceSetAttribute", name);
  };
  put(kWorkspace, static_cast<std::uint64_t>(workspace_limit));
  put(kReductionSchemes, kInComputeType);
  const std::array<std::int64_t, 4> alignments = {shape.b.alignment, shape.a.alignment, shape.c.alignment,
                                                  shape.c.alignment};
  for (std::size_t i = 0; i < alignments.size(); ++i)
    put(kAlignmentA + static_cast<std::int32_t>(i), static_cast<std::uint32_t>(alignments[i]));
  return owned;
}

DeviceGemm::DeviceGemm(const CublasLt& library, const DeviceGemmShape& shape, std::int64_t workspace_limit,
                       int algorithms)
    : impl_(std::make_unique<Impl>(library, shape, workspace_limit, algorithms)) {}
DeviceGemm::~DeviceGemm() = default;
DeviceGemm::DeviceGemm(DeviceGemm&&) noexcept = default;
DeviceGemm& DeviceGemm::operator=(DeviceGemm&&) noexcept = default;

const std::vector<std::string>& DeviceGemm::algorithms() const {
  return impl_->names;
}

void DeviceGemm::choose(int algorithm) {
  if (algorithm < 0 || static_cast<std::size_t>(algorithm) >= impl_->candidates.size())
    internal_error("{} has {} algorithms, not {}", impl_->name, impl_->candidates.size(), algorithm + 1);
  impl_->chosen = static_cast<std::size_t>(algorithm);
}

std::int64_t DeviceGemm::workspace_bytes() const {
  return static_cast<std::int64_t>(impl_->candidates[impl_->chosen].workspace);
}

void DeviceGemm::run(const void* a, const void* b, void* c, const void* bias, void* workspace,
                     void* stream) const {
  const Functions& lt = usable_functions();
  const HeuristicResult& algorithm = impl_->candidates[impl_->chosen];
  if (impl_->shape.bias)
    set(lt.set_description, impl_->description, kBiasPointer, bias, "cublasLtMatmulDescSetAttribute",
        impl_->name);
  const bool wide = impl_->shape.dtype == DType::f64;
  const double one = 1, beta = impl_->shape.accumulate ? 1 : 0;
  const float one_f32 = 1, beta_f32 = static_cast<float>(beta);
  const auto scalar = [&](const double& f64, const float& f32) {
    return wide ? static_cast<const void*>(&f64) : &f32;
  };
  check(lt.multiply(impl_->handle, impl_->description.get(), scalar(one, one_f32), b, impl_->b.get(), a,
                    impl_->a.get(), scalar(beta, beta_f32), c, impl_->c.get(), c, impl_->c.get(),
                    &algorithm.algorithm, workspace, algorithm.workspace, stream),
        "cublasLtMatmul", impl_->name);
}

}  // namespace rewire::codegen
