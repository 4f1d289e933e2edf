// Shared by the `data` commands: settings without a recipe, and written pictures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/vision/png_file.h"
#include "runtime/recipe/recipe.h"

namespace rewire::cli {

/// Returns `recipe` with --set values of one section, "data" or "transforms". Throws UserError, which begins
/// with `command`, on values of another.
runtime::Recipe with_settings(std::string_view command, std::string_view section,
                              const std::vector<std::string>& settings, runtime::Recipe recipe);

/// Writes a PNG file atomically.
void write_picture(const std::string& path, const runtime::DrawnImage& image);

}  // namespace rewire::cli
