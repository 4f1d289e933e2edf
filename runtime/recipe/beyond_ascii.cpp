#include "runtime/recipe/beyond_ascii.h"

#include <fmt/format.h>

#include <boost/nowide/utf/utf.hpp>

#include <iterator>

#include "ir/error.h"
#include "runtime/recipe/key_depth.h"

namespace rewire::runtime {
namespace {

using Utf8 = boost::nowide::utf::utf_traits<char>;
using boost::nowide::utf::code_point;

constexpr code_point kFirstPrivate = 0xE000, kLastPrivate = 0xF8FF;

/// Returns the first character of `text`, which is not empty. If that is not valid UTF-8, returns one byte.
std::string_view first_character(std::string_view text, bool& valid) {
  const char* at = text.data();
  const code_point decoded = Utf8::decode(at, text.data() + text.size());
  valid = boost::nowide::utf::is_valid_codepoint(decoded);
  return text.substr(0, valid ? static_cast<std::size_t>(at - text.data()) : 1);
}

/// Private-use characters in order, without those that an escape in the text may spell, such as "\uE000".
class PrivateCharacters {
 public:
  PrivateCharacters(std::string_view text, std::string_view file_name) : file_name_(file_name) {
    for (const char c : text) lower_ += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  std::string next() {
    while (next_ <= kLastPrivate && lower_.find(fmt::format("{:x}", next_)) != std::string::npos) ++next_;
    if (next_ > kLastPrivate) {
      user_error("{}: it has too many different characters beyond ASCII, more than 6000", file_name_);
    }
    std::string character;
    Utf8::encode(next_++, std::back_inserter(character));
    return character;
  }

 private:
  std::string_view file_name_;
  std::string lower_;
  code_point next_ = kFirstPrivate;
};

}  // namespace

BeyondAscii::BeyondAscii(std::string_view text, std::string_view file_name) {
  PrivateCharacters free(text, file_name);
  std::unordered_map<std::string_view, std::string> swapped;
  std::size_t at = 0;
  if (text.starts_with(kByteOrderMark)) {
    text_ = kByteOrderMark;
    at = kByteOrderMark.size();
  }
  while (at < text.size()) {
    bool valid = false;
    const std::string_view character = first_character(text.substr(at), valid);
    at += character.size();
    if (!valid || character.size() == 1) {
      text_ += character;
      continue;
    }
    const auto [entry, is_new] = swapped.try_emplace(character);
    if (is_new) {
      entry->second = free.next();
      original_.emplace(entry->second, character);
    }
    text_ += entry->second;
  }
}

std::string BeyondAscii::restored(std::string_view text) const {
  std::string restored;
  while (!text.empty()) {
    bool valid = false;
    const std::string_view character = first_character(text, valid);
    text.remove_prefix(character.size());
    const auto found = original_.find(std::string(character));
    restored += found == original_.end() ? character : found->second;
  }
  return restored;
}

void BeyondAscii::restore(toml::node& node) const {
  if (toml::table* const table = node.as_table()) restore(*table);
  if (toml::array* const array = node.as_array()) {
    for (toml::node& element : *array) restore(element);
  }
  if (toml::value<std::string>* const value = node.as_string()) value->get() = restored(value->get());
}

void BeyondAscii::restore(toml::table& table) const {
  if (original_.empty()) return;
  std::vector<toml::key> changed;
  for (auto&& [key, node] : table) {
    restore(node);
    if (restored(key.str()) != key.str()) changed.push_back(key);
  }
  for (const toml::key& key : changed) {
    const auto entry = table.find(key.str());
    toml::key original(restored(key.str()), toml::source_region(key.source()));
    // Every node of a table has one of TOML's types.
    entry->second.visit([&](auto& node) { table.insert_or_assign(std::move(original), std::move(node)); });
    table.erase(key.str());
  }
}

}  // namespace rewire::runtime
