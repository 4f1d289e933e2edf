#include "runtime/io/pytorch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "ir/printable.h"
#include "ir/text_error.h"

namespace rewire::runtime {
namespace {

/// A zip file's first entry: 30 bytes, then its name. The last four of the 30 bytes are
/// the lengths of what follows.
constexpr std::string_view kZipEntry = "PK\x03\x04";
constexpr std::size_t kZipHeader = 30, kNameLength = 26;
/// Protocol 2, then PyTorch's magic number as a long of ten bytes.
constexpr std::string_view kPickle = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

/// Returns the text in quotes, as Python reads it.
std::string python_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return '"' + visible(quoted) + '"';
}

}  // namespace

bool is_pytorch_file(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(kPickle)) return true;
  if (!text.starts_with(kZipEntry) || text.size() < kZipHeader) return false;
  const auto length = std::to_integer<std::size_t>(bytes[kNameLength]) +
                      256 * std::to_integer<std::size_t>(bytes[kNameLength + 1]);
  // torch.save puts all entries into one folder, and data.pkl first.
  return text.substr(kZipHeader, length).ends_with("/data.pkl");
}

void refuse_pytorch_file(const std::string& path) {
  const std::string made = std::filesystem::path(path).replace_extension(".safetensors").string();
  throw ir::TextError(fmt::format(
      "{}: this is a PyTorch file, which can run code; Rewire reads safetensors. "
      "Two lines of Python convert it:\n"
      "import torch; from safetensors.torch import save_file; "
      "w = torch.load({}, map_location=\"cpu\", weights_only=True)\n"
      "save_file({{k: v.contiguous().clone() for k, v in next((w[k] for k in (\"model\", \"state_dict\", "
      "\"teacher\") if k in w), w).items()}}, {})",
      visible(path), python_text(path), python_text(made)));
}

}  // namespace rewire::runtime
