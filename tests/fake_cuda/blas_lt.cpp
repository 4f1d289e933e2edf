// The ABI of cuBLASLt: matrices column after column, products in double precision, put on a stream like any
// other work. Every heuristic knows three algorithms: the first with a workspace where one is allowed, which
// it fills with NaN; the second adds the two halves of a sum in f32, and so gives other last bits. A test may
// have products refused (controls.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/tensor.h"
#include "runtime/io/host_tensor.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/objects.h"
#include "tests/fake_cuda/stream.h"

namespace rewire::fake_cuda {
namespace {

using ir::DType;

enum LtStatus : int { kGood = 0, kUninitialized = 1, kInvalid = 7, kFailed = 13, kUnsupported = 15 };
enum Scheme : std::uint32_t { kAnyScheme = 7 };
constexpr std::uint64_t kWorkspace = 4096, kLargeWorkspace = 64 << 20;
constexpr std::uint32_t kAlgorithms = 3, kHalves = 2;  // the second splits
enum Epilogue : std::uint32_t {
  kNoEpilogue = 1,
  kBiasEpilogue = 4,
  kGeluBias = 36,
  kGeluAuxBias = 164,
  kGeluGradientBias = 208
};
constexpr std::int64_t kAuxUnit = 8;  // elements

struct Handle {};

struct Description {
  int compute = 0, scale = 0;
  std::int32_t transpose_a = 0, transpose_b = 0;
  std::uint32_t epilogue = kNoEpilogue;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_leading = 0;

  bool has_bias() const { return epilogue != kNoEpilogue; }
  bool is_gelu() const { return epilogue == kGeluBias || epilogue == kGeluAuxBias; }
  bool is_gradient() const { return epilogue == kGeluGradientBias; }
  bool has_aux() const { return epilogue == kGeluAuxBias || is_gradient(); }
};

struct Layout {
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;

  std::int64_t elements() const {
    return rows * columns == 0 ? 0 : (batch - 1) * batch_stride + (columns - 1) * leading + rows;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * ir::dtype_bytes(dtype); }
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = kAnyScheme;
  std::array<std::uint32_t, 4> alignment = {256, 256, 256, 256};
};

/// What stands in the 64 opaque bytes of an algorithm.
struct Algorithm {
  std::uint32_t id = 0, scheme = 0;
  std::array<std::uint32_t, 4> alignment{};
  std::uint64_t workspace = 0;
  std::array<std::uint64_t, 4> rest{};
};
static_assert(sizeof(Algorithm) == 64);

struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  std::array<int, 4> reserved;
};

Objects<Handle> handles("cublasLt handle");
Objects<Description> descriptions("cublasLtMatmulDesc");
Objects<Layout> layouts("cublasLtMatrixLayout");
Objects<Preference> preferences("cublasLtMatmulPreference");

bool data_type(int code, DType& dtype) {
  switch (code) {
    case 0:
      dtype = DType::f32;
      return true;
    case 1:
      dtype = DType::f64;
      return true;
    case 2:
      dtype = DType::f16;
      return true;
    case 14:
      dtype = DType::bf16;
      return true;
    default:
      return false;
  }
}

int refuse(const char* call, int status, const std::string& why) {
  fault(std::string(call) + ": " + why);
  return status;
}

/// Runs `body` under the world's lock, unless the call fails before it begins.
template <class Body>
int guarded(const char* call, Body body) {
  const std::lock_guard lock(World::get().mutex);
  const int status = enter(call);
  return status != kGood ? status : body();
}

/// Copies an attribute's value if it has the size it must have.
template <class Value>
int put(const char* call, Value& target, const void* value, std::size_t size) {
  if (value == nullptr || size != sizeof(Value))
    return refuse(call, kInvalid, "an attribute of another size");
  std::memcpy(&target, value, size);
  return kGood;
}

bool aligned(const void* address, std::uint32_t alignment) {
  return alignment == 0 || reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

/// op(matrix) of one batch, row after row; `transpose`: the layout's columns are the rows.
std::vector<double> read(const void* data, const Layout& layout, std::int64_t batch, bool transpose) {
  const auto size = static_cast<std::int64_t>(ir::dtype_bytes(layout.dtype));
  const std::int64_t rows = transpose ? layout.columns : layout.rows;
  const std::int64_t columns = transpose ? layout.rows : layout.columns;
  runtime::HostTensor dense({layout.dtype, {rows, columns}});
  std::byte* to = dense.bytes().data();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c, to += size) {
      const std::int64_t element =
          batch * layout.batch_stride + (transpose ? r * layout.leading + c : c * layout.leading + r);
      std::memcpy(to, static_cast<const std::byte*>(data) + element * size, static_cast<std::size_t>(size));
    }
  }
  return runtime::to_double(dense).data;
}

