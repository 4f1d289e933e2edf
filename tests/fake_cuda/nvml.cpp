// The ABI of NVML: the driver's version, and the memory that is free on a device.
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "tests/fake_cuda/calls.h"
#include "tests/fake_cuda/machine.h"

namespace rewire::fake_cuda {
namespace {

enum NvmlStatus : int { kFine = 0, kNoSuchDevice = 6 };

struct NvmlMemory {
  unsigned long long total, free, used;
};

}  // namespace

REWIRE_FAKE_API int nvmlInit_v2() {
  return kFine;
}
REWIRE_FAKE_API int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  fmt::format_to_n(text, size, "{}{}", machine().release, '\0');
  return kFine;
}
/// A handle is the device's own number, plus 1.
REWIRE_FAKE_API int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const auto number = std::stoul(std::string(uuid).substr(4, 2), nullptr, 16);
  if (number >= machine().devices.size()) return kNoSuchDevice;
  *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(number + 1));
  return kFine;
}
REWIRE_FAKE_API int nvmlDeviceGetMemoryInfo(void* device, NvmlMemory* memory) {
  const FakeDevice& fake = machine().devices.at(reinterpret_cast<std::uintptr_t>(device) - 1);
  *memory = {fake.memory, fake.free, fake.memory - fake.free};
  return kFine;
}

}  // namespace rewire::fake_cuda
