#include "runtime/data/sources/image_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <system_error>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/image_file.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 16;  // of folders in a class: links may lead in circles

/// What would silently be missing from a class.
bool is_other_image(const fs::path& path) {
  const std::string ending = lower_case(path.extension().string());
  constexpr std::string_view kOthers[] = {".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp"};
  return std::ranges::find(kOthers, ending) != std::end(kOthers);
}

void collect_at_depth(const fs::path& folder, std::int64_t label, int depth, std::vector<ImageFile>& files) {
  if (depth > kMostDepth) {
    user_error("{}: folders {} deep: does a link lead back to one of them?", visible(folder.native()),
               kMostDepth);
  }
  for (const fs::path& path : folder_entries(folder)) {
    if (is_image_folder(path)) {
      collect_at_depth(path, label, depth + 1, files);
    } else if (is_image_name(path.native())) {
      files.push_back({path.string(), label});
    } else if (is_other_image(path)) {
      user_error("{}: only JPEG and PNG files are read: convert it, or take it out of the folder",
                 visible(path.native()));
    }
  }
}

}  // namespace

std::vector<fs::path> folder_entries(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().native().starts_with('.')) all.push_back(at->path());
  }
  if (error) user_error("{}: {}", visible(folder.native()), error.message());
  std::ranges::sort(all, {}, [](const fs::path& path) -> const std::string& { return path.native(); });
  return all;
}

bool is_image_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : folder_entries(folder)) {
    if (is_image_folder(path)) names.push_back(path.filename().string());
  }
  return names;
}

void collect_images(const fs::path& folder, std::int64_t label, std::vector<ImageFile>& files) {
  collect_at_depth(folder, label, 1, files);
}

std::vector<std::string> lines_of_file(const std::string& path) {
  std::vector<std::string> lines;
  const std::vector<std::byte> bytes = read_file(path);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

void check_image_channels(const std::string& folder, std::int64_t channels) {
  if (channels == 1 || channels == 3) return;
  user_error("{}: images have 1 or 3 channels, model.channels is {}", visible(folder), channels);
}

std::string file_stamp(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    user_error("cannot read {}: {}", visible(path), std::generic_category().message(errno));
  // The time of the last change of the file or of what is known of it cannot be set to another, as that of the contents.
  return fmt::format("{}\n{} {}.{:09} {}.{:09}\n",
                     std::filesystem::absolute(path).lexically_normal().string(), status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec);
}

std::string ImageFiles::name() const {
  return visible(list_.folder);
}

StoredImage ImageFiles::read(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const {
  const std::string& path = at(index).path;
  buffer.file = read_file(path);
  const ImageSize size = decode_image(buffer.file, path, channels_, buffer.pixels, needed);
  return {buffer.pixels, size.height, size.width};
}

std::string ImageFiles::image_name(std::int64_t index) const {
  return visible(at(index).path);
}

std::string ImageFiles::fingerprint() const {
  codegen::Digest digest;
  const auto add = [&digest](std::string_view text) { digest.update(std::as_bytes(std::span(text))); };
  add(fmt::format("files {}\n", channels_));
  for (const ImageFile& file : list_.files) add(file_stamp(file.path));
  return digest.hex();
}

}  // namespace rewire::runtime
