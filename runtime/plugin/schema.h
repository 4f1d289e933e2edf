// A plugin's parameters: what its descriptor declares in C, judged, as the schema that all of Rewire has.
#pragma once

#include <string>
#include <string_view>

#include "ir/schema.h"
#include "plugins/sdk/rewire_plugin.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// The descriptor's schema. UserError if it contradicts itself: the plugin is broken, and its author has to
/// know.
ir::Schema read_schema(const rewire_plugin& plugin);

/// As the resolved recipe records it: a bool as true or false, other kinds as written.
std::string canonical_text(const ir::Attribute& value, std::string_view text);

}  // namespace rewire::runtime
