// Folders of real JPEG and PNG files for the tests of what reads them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {

/// One of the goldens: "png_rgb", "jpeg_420", … (tests/reference/images.py).
inline std::span<const std::byte> golden_image(const std::string& name) {
  static const runtime::TensorMap tensors =
      runtime::read_safetensors(std::string(REWIRE_GOLDENS) + "/images.safetensors").tensors;
  return tensors.at("file." + name + ".bytes").bytes();
}

class ImageFileTree {
 public:
  void put(const std::string& path, const std::string& image) const { write(path, golden_image(image)); }
  void write(const std::string& path, std::span<const std::byte> bytes) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    runtime::write_file_atomically(folder_.file(path), bytes);
  }
  void write(const std::string& path, std::string_view text) const {
    write(path, std::as_bytes(std::span(text)));
  }
  std::string file(const std::string& path) const { return folder_.file(path); }
  std::string path() const { return folder_.path().string(); }

  /// As data.format=FORMAT data.path=… opens it, with further text values.
  std::unique_ptr<runtime::ImageSource> open(
      const std::string& format, runtime::Split split = runtime::Split::train, std::int64_t channels = 3,
      const std::vector<std::pair<std::string, ir::Attribute>>& values = {}, std::int64_t classes = 0) const {
    ir::Selection selection{format};
    selection.set("path", path());
    for (const auto& [key, value] : values) selection.set(key, value);
    return runtime::make_image_source(selection, {split, {channels, 8, 8}, classes});
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace rewire::test
