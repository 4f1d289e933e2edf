#include "cli/data_settings.h"

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::cli {

runtime::Recipe with_settings(std::string_view command, std::string_view section,
                              const std::vector<std::string>& settings, runtime::Recipe recipe) {
  for (const std::string& setting : settings) {
    if (!setting.starts_with(fmt::format("{}.", section)))
      user_error("{}: --set takes {}.key=value, not '{}'", command, section, runtime::printable(setting));
  }
  return runtime::parse_recipe("", command, settings, runtime::RecipeOf::anyone, std::move(recipe));
}

void write_picture(const std::string& path, const runtime::DrawnImage& image) {
  runtime::write_file_atomically(path, runtime::encode_png(image));
}

}  // namespace rewire::cli
