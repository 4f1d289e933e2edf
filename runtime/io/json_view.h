// JSON that somebody else may have written: one parser with limits, and values that say where they stand when
// they are not what a reader takes them for. Every JSON that is read is read through this, but the header of
// safetensors files, whose grammar is its own (safetensors_header.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/io/place.h"

namespace rewire::runtime {

/// What no file of ours comes near: a choices.json of a large network has some 100 KB, three levels deep.
inline constexpr std::size_t kMostJsonBytes = std::size_t{1} << 24;
inline constexpr int kMostJsonDepth = 16;
inline constexpr std::size_t kMostJsonKeys = 4096;  // of an object: a lookup is linear in their number

/// UserError, "WHERE is no JSON: …", on text that is none or not UTF-8, deeper than kMostJsonDepth, with a
/// key that stands twice in an object, an object of more than kMostJsonKeys, or a number beyond a double's range.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& where);
nlohmann::ordered_json parse_json(std::span<const std::byte> text, const std::string& where);
/// Of a file of at most kMostJsonBytes; UserError as above, and where it cannot be read.
nlohmann::ordered_json read_json(const FilePlace& file);

/// A value in a file. Each accessor throws a UserError where the value is of another kind: "FILE:
/// choices[2].key is a number, not text". The document must outlive its views.
class JsonView {
 public:
  JsonView(const nlohmann::ordered_json& value, std::string file);

  /// The member of an object.
  JsonView at(std::string_view key) const;
  std::optional<JsonView> find(std::string_view key) const;
  /// Nothing but these keys; a UserError with the nearest match.
  void only(std::initializer_list<std::string_view> keys) const;

  std::vector<JsonView> items() const;
  std::vector<std::pair<std::string, JsonView>> members() const;
  const std::string& text() const;
  /// Finite: a document holds no other.
  double number() const;
  /// A whole number from 0 to `most`.
  std::int64_t count(std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;

  bool is_object() const;
  const std::string& file() const { return file_; }
  const nlohmann::ordered_json& raw() const { return *value_; }
  /// A UserError about this value: "FILE: PLACE WHAT".
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  JsonView(const nlohmann::ordered_json& value, const std::string& file, std::string place);
  [[noreturn]] void is_no(std::string_view wanted) const;
  const nlohmann::ordered_json& object() const;

  const nlohmann::ordered_json* value_;
  std::string file_, place_;  // "" for the whole document
};

}  // namespace rewire::runtime
