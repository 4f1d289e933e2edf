#include "runtime/data/vision/sources/image_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <string_view>
#include <system_error>

#include "codegen/files/descriptor.h"
#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/exif.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 16;  // of folders in a class: links may lead in circles

/// Returns true for folders that systems create beside copied files.
bool is_systems_folder(std::string_view name) {
  constexpr std::string_view kNames[] = {"$RECYCLE.BIN", "@eaDir",      "System Volume Information",
                                         "__MACOSX",     "__pycache__", "lost+found"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

/// Returns the entries sorted byte by byte.
std::vector<fs::directory_entry> all_entries(const fs::path& folder) {
  std::vector<fs::directory_entry> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    all.push_back(*at);
  if (error) user_error("{}: {}", visible(folder.native()), error.message());
  std::ranges::sort(
      all, {}, [](const fs::directory_entry& entry) -> const std::string& { return entry.path().native(); });
  return all;
}

/// Returns true if a regular file begins as an image; false if it cannot be read.
bool file_begins_as_image(const fs::path& path) {
  const codegen::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  std::byte begin[8];
  const ssize_t count = ::pread(file.get(), begin, sizeof begin, 0);
  return count > 0 && begins_as_image(std::span(begin).first(static_cast<std::size_t>(count)));
}

class ImageCollector {
 public:
  ImageCollector(const fs::path& root, std::int64_t label, ImageFileList& list)
      : root_(root), label_(label), list_(list) {}

  void collect(const fs::path& folder, int depth) {
    if (depth > kMostDepth) {
      user_error("{}: folders are nested {} deep: does a link lead back to one of them?",
                 visible(folder.native()), kMostDepth);
    }
    for (const fs::directory_entry& entry : all_entries(folder)) {
      const fs::path& path = entry.path();
      const std::string name = path.filename().string();
      std::error_code ignored;
      const bool is_folder = entry.is_directory(ignored);
      if (is_hidden(path)) {
        if (is_folder || is_image_name(name)) ++list_.unread[is_folder ? "hidden folder" : "hidden"];
      } else if (is_folder) {
        note_link(entry);
        collect(path, depth + 1);
      } else if (is_image_name(name) || (suffix_of(name).empty() && file_begins_as_image(path))) {
        note_link(entry);
        list_.files.push_back({path.string(), label_});
      } else if (is_other_image_name(name)) {
        ++list_.unread["." + suffix_of(name)];
      }
    }
  }

 private:
  void note_link(const fs::directory_entry& entry) {
    std::error_code ignored;
    if (entry.is_symlink(ignored) && !is_below(root_, entry.path())) ++list_.notes.links_out;
  }

  const fs::path& root_;
  std::int64_t label_;
  ImageFileList& list_;
};

}  // namespace

std::string unread_text(const UnreadKinds& kinds) {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : kinds) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, visible(kind)));
  }
  return fmt::to_string(fmt::join(parts, ", "));
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNames = 5;
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) first.push_back(visible(names[i]));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > kMostNames ? ", …" : "");
}

std::vector<fs::path> folder_entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : all_entries(folder)) {
    if (!is_hidden(entry.path())) paths.push_back(entry.path());
  }
  return paths;
}

bool is_below(const fs::path& root, const fs::path& path) {
  std::error_code error;
  const fs::path top = fs::canonical(root, error);
  if (error) return false;
  const fs::path place = fs::canonical(path, error);
  if (error) return true;  // a dangling link: reading reports it
  return std::ranges::mismatch(top, place).in1 == top.end();
}

bool is_image_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> class_folders(const fs::path& folder, std::vector<std::string>& others) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : all_entries(folder)) {
    std::error_code ignored;
    if (!entry.is_directory(ignored)) continue;
    std::string name = entry.path().filename().string();
    const bool is_class = !is_hidden(entry.path()) && !is_systems_folder(name);
    (is_class ? names : others).push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> ignored;
  return class_folders(folder, ignored);
}

void collect_images(const fs::path& root, const fs::path& folder, std::int64_t label, ImageFileList& list) {
  ImageCollector(root, label, list).collect(folder, 1);
}

std::vector<std::byte> read_regular_file(const std::string& path, std::size_t most) {
  return read_file(path, most);
}

std::vector<std::string> lines_of_file(const std::string& path, std::size_t most) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  std::vector<std::string> lines;
  const std::vector<std::byte> bytes = read_regular_file(path, kMostBytes);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty()) {
    if (lines.size() == most) user_error("{}: it has more than {} lines", visible(path), most);
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

void check_image_channels(const std::string& folder, std::int64_t channels) {
  if (channels == 1 || channels == 3) return;
  user_error("{}: images have 1 or 3 channels, but model.channels is {}", visible(folder), channels);
}

std::string file_stamp(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    user_error("cannot read {}: {}", visible(path), std::generic_category().message(errno));
  // ctime, the last change of the file or its metadata, cannot be set to another time, unlike mtime.
  return fmt::format("{}\n{} {}.{:09} {}.{:09}\n",
                     std::filesystem::absolute(path).lexically_normal().string(), status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec);
}

std::string ImageFiles::name() const {
  return visible(list_.folder);
}

ir::ParameterSpec exif_parameter() {
  return ir::enum_parameter(
      "exif", {"ignore", "apply"},
      "EXIF orientation of photographs; ignore: keep the pixels as stored; apply: rotate or mirror them");
}

Decoding decoding(const ir::Attributes& values, std::int64_t channels) {
  return {channels, values.get_string("exif") == "apply"};
}

StoredImage decode_file(ReadBuffer& buffer, std::string_view name, const Decoding& how,
                        const BoxFunction& needed) {
  const auto begun = std::chrono::steady_clock::now();
  const int orientation = exif_orientation(buffer.file);
  const ImageSize size = decode_upright(buffer.file, name, how.channels, buffer.pixels, needed,
                                        how.is_upright ? orientation : 1);
  buffer.decoding_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return {buffer.pixels, size.height, size.width, orientation, how.is_upright};
}

std::string decoding_stamp(std::string_view what, const Decoding& how) {
  return fmt::format("{} {} {} {}\n", what, how.channels, how.is_upright ? "upright" : "stored",
                     kDecoderVersion);
}

StoredImage ImageFiles::decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const {
  const std::string& path = at(index).path;
  buffer.file = read_regular_file(path, kMostImageBytes);
  return decode_file(buffer, path, decoding_, needed);
}

SourceNotes notes_of(const ImageFileList& list) {
  SourceNotes notes = list.notes;
  const std::string unread = unread_text(list.unread);
  if (!unread.empty()) {
    notes.left_out.insert(
        notes.left_out.begin(),
        fmt::format("files that look like images but are left out: {}; only JPEG and PNG files are read",
                    unread));
  }
  return notes;
}

std::string ImageFiles::sample_name(std::int64_t index) const {
  return visible(at(index).path);
}

std::string ImageFiles::fingerprint() const {
  codegen::Digest digest;
  const auto add = [&digest](std::string_view text) { digest.update(std::as_bytes(std::span(text))); };
  add(decoding_stamp("files", decoding_));
  for (const ImageFile& file : list_.files) add(file_stamp(file.path));
  return digest.hex();
}

}  // namespace rewire::runtime
