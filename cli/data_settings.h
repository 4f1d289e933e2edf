// What the `data` commands share: settings without a recipe, and pictures that are written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/vision/png_file.h"
#include "runtime/recipe/recipe.h"

namespace rewire::cli {

/// `recipe` with --set values of one section, "data" or "transforms". UserError on those of another; `command`
/// begins it.
runtime::Recipe with_settings(std::string_view command, std::string_view section,
                              const std::vector<std::string>& settings, runtime::Recipe recipe);

/// In place of the file that is there, at once.
void write_picture(const std::string& path, const runtime::DrawnImage& image);

}  // namespace rewire::cli