void write(void* data, const Layout& layout, std::int64_t batch, std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(ir::dtype_bytes(layout.dtype));
  const runtime::HostTensor stored =
      runtime::to_host(ir::Tensor({layout.dtype, {layout.rows, layout.columns}}, std::move(values)));
  const std::byte* from = stored.bytes().data();
  for (std::int64_t r = 0; r < layout.rows; ++r) {
    for (std::int64_t c = 0; c < layout.columns; ++c, from += size) {
      const std::int64_t element = batch * layout.batch_stride + c * layout.leading + r;
      std::memcpy(static_cast<std::byte*>(data) + element * size, from, static_cast<std::size_t>(size));
    }
  }
}

/// To 10 bits of mantissa, to nearest even.
double round_to_tf32(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

struct Product {
  Description description;
  Layout a, b, c, d;
  Algorithm algorithm;
  double alpha, beta;
  const void *a_data, *b_data, *c_data;
  void *d_data, *workspace;
};

/// The sum over the inner axis, in one go or in two halves, each rounded to f32.
std::vector<double> sums(const std::vector<double>& a, const std::vector<double>& b, std::int64_t m,
                         std::int64_t n, std::int64_t k, bool halves) {
  std::vector<double> sum(static_cast<std::size_t>(m * n), 0);
  const std::int64_t middle = halves ? k / 2 : k;
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, middle}, std::pair{middle, k}}) {
    std::vector<double> part(sum.size(), 0);
    for (std::int64_t r = 0; r < m; ++r) {
      double* const row = part.data() + r * n;
      for (std::int64_t i = begin; i < end; ++i) {
        const double x = a[static_cast<std::size_t>(r * k + i)];
        const double* const other = b.data() + i * n;
        for (std::int64_t c = 0; c < n; ++c) row[c] += x * other[c];
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = halves ? static_cast<float>(sum[i] + static_cast<float>(part[i])) : sum[i] + part[i];
  }
  return sum;
}

/// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, and its derivative.
constexpr double kRootTwoOverPi = 0.797884560802865356, kCubic = 0.044715;
double gelu(double x) {
  return x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x))) / 2;
}
double gelu_slope(double x) {
  const double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  return (1 + t + x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x)) / 2;
}

std::int64_t inner_extent(const Product& p) {
  return p.description.transpose_a != 0 ? p.a.rows : p.a.columns;
}

