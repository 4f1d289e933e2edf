#include "runtime/device/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <iterator>
#include <span>
#include <string_view>

namespace rewire::runtime {
namespace {

// oneDNN reads each variable under both names. We set its number of threads, so OMP_* changes nothing.
constexpr const char* kHost[] = {
    "DNNL_CPU_ISA_HINTS",   "DNNL_DEFAULT_FPMATH_MODE",   "DNNL_MAX_CPU_ISA",   "GLIBC_TUNABLES",
    "ONEDNN_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE"};
constexpr const char* kDevice[] = {"CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATE_SINGLE_PRECISION",
                                   "CUBLAS_EMULATION_STRATEGY", "CUBLAS_WORKSPACE_CONFIG",
                                   "NVIDIA_TF32_OVERRIDE"};

/// Returns text for JSON, with characters beyond ASCII as \xHH.
std::string ascii(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", c & 0xff);
  return result;
}

void add_those_set(Environment& environment, std::span<const char* const> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      environment.emplace(name, ascii(value));
  }
}

}  // namespace

Environment host_environment() {
  Environment environment;
  add_those_set(environment, kHost);
  return environment;
}

Environment device_environment() {
  Environment environment = host_environment();
  add_those_set(environment, kDevice);
  return environment;
}

std::vector<std::string> recorded_variables() {
  std::vector<std::string> names(std::begin(kHost), std::end(kHost));
  names.insert(names.end(), std::begin(kDevice), std::end(kDevice));
  return names;
}

}  // namespace rewire::runtime
