#include "codegen/library/cufft.h"

#include <fmt/format.h>

#include <cstddef>

#include "codegen/library/cufft_functions.h"

namespace rewire::codegen {
namespace {

bool is_double(const ir::FourierRows& rows) {
  return rows.dtype == ir::DType::f64;
}

cufft::Type plan_type(const ir::FourierRows& rows) {
  if (is_double(rows)) return rows.inverse ? cufft::kZ2D : cufft::kD2Z;
  return rows.inverse ? cufft::kC2R : cufft::kR2C;
}

}  // namespace

std::optional<std::string> cufft_missing() {
  return cufft::Library::any().file.missing();
}

std::string cufft_version() {
  int version = 0;
  cufft::check(cufft::Library::usable().version(&version), "cufftGetVersion", "its version");
  return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
}

std::string full_name(const ir::FourierRows& rows) {
  return fmt::format("{} rows={} length={} {}", rows.inverse ? "irfft" : "rfft", rows.rows, rows.length,
                     ir::dtype_name(rows.dtype));
}

DeviceFft::DeviceFft(const ir::FourierRows& rows) : rows_(rows) {
  const cufft::Functions& fft = cufft::Library::usable();
  const std::string name = full_name(rows);
  if (rows.dtype != ir::DType::f32 && !is_double(rows))
    throw UnsupportedTransform(fmt::format("cuFFT for {}: real rows must be f32 or f64", name));
  cufft::check(fft.create(&plan_), "cufftCreate", name);
  std::size_t bytes = 0;
  cufft::Integer length = rows.length;
  const char* call = "cufftSetAutoAllocation";
  cufft::Result result = fft.set_allocation(plan_, 0);
  if (result == 0) {
    call = "cufftMakePlanMany64";
    // Null embeddings: the rows are dense, one after the other, and so are their spectra.
    result = fft.make(plan_, 1, &length, nullptr, 1, 0, nullptr, 1, 0, plan_type(rows), rows.rows, &bytes);
  }
  if (result != 0) {
    fft.destroy(plan_);
    if (cufft::is_refusal(result))
      throw UnsupportedTransform(fmt::format("{} for {}: {}", call, name, cufft::words(result)));
    cufft::check(result, call, name);
  }
  workspace_bytes_ = static_cast<std::int64_t>(bytes);
}

DeviceFft::~DeviceFft() {
  cufft::Library::any().destroy(plan_);
}

void DeviceFft::run(void* input, void* output, void* workspace, void* stream) const {
  const cufft::Functions& fft = cufft::Library::usable();
  const auto checked = [&](cufft::Result result, const char* call) {
    if (result != 0) cufft::check(result, call, full_name(rows_));
  };
  checked(fft.set_stream(plan_, stream), "cufftSetStream");
  if (workspace_bytes_ > 0) checked(fft.set_work(plan_, workspace), "cufftSetWorkArea");
  switch (plan_type(rows_)) {
    case cufft::kR2C:
      checked(fft.r2c(plan_, static_cast<float*>(input), output), "cufftExecR2C");
      break;
    case cufft::kC2R:
      checked(fft.c2r(plan_, input, static_cast<float*>(output)), "cufftExecC2R");
      break;
    case cufft::kD2Z:
      checked(fft.d2z(plan_, static_cast<double*>(input), output), "cufftExecD2Z");
      break;
    case cufft::kZ2D:
      checked(fft.z2d(plan_, input, static_cast<double*>(output)), "cufftExecZ2D");
      break;
  }
}

}  // namespace rewire::codegen