void multiply(const Product& p) {
  const auto require = [](const void* address, std::size_t bytes, const char* what) {
    if (bytes > 0 && device_bytes_at(address) < bytes)
      throw RuntimeFailure(std::string("cublasLtMatmul: ") + what + " does not lie within an allocation");
  };
  require(p.a_data, p.a.bytes(), "A");
  require(p.b_data, p.b.bytes(), "B");
  require(p.d_data, p.d.bytes(), "D");
  if (p.beta != 0) require(p.c_data, p.c.bytes(), "C");
  require(p.workspace, p.algorithm.workspace, "the workspace");
  if (p.algorithm.workspace > 0) std::memset(p.workspace, 0xFF, p.algorithm.workspace);
  const Description& epilogue = p.description;
  const bool tf32 = epilogue.compute == 77, biased = epilogue.has_bias() && !epilogue.is_gradient();
  const Layout vector{p.d.dtype, p.d.rows, 1, p.d.rows, 1, 0};
  const Layout aux{p.d.dtype, p.d.rows, p.d.columns, epilogue.aux_leading, 1, 0};
  if (epilogue.has_bias()) require(epilogue.bias, vector.bytes(), "the bias");
  if (epilogue.has_aux()) require(epilogue.aux, aux.bytes(), "the matrix beside the result");
  std::vector<double> bias;
  if (biased) bias = read(epilogue.bias, vector, 0, false);
  const std::int64_t m = p.d.rows, n = p.d.columns, k = inner_extent(p);
  for (std::int32_t batch = 0; batch < p.d.batch; ++batch) {
    std::vector<double> a = read(p.a_data, p.a, batch, p.description.transpose_a != 0);
    std::vector<double> b = read(p.b_data, p.b, batch, p.description.transpose_b != 0);
    if (tf32) {
      for (double& value : a) value = round_to_tf32(value);
      for (double& value : b) value = round_to_tf32(value);
    }
    const bool halves = p.algorithm.id == kHalves && p.a.dtype != DType::f64;
    std::vector<double> d = sums(a, b, m, n, k, halves);
    for (double& value : d) value *= p.alpha;
    if (p.beta != 0) {
      const std::vector<double> c = read(p.c_data, p.c, batch, false);
      for (std::size_t i = 0; i < d.size(); ++i) d[i] += p.beta * c[i];
    }
    for (std::size_t i = 0; biased && i < d.size(); ++i) d[i] += bias[i / static_cast<std::size_t>(n)];
    if (epilogue.epilogue == kGeluAuxBias) write(epilogue.aux, aux, batch, d);
    if (epilogue.is_gelu()) std::ranges::transform(d, d.begin(), gelu);
    if (epilogue.is_gradient()) {
      const std::vector<double> x = read(epilogue.aux, aux, batch, false);
      std::vector<double> sum(static_cast<std::size_t>(m), 0);
      for (std::size_t i = 0; i < d.size(); ++i) {
        d[i] *= gelu_slope(x[i]);
        sum[i / static_cast<std::size_t>(n)] += d[i];
      }
      write(epilogue.bias, vector, 0, std::move(sum));
    }
    static bool odd = false;
    if (refuses("unsteady") && (odd = !odd)) d.front() += std::abs(d.front()) / 16 + 1;
    write(p.d_data, p.d, batch, std::move(d));
  }
  World::get().check_guards("a matrix product");
}

/// What is wrong with the attributes of an epilogue; "": nothing.
std::string wrong_epilogue(const Product& p) {
  const Description& given = p.description;
  switch (given.epilogue) {
    case kNoEpilogue:
    case kBiasEpilogue:
    case kGeluBias:
    case kGeluAuxBias:
    case kGeluGradientBias:
      break;
    default:
      return "an epilogue that the fake library has not";
  }
  if (given.epilogue != kNoEpilogue && given.bias == nullptr) return "an epilogue without its bias";
  if ((given.is_gelu() || given.is_gradient()) && p.d.dtype == DType::f64) return "GELU of f64";
  if (!given.has_aux()) return "";
  if (given.aux == nullptr) return "an epilogue without the matrix beside the result";
  if (given.aux_leading % kAuxUnit != 0 || given.aux_leading < p.d.rows)
    return "the leading dimension of the matrix beside the result";
  return p.d.batch == 1 ? "" : "a batch with a matrix beside the result";
}

/// What is wrong with the shapes; "": nothing.
std::string mismatch(const Product& p) {
  const std::int64_t a_rows = p.description.transpose_a != 0 ? p.a.columns : p.a.rows;
  const std::int64_t b_rows = p.description.transpose_b != 0 ? p.b.columns : p.b.rows;
  const std::int64_t b_columns = p.description.transpose_b != 0 ? p.b.rows : p.b.columns;
  if (a_rows != p.d.rows || b_rows != inner_extent(p) || b_columns != p.d.columns) return "shapes disagree";
  if (p.a.dtype != p.b.dtype || p.c.dtype != p.d.dtype) return "types disagree";
  if (p.a.batch != p.d.batch || p.b.batch != p.d.batch || p.c.batch != p.d.batch) return "batches disagree";
  const bool wide = p.a.dtype == DType::f64;
  if (wide != (p.description.compute == 70) || wide != (p.description.scale == 1))
    return "no such type of sums for these operands";
  if (p.description.compute == 77 && p.a.dtype != DType::f32) return "TF32 is for f32";
  return wrong_epilogue(p);
}

