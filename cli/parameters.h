// How `info` commands print what a plugin, a source of images, an objective and the like can be told.
#pragma once

#include <nlohmann/json.hpp>

#include "ir/schema.h"

namespace rewire::cli {

/// Two lines: name, type, default and range; what it does.
void print_parameter(const ir::ParameterInfo& parameter);
/// {"name", "type", "default", "range", "doc"}
nlohmann::ordered_json parameter_json(const ir::ParameterInfo& parameter);

}  // namespace rewire::cli
