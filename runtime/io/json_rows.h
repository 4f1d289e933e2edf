// The objects in lists of a large JSON file, one at a time: a document of {"images": [{…}, …], …}, or of [{…}, …].
// Only the members that are asked for are kept, so memory does not grow with the file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/place.h"

namespace rewire::runtime {

/// An object of a list. Each accessor throws UserError if the member is missing or has another kind: "FILE:
/// annotations[12] has no "bbox"", "FILE: annotations[12].bbox is not a list of 4 numbers".
class JsonRow {
 public:
  std::int64_t whole(std::string_view key) const;
  double number(std::string_view key) const;  // finite
  std::span<const double> numbers(std::string_view key, std::size_t count) const;
  const std::string& text(std::string_view key) const;
  bool truth(std::string_view key) const;  // 0, 1, false or true

  /// Returns its place in the file, "annotations[12]".
  std::string place() const;
  /// Throws UserError: "FILE: annotations[12] WHAT".
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  friend class JsonRowReader;
  enum class Kind : std::uint8_t { missing, whole, number, text, truth, numbers, other };
  struct Value {
    Kind kind = Kind::missing;
    std::int64_t whole = 0;
    double number = 0;
    std::string text;
    std::vector<double> numbers;
  };
  const Value& at(std::string_view key) const;
  [[noreturn]] void is_no(std::string_view key, std::string_view wanted) const;

  const std::string* file_ = nullptr;
  const std::string* list_ = nullptr;
  std::size_t index_ = 0;
  std::span<const std::string> keys_;
  std::vector<Value> values_;  // by key
};

/// A list whose objects are read.
struct JsonRowList {
  std::string name;               // the document's member; "" if the document is the list
  std::vector<std::string> keys;  // the members that are kept
  std::function<void(const JsonRow&)> take;
};

/// Reads the file once, in blocks, and calls `take` for each object in the order of the file. `format` says
/// what the file should be. Throws UserError if it cannot be read, is not JSON ("FILE is not valid JSON:
/// annotations[12], byte 345: REASON"), lacks a list or has one twice, or if an object has
/// one of the keys twice.
void read_json_rows(const FilePlace& file, std::string_view format, const std::vector<JsonRowList>& lists);

}  // namespace rewire::runtime
