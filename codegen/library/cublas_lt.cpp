#include "codegen/library/cublas_lt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "codegen/library/cublas_lt_functions.h"
#include "ir/error.h"

namespace rewire::codegen {
namespace {

using ir::DType;
using namespace cublas;

constexpr std::int64_t kBiasAlignment = 16;  // bytes; also for `pre`, the matrix beside the result
constexpr std::int64_t kAuxUnit = 8;         // elements; the leading dimension of `pre` is a multiple of it
constexpr std::int64_t kMoreWorkspace = 8;   // times as much, if no algorithm needs less

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
      internal_error("a device has no matrices of {}", ir::dtype_name(dtype));
  }
}

/// One of our matrices as cuBLASLt sees it: its rows, columns and leading dimension, and whether it must be
/// read transposed.
struct ColumnMajor {
  std::int64_t rows, columns, leading;
  Transpose transpose;
};

/// Converts our matrix [rows, columns]. Along an axis of extent 1 any stride is valid.
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
  internal_error("{}: cuBLASLt has no layout for a matrix of {}x{} with strides {} and {}", what, rows,
                 columns, matrix.row, matrix.column);
}

class LayoutObject {
 public:
  LayoutObject(DataType type, const ColumnMajor& matrix, std::int64_t batch, std::int64_t batch_stride,
               const std::string& what) {
    const Functions& lt = Library::usable();
    check(lt.create_layout(&layout_, type, static_cast<std::uint64_t>(matrix.rows),
                           static_cast<std::uint64_t>(matrix.columns), matrix.leading),
          "cublasLtMatrixLayoutCreate", what);
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    set(kBatchCount, count, what);
    set(kBatchStride, batch_stride, what);
  }
  ~LayoutObject() { Library::any().destroy_layout(layout_); }
  LayoutObject(const LayoutObject&) = delete;
  LayoutObject& operator=(const LayoutObject&) = delete;
  Layout get() const { return layout_; }

 private:
  template <class Value>
  void set(LayoutAttribute attribute, Value value, const std::string& what) {
    const Status status = Library::any().set_layout(layout_, attribute, &value, sizeof(value));
    if (status == 0) return;
    Library::any().destroy_layout(layout_);
    check(status, "cublasLtMatrixLayoutSetAttribute", what);
  }

  Layout layout_ = nullptr;
};

/// Destroys a descriptor with the function for its kind.
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

/// Returns why cuBLASLt's epilogues cannot be used for this product; "": they can.
std::string epilogue_misfit(const DeviceGemmShape& shape) {
  if (shape.epilogue == GemmEpilogue::none) return "";
  if (shape.dtype == DType::f64) return "GELU is for f32, bf16 and f16";
  if (shape.batch != 1) return "GELU is for one product at a time";
  if (shape.accumulate || !shape.bias) return "GELU needs a bias before it, and cannot accumulate";
  if (!shape.has_pre())
    return shape.epilogue == GemmEpilogue::gelu ? "" : "the gradient needs GELU's operand";
  if (shape.pre.column != 1 || shape.pre.row % kAuxUnit != 0 || shape.pre.row < shape.n)
    return fmt::format("rows of GELU's operand begin {} elements apart, not a multiple of {}", shape.pre.row,
                       kAuxUnit);
  if (shape.pre.alignment < kBiasAlignment)
    return fmt::format("GELU's operand is aligned to {} bytes, not {}", shape.pre.alignment, kBiasAlignment);
  return "";
}

Epilogue epilogue_of(const DeviceGemmShape& shape) {
  switch (shape.epilogue) {
    case GemmEpilogue::gelu:
      return shape.has_pre() ? kGeluAuxBias : kGeluBias;
    case GemmEpilogue::gelu_gradient:
      return kGeluGradientBias;
    case GemmEpilogue::none:
      break;
  }
  return shape.bias ? kBias : kNoEpilogue;
}

std::string describe(const Algorithm& algorithm) {
  const auto read = [&](ConfigAttribute attribute) {
    std::int32_t value = 0;
    std::size_t written = 0;
    const Status status = Library::any().config(&algorithm, attribute, &value, sizeof(value), &written);
    return status == 0 ? value : -1;
  };
  std::string text = fmt::format(
      "cuBLASLt {} algorithm {}, tile {}, stages {}, split {}, swizzle {}, option {}: ", CublasLt::version(),
      read(kId), read(kTile), read(kStages), read(kSplit), read(kSwizzle), read(kOption));
  for (std::size_t i = 0; i < algorithm.opaque.size(); ++i)
    text += fmt::format("{}{:x}", i == 0 ? "" : "-", algorithm.opaque[i]);
  return text;
}

/// Reads the words after the last ": "; nullopt if they are not eight hexadecimal numbers.
std::optional<Algorithm> read_algorithm(std::string_view text) {
  const std::size_t colon = text.rfind(": ");
  if (!text.starts_with("cuBLASLt ") || colon == std::string_view::npos) return std::nullopt;
  Algorithm algorithm;
  const char *at = text.data() + colon + 2, *end = text.data() + text.size();
  for (std::size_t i = 0; i < algorithm.opaque.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '-')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, algorithm.opaque[i], 16);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  return at == end ? std::optional(algorithm) : std::nullopt;
}

}  // namespace

