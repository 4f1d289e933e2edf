#include "runtime/device/cuda/management.h"

#include <array>

#include "codegen/cuda/shared_library.h"

namespace rewire::runtime::cuda {
namespace {

struct MemoryInfo {  // nvmlMemory_t, in bytes
  unsigned long long total, free, used;
};

struct Management {
  codegen::cuda::SharedLibrary file{codegen::cuda::kManagement};
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*device_by_uuid)(const char*, void**) = nullptr;
  int (*memory_info)(void*, MemoryInfo*) = nullptr;
  bool works = false;

  Management() {
    file.find(init, "nvmlInit_v2");
    file.find(driver_version, "nvmlSystemGetDriverVersion");
    file.find(device_by_uuid, "nvmlDeviceGetHandleByUUID");
    file.find(memory_info, "nvmlDeviceGetMemoryInfo");
    works = file.problem().empty() && init() == 0;
  }
};

const Management& management() {
  return codegen::cuda::Loaded<Management>::any();
}

}  // namespace

std::optional<std::string> driver_release() {
  std::array<char, 96> text{};
  if (!management().works || management().driver_version(text.data(), text.size() - 1) != 0)
    return std::nullopt;
  return text.data();
}

std::optional<std::int64_t> free_memory(const std::string& uuid) {
  void* device = nullptr;
  MemoryInfo memory{};
  if (!management().works || management().device_by_uuid(uuid.c_str(), &device) != 0 ||
      management().memory_info(device, &memory) != 0)
    return std::nullopt;
  return static_cast<std::int64_t>(memory.free);
}

}  // namespace rewire::runtime::cuda