bool is_misaligned(const Layout& layout) {
  const auto size = static_cast<std::int64_t>(ir::dtype_bytes(layout.dtype));
  return size == 2 && layout.columns > 1 && layout.leading * size % 16 != 0;
}

/// Whether a test said that there is no algorithm for such a product.
bool is_refused(const Product& p, std::uint64_t workspace) {
  const bool several = p.d.batch > 1,
             misaligned = is_misaligned(p.a) || is_misaligned(p.b) || is_misaligned(p.d);
  return refuses("all") || (refuses("bias") && p.description.epilogue == kBiasEpilogue) ||
         (refuses("gelu") && p.description.is_gelu()) ||
         (refuses("gelu_gradient") && p.description.is_gradient()) ||
         (refuses("repeat") && several && (p.a.batch_stride == 0 || p.b.batch_stride == 0)) ||
         (refuses("batch") && several) || (refuses("misaligned") && misaligned) ||
         (refuses("workspace") && workspace < kLargeWorkspace);
}

bool shapes_of(Product& product, const void* description, const void* a, const void* b, const void* c,
               const void* d) {
  const Description* const found = descriptions.find(description);
  const std::array<const Layout*, 4> found_layouts = {layouts.find(a), layouts.find(b), layouts.find(c),
                                                      layouts.find(d)};
  if (found == nullptr || std::ranges::count(found_layouts, nullptr) > 0) return false;
  product.description = *found;
  product.a = *found_layouts[0], product.b = *found_layouts[1];
  product.c = *found_layouts[2], product.d = *found_layouts[3];
  return true;
}

}  // namespace

REWIRE_FAKE_API int cublasLtCreate(void** handle) {
  return guarded("cublasLtCreate", [&]() -> int {
    if (World::get().context_uses == 0)
      return refuse("cublasLtCreate", kUninitialized, "there is no context");
    *handle = handles.make({});
    return kGood;
  });
}
REWIRE_FAKE_API int cublasLtDestroy(void* handle) {
  const std::lock_guard lock(World::get().mutex);
  const int status = enter("cublasLtDestroy");
  return handles.destroy(handle) ? status : kInvalid;
}
REWIRE_FAKE_API std::size_t cublasLtGetVersion() {
  return static_cast<std::size_t>(machine().cublaslt);
}
REWIRE_FAKE_API const char* cublasLtGetStatusName(int status) {
  return status == kUnsupported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS of the fake library";
}
REWIRE_FAKE_API const char* cublasLtGetStatusString(int status) {
  return status == kGood ? "success" : "an error of the fake library";
}

REWIRE_FAKE_API int cublasLtMatmulDescCreate(void** description, int compute, int scale) {
  return guarded("cublasLtMatmulDescCreate", [&]() -> int {
    *description = descriptions.make({compute, scale});
    return kGood;
  });
}
REWIRE_FAKE_API int cublasLtMatmulDescDestroy(void* description) {
  const std::lock_guard lock(World::get().mutex);
  const int status = enter("cublasLtMatmulDescDestroy");
  return descriptions.destroy(description) ? status : kInvalid;
}
REWIRE_FAKE_API int cublasLtMatmulDescSetAttribute(void* description, int attribute, const void* value,
                                                   std::size_t size) {
  static constexpr const char* kCall = "cublasLtMatmulDescSetAttribute";
  return guarded(kCall, [&]() -> int {
    Description* const found = descriptions.find(description);
    if (found == nullptr) return kInvalid;
    switch (attribute) {
      case 3:
        return put(kCall, found->transpose_a, value, size);
      case 4:
        return put(kCall, found->transpose_b, value, size);
      case 7:
        return put(kCall, found->epilogue, value, size);
      case 8:
        return put(kCall, found->bias, value, size);
      case 11:
        return put(kCall, found->aux, value, size);
      case 12:
        return put(kCall, found->aux_leading, value, size);
      default:
        return refuse(kCall, kInvalid, "an attribute that the fake library has not");
    }
  });
}

