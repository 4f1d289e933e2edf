#include "runtime/device/cuda/driver.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "ir/error.h"
#include "runtime/device/log.h"

namespace rewire::runtime::cuda {
namespace {

std::string error_words(int status) {
  const char *name = nullptr, *text = nullptr;
  const Driver& driver = codegen::cuda::Loaded<Driver>::any();
  if (driver.error_name.status(status, &name) != 0 || name == nullptr) return fmt::format("error {}", status);
  if (driver.error_text.status(status, &text) != 0 || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

std::string failure_text(std::string_view symbol, int status, std::string_view purpose) {
  if (symbol.ends_with("_v2")) symbol.remove_suffix(3);
  return fmt::format(
      "{}{}{}: {}{}", symbol, purpose.empty() ? "" : " ", purpose, error_words(status),
      status == kOutOfMemory ? "; use a smaller train.batch, or end other programs on the device" : "");
}

/// Returns what to do if cuInit fails, after "; "; "" if that is not known.
std::string after_init(int status) {
  constexpr int kStub = 34, kNoDevice = 100, kNotInitialised = 802, kMismatch = 803, kNoCompatibility = 804;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  switch (status) {
    case kNoDevice:
      return visible == nullptr
                 ? ""
                 : fmt::format("; CUDA_VISIBLE_DEVICES is '{}': unset it to see all devices", visible);
    case kStub:
      return "; this file is the toolkit's stub of the driver: remove its folder from LD_LIBRARY_PATH";
    case kNotInitialised:
      return "; start the service nvidia-fabricmanager, which GPUs behind NVSwitch need";
    case kMismatch:
      return "; the driver was updated but not loaded: reboot";
    case kNoCompatibility:
      return "; the package cuda-compat does not run on this card: remove it, or update the driver";
    default:
      return "";
  }
}

/// Returns the problem of the driver or its initialisation; called once per process.
std::string find_problem() {
  const Driver& driver = codegen::cuda::Loaded<Driver>::any();
  if (!driver.file.problem().empty()) return driver.file.problem();
  if (const int status = driver.init.status(0); status != 0)
    return fmt::format("the NVIDIA driver {} finds no usable device: cuInit: {}{}", driver.file.path(),
                       error_words(status), after_init(status));
  return {};
}

}  // namespace

void driver_failure(std::string_view symbol, int status, std::string_view purpose) {
  const std::string text = failure_text(symbol, status, purpose);
  if (status == kOutOfMemory) throw OutOfMemory(text);
  throw RuntimeFailure(text);
}

void log_driver_failure(std::string_view symbol, int status, std::string_view purpose) {
  // After a crash of the device, every release returns the same status: log it once.
  static std::atomic<int> last = 0;
  if (last.exchange(status) == status) return;
  write_log(LogLevel::warning, failure_text(symbol, status, purpose));
}

std::optional<std::string> driver_missing() {
  static const std::string problem = find_problem();
  if (problem.empty()) return std::nullopt;
  return problem;
}

const Driver& driver() {
  if (const auto problem = driver_missing()) throw UserError(*problem);
  return codegen::cuda::Loaded<Driver>::any();
}

}  // namespace rewire::runtime::cuda