std::optional<std::string> cublas_lt_missing() {
  return Library::any().file.missing();
}

CublasLt::CublasLt() {
  check(Library::usable().create(&handle_), "cublasLtCreate", "a handle");
}

CublasLt::~CublasLt() {
  Library::any().destroy(handle_);
}

std::string CublasLt::version() {
  const std::size_t version = Library::usable().version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

bool is_algorithm_text(std::string_view text) {
  return read_algorithm(text).has_value();
}

struct DeviceGemm::Impl {
  /// How cuBLASLt is asked for a product.
  struct Way {
    std::int64_t workspace;
    std::uint32_t schemes;
    bool one_by_one;
  };

  Impl(const CublasLt& library, const DeviceGemmShape& gemm, const Way& way);
  Owned make_description() const;
  LayoutObject layout(const DeviceGemmShape::Matrix& matrix, std::int64_t rows, std::int64_t columns,
                      DType dtype) const {
    return {data_type(dtype), column_major(matrix, rows, columns, name), calls == 1 ? shape.batch : 1,
            matrix.batch, name};
  }
  Owned make_preference(const Way& way) const;
  void find_candidates(const Way& way, int wanted);
  /// Returns the workspace that an algorithm needs; nullopt if cuBLASLt reports that it will not run.
  std::optional<std::size_t> workspace_of(const Algorithm& algorithm) const;

  Handle handle;
  DeviceGemmShape shape;
  std::string name;
  std::int64_t calls;
  Owned description;
  LayoutObject a, b, c;  // our a and b are cuBLASLt's second and first operand, c is its result
  std::vector<HeuristicResult> candidates;
  std::vector<std::string> names;
  std::string refusal;  // why there are no candidates
  std::size_t chosen = 0;
};

DeviceGemm::Impl::Impl(const CublasLt& library, const DeviceGemmShape& gemm, const Way& way)
    : handle(library.handle_),
      shape(gemm),
      name(full_name(gemm)),
      calls(way.one_by_one ? gemm.batch : 1),
      description(make_description()),
      a(layout(shape.a, shape.m, shape.k, shape.dtype)),
      b(layout(shape.b, shape.k, shape.n, shape.dtype)),
      c(layout(shape.c, shape.m, shape.n, shape.result)) {
  if (column_major(shape.c, shape.m, shape.n, name).transpose != kPlain)
    internal_error("{}: the result's rows are not contiguous", name);
}

void DeviceGemm::Impl::find_candidates(const Way& way, int wanted) {
  constexpr int kSpare = 4;  // some candidates may turn out not to run
  const Functions& lt = Library::usable();
  const Owned preference = make_preference(way);
  std::vector<HeuristicResult> results(static_cast<std::size_t>(std::max(wanted, kSpare)));
  int found = 0;
  const Status status =
      lt.heuristic(handle, description.get(), b.get(), a.get(), c.get(), c.get(), preference.get(),
                   static_cast<int>(results.size()), results.data(), &found);
  refusal = words(status);
  if (is_refusal(status)) return;
  check(status, "cublasLtMatmulAlgoGetHeuristic", name);
  results.resize(static_cast<std::size_t>(found));
  for (HeuristicResult& result : results) {
    if (static_cast<int>(candidates.size()) == std::max(wanted, 1)) break;
    if (result.state != 0) {
      refusal = words(result.state);
      continue;
    }
    const std::optional<std::size_t> workspace = workspace_of(result.algorithm);
    if (!workspace || static_cast<std::int64_t>(*workspace) > way.workspace) continue;
    result.workspace = *workspace;
    candidates.push_back(result);
    names.push_back(describe(result.algorithm));
  }
}

std::optional<std::size_t> DeviceGemm::Impl::workspace_of(const Algorithm& algorithm) const {
  HeuristicResult result{};
  const Status status = Library::usable().check_algorithm(handle, description.get(), b.get(), a.get(),
                                                          c.get(), c.get(), &algorithm, &result);
  if (is_refusal(status)) return std::nullopt;
  check(status, "cublasLtMatmulAlgoCheck", name);
  return result.state == 0 ? std::optional(result.workspace) : std::nullopt;
}

Owned DeviceGemm::Impl::make_description() const {
  const Functions& lt = Library::usable();
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
  put(kEpilogue, epilogue_of(shape));
  // Until a product runs, cuBLASLt uses only the alignment of these pointers.
  if (shape.bias) put(kBiasPointer, reinterpret_cast<const void*>(kBiasAlignment));
  if (shape.has_pre()) {
    put(kAuxLeading, shape.pre.row);
    put(kAuxPointer, reinterpret_cast<const void*>(kBiasAlignment));
  }
  return owned;
}

Owned DeviceGemm::Impl::make_preference(const Way& way) const {
  const Functions& lt = Library::usable();
  Preference made = nullptr;
  check(lt.create_preference(&made), "cublasLtMatmulPreferenceCreate", name);
  Owned owned(made, {lt.destroy_preference});
  const auto put = [&](std::int32_t attribute, auto value) {
    set(lt.set_preference, owned, attribute, value, "cublasLtMatmulPreferenceSetAttribute", name);
  };
  put(kWorkspace, static_cast<std::uint64_t>(way.workspace));
  put(kReductionSchemes, way.schemes);
  const std::array<std::int64_t, 4> alignments = {shape.b.alignment, shape.a.alignment, shape.c.alignment,
                                                  shape.c.alignment};
  for (std::size_t i = 0; i < alignments.size(); ++i)
    put(kAlignmentA + static_cast<std::int32_t>(i), static_cast<std::uint32_t>(alignments[i]));
  return owned;
}

DeviceGemm::DeviceGemm(const CublasLt& library, const DeviceGemmShape& shape, std::int64_t workspace_limit,
                       int algorithms) {
  if (const std::string misfit = epilogue_misfit(shape); !misfit.empty())
    throw UnsupportedProduct(fmt::format("{}: {}", full_name(shape), misfit));
  const std::uint32_t any_fixed_order = kInComputeType | kInOutputType;
  std::vector<Impl::Way> ways = {{workspace_limit, kInComputeType, false},
                                 {kMoreWorkspace * workspace_limit, any_fixed_order, false}};
  if (shape.batch > 1) {
    ways.push_back({workspace_limit, kInComputeType, true});
    ways.push_back({kMoreWorkspace * workspace_limit, any_fixed_order, true});
  }
  std::string refusal;
  for (const Impl::Way& way : ways) {
    impl_ = std::make_unique<Impl>(library, shape, way);
    impl_->find_candidates(way, algorithms);
    if (!impl_->candidates.empty()) return;
    if (refusal.empty()) refusal = impl_->refusal;
  }
  throw UnsupportedProduct(fmt::format(
      "cublasLtMatmulAlgoGetHeuristic for {}: {}, also with more workspace{}: cuBLASLt {} has no algorithm",
      impl_->name, refusal, shape.batch > 1 ? " and a call a product" : "", CublasLt::version()));
}
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

bool DeviceGemm::choose(std::string_view algorithm) {
  const auto known = std::ranges::find(impl_->names, algorithm);
  if (known != impl_->names.end()) {
    impl_->chosen = static_cast<std::size_t>(known - impl_->names.begin());
    return true;
  }
  const std::optional<Algorithm> given = read_algorithm(algorithm);
  if (!given || !algorithm.starts_with(fmt::format("cuBLASLt {} ", CublasLt::version()))) return false;
  const std::optional<std::size_t> workspace = impl_->workspace_of(*given);
  if (!workspace) return false;
  impl_->candidates.push_back({*given, *workspace, 0, 0, {}});
  impl_->names.emplace_back(algorithm);
  impl_->chosen = impl_->names.size() - 1;
  return true;
}

const std::string& DeviceGemm::chosen() const {
  return impl_->names[impl_->chosen];
}

std::int64_t DeviceGemm::workspace_bytes() const {
  return static_cast<std::int64_t>(impl_->candidates[impl_->chosen].workspace);
}

std::int64_t DeviceGemm::calls() const {
  return impl_->calls;
}

void DeviceGemm::run(const GemmMemory& memory, void* workspace, void* stream) const {
  const Functions& lt = Library::usable();
  const DeviceGemmShape& shape = impl_->shape;
  const HeuristicResult& algorithm = impl_->candidates[impl_->chosen];
  const auto point = [&](DescriptionAttribute attribute, const void* to) {
    set(lt.set_description, impl_->description, attribute, to, "cublasLtMatmulDescSetAttribute", impl_->name);
  };
  if (shape.bias) point(kBiasPointer, memory.bias);
  if (shape.has_pre()) point(kAuxPointer, memory.pre);
  const bool wide = shape.dtype == DType::f64;
  const double one = 1, beta = shape.accumulate ? 1 : 0;
  const float one_f32 = 1, beta_f32 = static_cast<float>(beta);
  const auto scalar = [&](const double& f64, const float& f32) {
    return wide ? static_cast<const void*>(&f64) : &f32;
  };
  for (std::int64_t call = 0; call < impl_->calls; ++call) {
    const auto at = [call](auto* matrix, std::int64_t stride, DType dtype) {
      using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(matrix)>>,
                                      const std::byte, std::byte>;
      return static_cast<Byte*>(matrix) + call * stride * static_cast<std::int64_t>(ir::dtype_bytes(dtype));
    };
    void* const result = at(memory.c, shape.c.batch, shape.result);
    check(lt.multiply(impl_->handle, impl_->description.get(), scalar(one, one_f32),
                      at(memory.b, shape.b.batch, shape.dtype), impl_->b.get(),
                      at(memory.a, shape.a.batch, shape.dtype), impl_->a.get(), scalar(beta, beta_f32),
                      result, impl_->c.get(), result, impl_->c.get(), &algorithm.algorithm, workspace,
                      algorithm.workspace, stream),
          "cublasLtMatmul", impl_->name);
  }
}

}  // namespace rewire::codegen