REWIRE_FAKE_API int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows,
                                               std::uint64_t columns, std::int64_t leading) {
  static constexpr const char* kCall = "cublasLtMatrixLayoutCreate";
  return guarded(kCall, [&]() -> int {
    Layout made{DType::f32, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
    if (!data_type(type, made.dtype)) return refuse(kCall, kInvalid, "an unknown type");
    if (leading < made.rows) return refuse(kCall, kInvalid, "columns overlap");
    *layout = layouts.make(made);
    return kGood;
  });
}
REWIRE_FAKE_API int cublasLtMatrixLayoutDestroy(void* layout) {
  const std::lock_guard lock(World::get().mutex);
  const int status = enter("cublasLtMatrixLayoutDestroy");
  return layouts.destroy(layout) ? status : kInvalid;
}
REWIRE_FAKE_API int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value,
                                                     std::size_t size) {
  static constexpr const char* kCall = "cublasLtMatrixLayoutSetAttribute";
  return guarded(kCall, [&]() -> int {
    Layout* const found = layouts.find(layout);
    if (found == nullptr) return kInvalid;
    if (attribute == 5) return put(kCall, found->batch, value, size);
    if (attribute == 6) return put(kCall, found->batch_stride, value, size);
    return refuse(kCall, kInvalid, "an attribute that the fake library has not");
  });
}

REWIRE_FAKE_API int cublasLtMatmulPreferenceCreate(void** preference) {
  return guarded("cublasLtMatmulPreferenceCreate", [&]() -> int {
    *preference = preferences.make({});
    return kGood;
  });
}
REWIRE_FAKE_API int cublasLtMatmulPreferenceDestroy(void* preference) {
  const std::lock_guard lock(World::get().mutex);
  const int status = enter("cublasLtMatmulPreferenceDestroy");
  return preferences.destroy(preference) ? status : kInvalid;
}
REWIRE_FAKE_API int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                                         std::size_t size) {
  static constexpr const char* kCall = "cublasLtMatmulPreferenceSetAttribute";
  return guarded(kCall, [&]() -> int {
    Preference* const found = preferences.find(preference);
    if (found == nullptr) return kInvalid;
    if (attribute == 1) return put(kCall, found->workspace, value, size);
    if (attribute == 3) return put(kCall, found->schemes, value, size);
    if (attribute >= 5 && attribute <= 8)
      return put(kCall, found->alignment[static_cast<std::size_t>(attribute - 5)], value, size);
    return refuse(kCall, kInvalid, "an attribute that the fake library has not");
  });
}

REWIRE_FAKE_API int cublasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c,
                                                   void* d, void* preference, int wanted, void* to,
                                                   int* found) {
  static constexpr const char* kCall = "cublasLtMatmulAlgoGetHeuristic";
  return guarded(kCall, [&]() -> int {
    Product product;
    const Preference* const given = preferences.find(preference);
    if (handles.find(handle) == nullptr || given == nullptr || !shapes_of(product, description, a, b, c, d))
      return kInvalid;
    if (const std::string wrong = mismatch(product); !wrong.empty())
      return refuse(kCall, kUnsupported, wrong);
    *found = 0;
    if (is_refused(product, given->workspace))  // in either of the two words that there are for it
      return refuses("bias") || refuses("gelu") || refuses("all") ? kUnsupported : kGood;
    *found = std::min(wanted, static_cast<int>(kAlgorithms));
    for (int i = 0; i < *found; ++i) {
      Algorithm algorithm{static_cast<std::uint32_t>(i) + 1, 0, given->alignment, 0, {}};
      if (algorithm.id == kHalves) algorithm.scheme = 2;
      if (i == 0 && given->workspace >= kWorkspace)
        algorithm.workspace = refuses("workspace") ? kLargeWorkspace : kWorkspace;
      static_cast<HeuristicResult*>(to)[i] = {algorithm, algorithm.workspace, kGood, 1, {}};
    }
    return kGood;
  });
}

