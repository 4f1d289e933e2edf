// Judges a descriptor before anything else of the library is called. Only the handshake fields are read until
// their ABI is known to be one that this host speaks.
#pragma once

#include <cstdint>

#include "plugins/sdk/rewire_plugin.h"

namespace rewire::runtime {

/// UserError, without the file's name: what does not fit, both versions, and what to do.
void judge_descriptor(const rewire_plugin* descriptor);
/// The same verdict for the sanitizer that the file itself was seen to call.
void judge_sanitizer(std::uint32_t sanitizer);

}  // namespace rewire::runtime
