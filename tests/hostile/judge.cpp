#include "tests/hostile/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestLine = 2000, kMostMemory = std::size_t{600} << 20;
constexpr std::uintmax_t kMostHashed = 1 << 24;

/// The character that begins at `at`, which moves behind it; -1 where that is no UTF-8.
std::int32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc2 || first > 0xf4 || at + static_cast<std::size_t>(more) > text.size()) return -1;
  std::int32_t code = first & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    if ((byte(at) & 0xc0) != 0x80) return -1;
    code = code << 6 | (byte(at++) & 0x3f);
  }
  constexpr std::int32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  return code < kLeast[more] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? -1 : code;
}

/// It moves a terminal's cursor, or turns the direction of what follows.
bool is_control(std::int32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

bool is_temporary(const std::string& path) {
  return path.ends_with(".tmp") || fs::path(path).filename().string().starts_with(".");
}

std::string judge_lines(const Case& given, const std::string& err, const std::string& folder) {
  const std::vector<std::string>& phrases = given.expected.phrases;
  if (phrases.empty()) return err.empty() ? "" : "stderr is not empty";
  if (!err.starts_with("rewire: ")) return "stderr does not begin with 'rewire: '";
  if (std::ranges::count(err, '\n') > given.expected.lines || !err.ends_with('\n'))
    return fmt::format("stderr is not {} line{}", given.expected.lines, given.expected.lines == 1 ? "" : "s");
  std::string text = err;
  std::ranges::replace(text, '\n', ' ');
  if (std::string fault = judge_text(text); !fault.empty()) return fault;
  for (const std::string& phrase : phrases) {
    const std::string wanted = in_folder(phrase, folder);
    if (err.find(wanted) == std::string::npos) return fmt::format("stderr lacks '{}'", wanted);
  }
  return "";
}

std::string judge_tree(int code, const Tree& before, const Tree& after) {
  for (const auto& [path, content] : after) {
    if (before.contains(path) ? code != 0 && before.at(path) != content : code != 0 || is_temporary(path))
      return fmt::format("it {} {}", before.contains(path) ? "changed" : "left behind", path);
  }
  for (const auto& [path, content] : before) {
    if (code != 0 && !after.contains(path)) return fmt::format("it removed {}", path);
  }
  return "";
}

}  // namespace

std::string judge_text(std::string_view text) {
  if (text.size() > kLongestLine) return fmt::format("a line of {} bytes", text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const std::int32_t code = next_character(text, at);
    if (code < 0) return fmt::format("byte {} of the line is no UTF-8", begin);
    if (is_control(code)) return fmt::format("byte {} of the line is the control U+{:04X}", begin, code);
  }
  return "";
}

Tree tree_of(const std::string& folder) {
  Tree tree;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, options, error)) {
    const fs::file_status status = entry.symlink_status(error);
    const bool plain = fs::is_regular_file(status);
    const std::uintmax_t size = plain ? entry.file_size(error) : 0;
    const std::string path = entry.path().lexically_relative(folder).string();
    tree[path] = {size, plain && size < kMostHashed
                            ? std::hash<std::string>()(read_bytes(entry.path().string()))
                            : static_cast<std::size_t>(status.type())};
  }
  return tree;
}

std::string in_folder(std::string text, const std::string& folder) {
  if (text == "@") return folder;
  for (std::size_t at = text.find("@/"); at != std::string::npos; at = text.find("@/", at + folder.size()))
    text.replace(at, 1, folder);
  return text;
}

std::string judge(const Case& given, const Ended& ended, const std::string& folder, const Tree& before) {
  if (ended.hung) return "it did not end in time";
  if (ended.code != given.expected.code)
    return fmt::format("exit code {}, not {}", ended.code, given.expected.code);
  if (std::string fault = judge_lines(given, ended.err, folder); !fault.empty()) return fault;
  if (ended.peak_bytes > kMostMemory) return fmt::format("it took {} MB", ended.peak_bytes >> 20);
  if (std::string fault = judge_tree(ended.code, before, tree_of(folder)); !fault.empty()) return fault;
  return given.expected.check ? given.expected.check(ended, folder) : "";
}

}  // namespace rewire::test