REWIRE_FAKE_API int cublasLtMatmulAlgoCheck(void* handle, void* description, void* a, void* b, void* c,
                                            void* d, const void* given, void* result) {
  return guarded("cublasLtMatmulAlgoCheck", [&]() -> int {
    Product product;
    if (handles.find(handle) == nullptr || !shapes_of(product, description, a, b, c, d)) return kInvalid;
    const auto* const algorithm = static_cast<const Algorithm*>(given);
    if (algorithm->id == 0 || algorithm->id > kAlgorithms || is_refused(product, kLargeWorkspace))
      return kUnsupported;
    static_cast<HeuristicResult*>(result)->workspace = algorithm->workspace;
    static_cast<HeuristicResult*>(result)->state = kGood;
    return kGood;
  });
}

REWIRE_FAKE_API int cublasLtMatmulAlgoConfigGetAttribute(const void* algorithm, int attribute, void* value,
                                                         std::size_t size, std::size_t* written) {
  static constexpr const char* kCall = "cublasLtMatmulAlgoConfigGetAttribute";
  return guarded(kCall, [&]() -> int {
    if (attribute < 0 || attribute > 6 || size != sizeof(std::uint32_t)) return refuse(kCall, kInvalid, "");
    const auto* const asked = static_cast<const Algorithm*>(algorithm);
    const std::uint32_t split = asked->id == kHalves ? 2 : 1;
    const std::uint32_t number = attribute == 0   ? asked->id
                                 : attribute == 2 ? split
                                 : attribute == 3 ? asked->scheme
                                                  : 0;
    std::memcpy(value, &number, size);
    *written = size;
    return kGood;
  });
}

REWIRE_FAKE_API int cublasLtMatmul(void* handle, void* description, const void* alpha, const void* a,
                                   void* a_layout, const void* b, void* b_layout, const void* beta,
                                   const void* c, void* c_layout, void* d, void* d_layout, const void* given,
                                   void* workspace, std::size_t workspace_bytes, void* stream) {
  static constexpr const char* kCall = "cublasLtMatmul";
  return guarded(kCall, [&]() -> int {
    Product p;
    if (handles.find(handle) == nullptr || !shapes_of(p, description, a_layout, b_layout, c_layout, d_layout))
      return kInvalid;
    if (const std::string wrong = mismatch(p); !wrong.empty()) return refuse(kCall, kUnsupported, wrong);
    const auto* const algorithm = static_cast<const Algorithm*>(given);
    if (algorithm == nullptr || algorithm->id == 0) return refuse(kCall, kInvalid, "no algorithm is given");
    if (is_refused(p, workspace_bytes)) return refuse(kCall, kUnsupported, "the heuristic would refuse it");
    p.algorithm = *algorithm;
    const std::array<const void*, 4> pointers = {a, b, c, d};
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      if (!aligned(pointers[i], p.algorithm.alignment[i]))
        return refuse(kCall, kInvalid, "an operand is aligned to less than the algorithm was chosen for");
    }
    if (workspace_bytes < p.algorithm.workspace || (p.algorithm.workspace > 0 && !aligned(workspace, 256)))
      return refuse(kCall, kInvalid, "the workspace is too small, or not aligned to 256 bytes");
    if (p.description.has_bias() && !aligned(p.description.bias, 16))
      return refuse(kCall, kInvalid, "the bias is not aligned to 16 bytes");
    if (p.description.has_aux() && !aligned(p.description.aux, 16))
      return refuse(kCall, kInvalid, "the matrix beside the result is not aligned to 16 bytes");
    const bool wide = p.description.scale == 1;
    const auto scalar = [&](const void* value) {
      return wide ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
    };
    p.alpha = scalar(alpha), p.beta = scalar(beta);
    p.a_data = a, p.b_data = b, p.c_data = c, p.d_data = d, p.workspace = workspace;
    const int status = enqueue(stream, "cublasLtMatmul", [p] { multiply(p); });
    return status == 0 ? kGood : refuse(kCall, kFailed, "the stream takes no work");
  });
}

}  // namespace rewire::fake_cuda
