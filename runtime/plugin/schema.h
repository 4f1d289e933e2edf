// A plugin's parameters: the descriptor's declarations in C, judged and turned into a schema of Rewire.
#pragma once

#include <string>
#include <string_view>

#include "ir/schema.h"
#include "plugins/sdk/rewire_plugin.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// Returns the descriptor's schema. Throws UserError if it contradicts itself: the plugin's author has to
/// fix it.
ir::Schema read_schema(const rewire_plugin& plugin);

/// Returns the text that the resolved recipe records: true or false for a bool, other kinds as written.
std::string canonical_text(const ir::Attribute& value, std::string_view text);

}  // namespace rewire::runtime
