// What NVML, the driver's management library, says of a GPU without a context on it. It is opened at its first use.
// The functions are declared here from its documentation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rewire::runtime::cuda {

/// Returns the driver's own version, as "580.65.06"; nullopt if NVML is missing or does not say.
std::optional<std::string> driver_release();

/// Returns the bytes of a GPU's memory that no program holds; nullopt if NVML is missing or does not say. `uuid` as
/// DeviceFacts has it.
std::optional<std::int64_t> free_memory(const std::string& uuid);

}  // namespace rewire::runtime::cuda
