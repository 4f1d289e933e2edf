// The ABI of cuFFT: plans of real rows, transforms in double precision straight from their sums, put on a
// stream like any other work. What the real one may do, this one does: the inverse overwrites its input with
// NaN and adds the imaginary parts that a real row has none of to its result; odd rows want a work area,
// which it fills with NaN. A plan may not be made while a stream is captured, nor run with memory of its own.
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <numbers>
#include <vector>

#include "ir/error.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/objects.h"
#include "tests/fake_cuda/stream.h"

namespace rewire::fake_cuda {
namespace {

enum FftResult : int {
  kFftGood = 0,
  kFftInvalidPlan = 1,
  kFftInvalidValue = 4,
  kFftInternal = 5,
  kFftExecFailed = 6,
  kFftUnsupported = 16
};
enum FftType : int { kR2C = 0x2a, kC2R = 0x2c, kD2Z = 0x6a, kZ2D = 0x6c };
constexpr std::size_t kWorkArea = 4096;  // of rows of odd length

struct Plan {
  bool made = false, allocates = true;
  int type = 0;
  std::int64_t length = 0, rows = 0;
  void *stream = nullptr, *work = nullptr;

  bool is_inverse() const { return type == kC2R || type == kZ2D; }
  std::int64_t bins() const { return length / 2 + 1; }
  std::size_t work_bytes() const { return length % 2 == 0 ? 0 : kWorkArea; }
};

std::map<int, Plan> plans;
int last_plan = 0;

int refuse_fft(const char* call, int result, const std::string& why) {
  fault(std::string(call) + ": " + why);
  return result;
}

/// Runs `body` on a plan under the world's lock, unless the call fails before it begins.
template <class Body>
int on_plan(const char* call, int handle, Body body) {
  const std::lock_guard lock(World::get().mutex);
  if (const int result = enter(call); result != kFftGood) return result;
  const auto found = plans.find(handle);
  if (found == plans.end()) return refuse_fft(call, kFftInvalidPlan, "no such plan, or it was destroyed");
  return body(found->second);
}

/// e^(-2 pi i k s / n) for every k s modulo n.
std::vector<std::complex<double>> circle(std::int64_t n) {
  std::vector<std::complex<double>> points;
  for (std::int64_t i = 0; i < n; ++i)
    points.push_back(
        std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n)));
  return points;
}

template <class Real>
void transform_rows(const Plan& plan, const Real* from, Real* to) {
  const std::vector<std::complex<double>> points = circle(plan.length);
  for (std::int64_t row = 0; row < plan.rows; ++row, from += plan.length, to += 2 * plan.bins()) {
    for (std::int64_t k = 0; k < plan.bins(); ++k) {
      std::complex<double> sum = 0;
      for (std::int64_t s = 0; s < plan.length; ++s)
        sum += double{from[s]} * points[static_cast<std::size_t>(k * s % plan.length)];
      to[2 * k] = static_cast<Real>(sum.real());
      to[2 * k + 1] = static_cast<Real>(sum.imag());
    }
  }
}

template <class Real>
void invert_rows(const Plan& plan, const Real* from, Real* to) {
  const std::vector<std::complex<double>> points = circle(plan.length);
  for (std::int64_t row = 0; row < plan.rows; ++row, from += 2 * plan.bins(), to += plan.length) {
    for (std::int64_t s = 0; s < plan.length; ++s) {
      double sum = 0;
      for (std::int64_t k = 0; k < plan.bins(); ++k) {
        const std::complex<double> bin(from[2 * k], from[2 * k + 1]);
        const bool alone = k == 0 || 2 * k == plan.length;
        sum += alone ? bin.real() * points[static_cast<std::size_t>(k * s % plan.length)].real() + bin.imag()
                     : 2 * (bin * std::conj(points[static_cast<std::size_t>(k * s % plan.length)])).real();
      }
      to[s] = static_cast<Real>(sum);
    }
  }
}

template <class Real>
void run_plan(const Plan& plan, void* input, void* output) {
  const auto rows = static_cast<std::size_t>(plan.rows);
  const std::size_t real = rows * static_cast<std::size_t>(plan.length) * sizeof(Real);
  const std::size_t complex = rows * static_cast<std::size_t>(2 * plan.bins()) * sizeof(Real);
  const std::size_t read = plan.is_inverse() ? complex : real, written = plan.is_inverse() ? real : complex;
  const auto require = [](const void* address, std::size_t bytes, const char* what) {
    if (bytes > 0 && device_bytes_at(address) < bytes)
      throw RuntimeFailure(std::string("cuFFT: ") + what + " does not lie within an allocation");
  };
  require(input, read, "the input");
  require(output, written, "the output");
  require(plan.work, plan.work_bytes(), "the work area");
  if (plan.work_bytes() > 0) std::memset(plan.work, 0xFF, plan.work_bytes());
  if (plan.is_inverse()) {
    invert_rows(plan, static_cast<const Real*>(input), static_cast<Real*>(output));
    std::memset(input, 0xFF, read);
  } else {
    transform_rows(plan, static_cast<const Real*>(input), static_cast<Real*>(output));
  }
  World::get().check_guards("a Fourier transform");
}

