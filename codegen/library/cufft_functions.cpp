#include "codegen/library/cufft_functions.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace rewire::codegen::cufft {
namespace {

struct Name {
  Result result;
  const char* name;
};
/// The names of results that CUDA 12 and 13 agree on.
constexpr Name kNames[] = {
    {0, "CUFFT_SUCCESS"},          {1, "CUFFT_INVALID_PLAN"},    {2, "CUFFT_ALLOC_FAILED"},
    {3, "CUFFT_INVALID_TYPE"},     {4, "CUFFT_INVALID_VALUE"},   {5, "CUFFT_INTERNAL_ERROR"},
    {6, "CUFFT_EXEC_FAILED"},      {7, "CUFFT_SETUP_FAILED"},    {8, "CUFFT_INVALID_SIZE"},
    {9, "CUFFT_UNALIGNED_DATA"},   {11, "CUFFT_INVALID_DEVICE"}, {13, "CUFFT_NO_WORKSPACE"},
    {14, "CUFFT_NOT_IMPLEMENTED"}, {16, "CUFFT_NOT_SUPPORTED"}};
enum Refusal : Result { kInvalidType = 3, kInvalidSize = 8, kNotImplemented = 14, kNotSupported = 16 };

}  // namespace

Functions::Functions() {
  file.find(version, "cufftGetVersion");
  file.find(create, "cufftCreate");
  file.find(destroy, "cufftDestroy");
  file.find(set_allocation, "cufftSetAutoAllocation");
  file.find(make, "cufftMakePlanMany64");
  file.find(set_work, "cufftSetWorkArea");
  file.find(set_stream, "cufftSetStream");
  file.find(r2c, "cufftExecR2C");
  file.find(c2r, "cufftExecC2R");
  file.find(d2z, "cufftExecD2Z");
  file.find(z2d, "cufftExecZ2D");
}

std::string words(Result result) {
  for (const Name& known : kNames) {
    if (known.result == result) return known.name;
  }
  return fmt::format("cufftResult {}", result);
}

void check(Result result, const char* call, const std::string& what) {
  if (result != 0) throw RuntimeFailure(fmt::format("{} for {}: {}", call, what, words(result)));
}

bool is_refusal(Result result) {
  return result == kInvalidType || result == kInvalidSize || result == kNotImplemented ||
         result == kNotSupported;
}

}  // namespace rewire::codegen::cufft
