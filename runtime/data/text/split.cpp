#include "runtime/data/text/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "ir/error.h"
#include "ir/printable.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

bool is_pattern(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

template <class Iterator>
void add_files(const fs::path& folder, std::vector<std::string>& files) {
  std::error_code error;
  for (Iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) {
      if constexpr (requires { it.disable_recursion_pending(); }) it.disable_recursion_pending();
      continue;
    }
    if (it->is_regular_file(error)) files.push_back(it->path().string());
    error.clear();
  }
  if (error) user_error("cannot read {}: {}", visible(folder.string()), error.message());
}

}  // namespace

ir::Schema split_parameters() {
  return {ir::path_parameter("validation", "",
                             "file, folder or pattern of the validation data; empty: a part "
                             "of data.path"),
          ir::float_parameter("validation_fraction", 0.1,
                              "share of the data, at their end, that is the validation split if there is no "
                              "other")
              .at_least(0)
              .below(1)};
}

std::int64_t validation_begin(std::int64_t count, double fraction) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(count) * (1 - fraction)));
}

std::vector<std::string> files_of_path(const std::string& path, const std::vector<std::string>& endings,
                                       bool nested) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) return {path};
  std::vector<std::string> files;
  const bool matches = !fs::exists(status) && is_pattern(path);
  fs::path folder = path;
  if (matches) folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    user_error("cannot read {}: {}", visible(path),
               error ? error.message() : "it is neither a file nor a folder");
  if (nested && !matches) {
    add_files<fs::recursive_directory_iterator>(folder, files);
  } else {
    add_files<fs::directory_iterator>(folder, files);
  }
  std::erase_if(files, [&](const std::string& file) {
    const std::string name = fs::path(file).filename().string();
    if (matches) return ::fnmatch(fs::path(path).filename().c_str(), name.c_str(), 0) != 0;
    return !endings.empty() &&
           std::ranges::none_of(endings, [&](const std::string& ending) { return name.ends_with(ending); });
  });
  std::ranges::sort(files);
  if (!files.empty()) return files;
  if (matches) user_error("{}: no file matches this pattern", visible(path));
  user_error("{}: the folder has no {}", visible(path),
             endings.empty() ? "file" : fmt::format("{} file", fmt::join(endings, " or ")));
}

bool is_validation_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    while (end < name.size() && std::isalpha(static_cast<unsigned char>(name[end])) != 0) ++end;
    const std::string_view word = std::string_view(name).substr(at, end - at);
    if (word == "val" || word == "valid" || word == "validation") return true;
    at = std::max(end, at + 1);
  }
  return false;
}

}  // namespace rewire::runtime
