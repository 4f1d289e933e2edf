// Judges a descriptor before anything else of the library is called. Only the handshake fields are read
// until their ABI is known to be supported.
#pragma once

#include <cstdint>

#include "plugins/sdk/rewire_plugin.h"

namespace rewire::runtime {

/// Throws UserError, without the file's name: the mismatch, both versions, and the remedy.
void judge_descriptor(const rewire_plugin* descriptor);
/// Judges the sanitizer that the file itself calls, with the same errors.
void judge_sanitizer(std::uint32_t sanitizer);

}  // namespace rewire::runtime
