// The checks of a descriptor, ordered so that each protects those after it.
#include "runtime/plugin/handshake.h"

#include <cstddef>

#include "ir/error.h"
#include "runtime/plugin/schema.h"

namespace rewire::runtime {
namespace {

constexpr std::uint32_t kHandshakeSize = offsetof(rewire_plugin, name);
/// The size of a descriptor of minor 0; those of newer minors are larger.
constexpr std::uint32_t kAbi10PluginSize =
    offsetof(rewire_plugin, initialise) + sizeof(rewire_plugin::initialise);

std::uint32_t abi_major(std::uint32_t abi) {
  return abi >> 16;
}
std::uint32_t abi_minor(std::uint32_t abi) {
  return abi & 0xffff;
}

std::string_view sanitizer_name(std::uint32_t sanitizer) {
  switch (sanitizer) {
    case REWIRE_SANITIZER_NONE:
      return "no sanitizer";
    case REWIRE_SANITIZER_ADDRESS:
      return "the address sanitizer";
    case REWIRE_SANITIZER_THREAD:
      return "the thread sanitizer";
    default:
      return "an unknown sanitizer";
  }
}

void judge_abi(const rewire_plugin& plugin) {
  const std::uint32_t major = abi_major(plugin.abi), minor = abi_minor(plugin.abi);
  const std::uint32_t host_major = abi_major(REWIRE_ABI_VERSION), host_minor = abi_minor(REWIRE_ABI_VERSION);
  if (major == host_major && minor <= host_minor) return;
  const bool newer = major == host_major || major > host_major;
  user_error("it was built ({}) for plugin ABI {}.{}, but this rewire has {}.{}: {}",
             plugin.build_id == nullptr ? "unknown build" : plugin.build_id, major, minor, host_major,
             host_minor,
             newer ? "update rewire, or rebuild the plugin against this rewire's SDK"
                   : "rebuild the plugin against this rewire's SDK");
}

}  // namespace

void judge_sanitizer(std::uint32_t sanitizer) {
  if (sanitizer == REWIRE_SANITIZER) return;
  user_error("it was built with {}, this rewire with {}: build both the same way", sanitizer_name(sanitizer),
             sanitizer_name(REWIRE_SANITIZER));
}

void judge_descriptor(const rewire_plugin* descriptor) {
  if (descriptor == nullptr)
    user_error("it refuses this rewire's plugin ABI: rebuild it against this rewire's SDK");
  if (descriptor->magic != REWIRE_PLUGIN_MAGIC || descriptor->size < kHandshakeSize) {
    user_error("its descriptor is not that of a rewire plugin: return the one from REWIRE_PLUGIN()");
  }
  judge_abi(*descriptor);
  judge_sanitizer(descriptor->sanitizer);
  if (descriptor->size < kAbi10PluginSize) {
    user_error("its descriptor has {} bytes, but ABI 1.0's has {}: rebuild it against this rewire's SDK",
               descriptor->size, kAbi10PluginSize);
  }
  if (descriptor->name == nullptr || !ir::is_identifier(descriptor->name)) {
    user_error("its name '{}' is invalid: a plugin's name is [a-z][a-z0-9_]*",
               descriptor->name == nullptr ? "" : descriptor->name);
  }
  if (descriptor->version == nullptr || descriptor->doc == nullptr || descriptor->build_id == nullptr ||
      descriptor->rewrite == nullptr) {
    user_error("its descriptor lacks a version, a doc line, a build id or the rewrite function");
  }
}

}  // namespace rewire::runtime
