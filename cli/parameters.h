// Prints parameters of plugins, sources of images, objectives and others for `info` commands.
#pragma once

#include <nlohmann/json.hpp>

#include "ir/schema.h"

namespace rewire::cli {

/// Prints two lines: name, type, default and range; then the doc.
void print_parameter(const ir::ParameterInfo& parameter);
/// Returns {"name", "type", "default", "range", "doc"}.
nlohmann::ordered_json parameter_json(const ir::ParameterInfo& parameter);

}  // namespace rewire::cli
