// JSON that somebody else may have written: a parser with limits, and views that report the place of a value
// of the wrong kind. All JSON is read here, except headers of safetensors files, which have their own
// grammar (safetensors_header.h).
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

/// Limits far above any file of ours: choices.json of a large network has about 100 KB and three levels.
inline constexpr std::size_t kMostJsonBytes = std::size_t{1} << 24;
inline constexpr int kMostJsonDepth = 16;
inline constexpr std::size_t kMostJsonKeys = 4096;  // of one object: a lookup is linear in their number

/// Parses JSON. Throws UserError ("WHERE is not valid JSON: …") if the text is not JSON or not UTF-8, is deeper
/// than kMostJsonDepth, or has a repeated key, an object of more than kMostJsonKeys, or a number beyond a
/// double's range.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& where);
nlohmann::ordered_json parse_json(std::span<const std::byte> text, const std::string& where);
/// Parses an object of whole numbers, 0 or more, with any number of keys, such as a tokenizer's vocabulary. Throws
/// UserError as above, and if a value is another.
std::vector<std::pair<std::string, std::int64_t>> parse_json_counts(std::string_view text,
                                                                    const std::string& where);
/// Reads a file of at most kMostJsonBytes. Throws UserError as above, and if the file cannot be read.
nlohmann::ordered_json read_json(const FilePlace& file);

/// A value in a file. Each accessor throws UserError if the value has another kind: "FILE: choices[2].key is
/// a number, not text". The document must outlive its views.
class JsonView {
 public:
  JsonView(const nlohmann::ordered_json& value, std::string file);

  /// Returns the member of an object; at() throws if there is none.
  JsonView at(std::string_view key) const;
  std::optional<JsonView> find(std::string_view key) const;
  /// Throws UserError, with the nearest match, if the object has a key that is not in `keys`.
  void only(std::initializer_list<std::string_view> keys) const;

  std::vector<JsonView> items() const;
  std::vector<std::pair<std::string, JsonView>> members() const;
  const std::string& text() const;
  /// Finite: the parser accepts no other number.
  double number() const;
  /// Returns a whole number from 0 to `most`.
  std::int64_t count(std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;

  bool is_object() const;
  const std::string& file() const { return file_; }
  const nlohmann::ordered_json& raw() const { return *value_; }
  /// Throws UserError about this value: "FILE: PLACE WHAT".
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  JsonView(const nlohmann::ordered_json& value, const std::string& file, std::string place);
  [[noreturn]] void is_no(std::string_view wanted) const;
  const nlohmann::ordered_json& object() const;

  const nlohmann::ordered_json* value_;
  std::string file_, place_;  // "" for the whole document
};

}  // namespace rewire::runtime