int execute(const char* call, int handle, int type, void* input, void* output) {
  return on_plan(call, handle, [&](Plan& plan) -> int {
    if (!plan.made || plan.type != type)
      return refuse_fft(call, kFftInvalidPlan, "the plan is of another type");
    if (plan.work_bytes() > 0 && plan.work == nullptr)
      return refuse_fft(call, kFftInternal, "there is no work area");
    const auto pair = 2 * (type == kD2Z || type == kZ2D ? sizeof(double) : sizeof(float));
    if (reinterpret_cast<std::uintptr_t>(input) % pair != 0 ||
        reinterpret_cast<std::uintptr_t>(output) % pair != 0)
      return refuse_fft(call, kFftInvalidValue, "an array is not aligned to a complex number");
    const bool wide = type == kD2Z || type == kZ2D;
    const int status = enqueue(plan.stream, call, [plan, input, output, wide] {
      wide ? run_plan<double>(plan, input, output) : run_plan<float>(plan, input, output);
    });
    return status == 0 ? kFftGood : refuse_fft(call, kFftExecFailed, "the stream takes no work");
  });
}

}  // namespace

REWIRE_FAKE_API int cufftGetVersion(int* version) {
  const std::lock_guard lock(World::get().mutex);
  *version = machine().cufft;
  return enter("cufftGetVersion");
}

REWIRE_FAKE_API int cufftCreate(int* handle) {
  const std::lock_guard lock(World::get().mutex);
  if (const int result = enter("cufftCreate"); result != kFftGood) return result;
  if (World::get().context_uses == 0) return refuse_fft("cufftCreate", kFftInternal, "there is no context");
  *handle = ++last_plan;
  plans.emplace(*handle, Plan());
  count_object("cufft plan", 1);
  return kFftGood;
}

REWIRE_FAKE_API int cufftDestroy(int handle) {
  const std::lock_guard lock(World::get().mutex);
  const int result = enter("cufftDestroy");
  if (plans.erase(handle) == 0)
    return refuse_fft("cufftDestroy", kFftInvalidPlan, "no such plan, or it was destroyed");
  count_object("cufft plan", -1);
  return result;
}

REWIRE_FAKE_API int cufftSetAutoAllocation(int handle, int automatic) {
  return on_plan("cufftSetAutoAllocation", handle, [&](Plan& plan) -> int {
    plan.allocates = automatic != 0;
    return kFftGood;
  });
}

REWIRE_FAKE_API int cufftMakePlanMany64(int handle, int rank, long long* lengths, long long* input_embedding,
                                        long long, long long, long long* output_embedding, long long,
                                        long long, int type, long long batch, std::size_t* work_bytes) {
  static constexpr const char* kCall = "cufftMakePlanMany64";
  return on_plan(kCall, handle, [&](Plan& plan) -> int {
    if (plan.made) return refuse_fft(kCall, kFftInvalidPlan, "the plan is made");
    if (World::get().capturing()) return refuse_fft(kCall, kFftInternal, "while a stream is captured");
    if (plan.allocates) return refuse_fft(kCall, kFftInternal, "the fake has no memory of its own");
    if (rank != 1 || input_embedding != nullptr || output_embedding != nullptr || lengths[0] < 1 || batch < 1)
      return refuse_fft(kCall, kFftInvalidValue, "the fake has plans of dense rows alone");
    if (type != kR2C && type != kC2R && type != kD2Z && type != kZ2D)
      return refuse_fft(kCall, kFftInvalidValue, "the fake has real rows alone");
    if (refuses("fft")) return kFftUnsupported;
    plan.made = true;
    plan.type = type, plan.length = lengths[0], plan.rows = batch;
    *work_bytes = plan.work_bytes();
    return kFftGood;
  });
}

REWIRE_FAKE_API int cufftSetWorkArea(int handle, void* work) {
  return on_plan("cufftSetWorkArea", handle, [&](Plan& plan) -> int {
    plan.work = work;
    return kFftGood;
  });
}

REWIRE_FAKE_API int cufftSetStream(int handle, void* stream) {
  return on_plan("cufftSetStream", handle, [&](Plan& plan) -> int {
    plan.stream = stream;
    return kFftGood;
  });
}

REWIRE_FAKE_API int cufftExecR2C(int handle, float* real, void* complex) {
  return execute("cufftExecR2C", handle, kR2C, real, complex);
}
REWIRE_FAKE_API int cufftExecC2R(int handle, void* complex, float* real) {
  return execute("cufftExecC2R", handle, kC2R, complex, real);
}
REWIRE_FAKE_API int cufftExecD2Z(int handle, double* real, void* complex) {
  return execute("cufftExecD2Z", handle, kD2Z, real, complex);
}
REWIRE_FAKE_API int cufftExecZ2D(int handle, void* complex, double* real) {
  return execute("cufftExecZ2D", handle, kZ2D, complex, real);
}

}  // namespace rewire::fake_cuda
