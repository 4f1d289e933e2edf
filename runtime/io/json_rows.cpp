// A state machine over the JSON library's events: the depth of nesting says whether a value is a list, a row, a
// member of a row or part of one.
#include "runtime/io/json_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

using nlohmann::json;

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
constexpr std::size_t kMostRowNumbers = 16;  // of one member: more are no box
constexpr int kMostRowDepth = 64;
constexpr int kNumberOverflow = 406;  // of the JSON library's exceptions

/// The file's characters, a block at a time.
class JsonBlocks {
 public:
  explicit JsonBlocks(const FilePlace& place)
      : path_(place.path()), file_(open_place(place, O_RDONLY)), block_(kBlockBytes) {
    if (!file_) fail();
    struct stat status{};
    if (::fstat(file_.get(), &status) != 0) fail();
    if (!place.is_of_user() && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
      user_error("cannot read {}: it is a pipe or a device, not a file", path_);
    fill();
  }

  bool at_end() const { return next_ == end_; }
  char current() const { return *next_; }
  void advance() {
    if (++next_ == end_) fill();
  }

 private:
  [[noreturn]] void fail() const {
    user_error("cannot read {}: {}", path_, std::generic_category().message(errno));
  }

  void fill() {
    ssize_t count = 0;
    do {
      count = ::read(file_.get(), block_.data(), block_.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) fail();
    next_ = block_.data();
    end_ = next_ + count;
    // For the JSON library the text ends at a NUL, whatever follows it.
    if (const void* nul = std::memchr(next_, '\0', static_cast<std::size_t>(count)))
      user_error("{} is not valid JSON: byte {} is NUL", path_,
                 before_ + static_cast<std::size_t>(static_cast<const char*>(nul) - next_) + 1);
    before_ += static_cast<std::size_t>(count);
  }

  const std::string& path_;
  codegen::Descriptor file_;
  std::vector<char> block_;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  std::size_t before_ = 0;  // bytes read
};

/// Iterates over the characters of a JsonBlocks; the default is the end.
struct BlockIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  JsonBlocks* blocks = nullptr;
  char operator*() const { return blocks->current(); }
  BlockIterator& operator++() {
    blocks->advance();
    return *this;
  }
  bool is_end() const { return blocks == nullptr || blocks->at_end(); }
  bool operator==(const BlockIterator& other) const { return is_end() == other.is_end(); }
};

}  // namespace

class JsonRowReader final : public json::json_sax_t {
 public:
  JsonRowReader(const std::string& file, std::string_view format, const std::vector<JsonRowList>& lists)
      : file_(file), format_(format), lists_(lists), read_(lists.size()) {
    row_.file_ = &file_;
    if (lists.front().name.empty()) list_depth_ = 1;
  }

  void check_complete() const {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      if (!read_[i]) user_error("{} has no list \"{}\": give {}", file_, lists_[i].name, format_);
    }
  }

  bool start_object(std::size_t /*elements*/) override {
    if (depth_ == list_depth_ && list_ != nullptr) {
      for (JsonRow::Value& value : row_.values_) value.kind = JsonRow::Kind::missing;
      value_ = nullptr;
    } else if (depth_ != 0 || list_depth_ == 1) {
      other("an object");
    }
    return open();
  }

  bool end_object() override {
    --depth_;
    if (depth_ == list_depth_ && list_ != nullptr) {
      list_->take(row_);
      ++row_.index_;
    }
    return true;
  }

  bool key(std::string& name) override {
    if (depth_ == list_depth_ + 1 && list_ != nullptr) {
      const auto found = std::ranges::find(list_->keys, name);
      value_ = nullptr;
      if (found == list_->keys.end()) return true;
      value_ = &row_.values_[static_cast<std::size_t>(found - list_->keys.begin())];
      if (value_->kind != JsonRow::Kind::missing) row_.refuse(fmt::format("has \"{}\" twice", name));
    } else if (depth_ == list_depth_ - 1) {
      const auto found = std::ranges::find(lists_, name, &JsonRowList::name);
      next_list_ = found == lists_.end() ? nullptr : &*found;
    }
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (depth_ == list_depth_ - 1 && (next_list_ != nullptr || list_depth_ == 1)) {
      begin_list(list_depth_ == 1 ? lists_.front() : *next_list_);
    } else if (depth_ == list_depth_ + 1 && value_ != nullptr) {
      value_->kind = JsonRow::Kind::numbers;
      value_->numbers.clear();
    } else {
      other("a list");
    }
    return open();
  }

  bool end_array() override {
    if (--depth_ == list_depth_ - 1) list_ = next_list_ = nullptr;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    if (value > kMost) return number(JsonRow::Kind::number, 0, static_cast<double>(value));
    return number(JsonRow::Kind::whole, static_cast<std::int64_t>(value), static_cast<double>(value));
  }
  bool number_integer(number_integer_t value) override {
    return number(JsonRow::Kind::whole, value, static_cast<double>(value));
  }
  bool number_float(number_float_t value, const std::string& /*text*/) override {
    return number(JsonRow::Kind::number, 0, value);
  }
  bool string(std::string& value) override {
    if (JsonRow::Value* member = scalar_member()) {
      member->kind = JsonRow::Kind::text;
      member->text = value;
    } else {
      other("text");
    }
    return true;
  }
  bool boolean(bool value) override {
    if (JsonRow::Value* member = scalar_member()) {
      member->kind = JsonRow::Kind::truth;
      member->whole = value ? 1 : 0;
    } else {
      other("true or false");
    }
    return true;
  }
  bool null() override {
    other("null");
    return true;
  }
  bool binary(json::binary_t&) override { return true; }  // not in text

  bool parse_error(std::size_t position, const std::string& last, const json::exception& error) override {
    const std::string place = list_ != nullptr ? row_.place() + ", " : "";
    const bool in_text = std::ranges::count(last, '"') % 2 == 1;
    if (!in_text && (last.ends_with('N') || last.ends_with('I')))
      user_error("{} is not valid JSON: {}byte {}: NaN, Infinity and None are no values of JSON", file_,
                 place, position);
    if (error.id == kNumberOverflow)
      user_error("{}: {}byte {}: the number {} is too large", file_, place, position, printable(last));
    const std::string text = error.what();  // "[json…] parse error at line 1, column 8: … - REASON"
    const std::size_t dash = text.find(" - ");
    user_error("{} is not valid JSON: {}byte {}: {}", file_, place, position,
               printable(dash == std::string::npos ? text : text.substr(dash + 3)));
  }

 private:
  bool open() {
    if (++depth_ > kMostRowDepth)
      user_error("{} is not {}: it is more than {} levels deep", file_, format_, kMostRowDepth);
    return true;
  }

  void begin_list(const JsonRowList& list) {
    const auto at = static_cast<std::size_t>(&list - lists_.data());
    if (read_[at]) user_error("{} has the list \"{}\" twice: give {}", file_, list.name, format_);
    read_[at] = true;
    list_ = &list;
    row_.list_ = &list.name;
    row_.index_ = 0;
    row_.keys_ = list.keys;
    row_.values_.resize(list.keys.size());
  }

  /// Returns the wanted member whose value comes now; null for another place.
  JsonRow::Value* scalar_member() { return depth_ == list_depth_ + 1 && list_ != nullptr ? value_ : nullptr; }

  bool number(JsonRow::Kind kind, std::int64_t whole, double value) {
    if (JsonRow::Value* member = scalar_member()) {
      member->kind = kind;
      member->whole = whole;
      member->number = value;
    } else if (depth_ == list_depth_ + 2 && list_ != nullptr && value_ != nullptr &&
               value_->numbers.size() < kMostRowNumbers) {
      value_->numbers.push_back(value);
    } else {
      other("a number");
    }
    return true;
  }

  /// A value that is no list, row, wanted scalar or number of a wanted list: it is skipped, unless one of these
  /// had to be there.
  void other(std::string_view kind) {
    if (depth_ == 0) user_error("{} is {}, not {}", file_, kind, format_);
    if (depth_ == list_depth_ - 1 && next_list_ != nullptr)
      user_error("{}: {} is {}, not a list: give {}", file_, next_list_->name, kind, format_);
    if (list_ == nullptr) return;
    if (depth_ == list_depth_) row_.refuse(fmt::format("is {}, not an object", kind));
    if (value_ != nullptr) value_->kind = JsonRow::Kind::other;
  }

  const std::string& file_;
  const std::string_view format_;
  const std::vector<JsonRowList>& lists_;
  std::vector<bool> read_;
  int depth_ = 0, list_depth_ = 2;          // open brackets; how many of them around a row
  const JsonRowList* next_list_ = nullptr;  // whose name was the last key
  const JsonRowList* list_ = nullptr;       // which is being read
  JsonRow row_;
  JsonRow::Value* value_ = nullptr;  // of the row's last key; null if nobody asked for it
};

std::string JsonRow::place() const {
  return fmt::format("{}[{}]", *list_, index_);
}

void JsonRow::refuse(std::string_view what) const {
  user_error("{}: {} {}", *file_, place(), what);
}

void JsonRow::is_no(std::string_view key, std::string_view wanted) const {
  user_error("{}: {}.{} is not {}", *file_, place(), key, wanted);
}

const JsonRow::Value& JsonRow::at(std::string_view key) const {
  const auto found = std::ranges::find(keys_, key);
  const Value& value = values_[static_cast<std::size_t>(found - keys_.begin())];
  if (value.kind == Kind::missing) refuse(fmt::format("has no \"{}\"", key));
  return value;
}

std::int64_t JsonRow::whole(std::string_view key) const {
  const Value& value = at(key);
  if (value.kind != Kind::whole) is_no(key, "a whole number");
  return value.whole;
}

double JsonRow::number(std::string_view key) const {
  const Value& value = at(key);
  if (value.kind != Kind::whole && value.kind != Kind::number) is_no(key, "a number");
  return value.number;
}

std::span<const double> JsonRow::numbers(std::string_view key, std::size_t count) const {
  const Value& value = at(key);
  if (value.kind != Kind::numbers || value.numbers.size() != count)
    is_no(key, fmt::format("a list of {} numbers", count));
  return value.numbers;
}

const std::string& JsonRow::text(std::string_view key) const {
  const Value& value = at(key);
  if (value.kind != Kind::text) is_no(key, "text");
  return value.text;
}

bool JsonRow::truth(std::string_view key) const {
  const Value& value = at(key);
  const bool is_truth = value.kind == Kind::truth || value.kind == Kind::whole;
  if (!is_truth || (value.whole != 0 && value.whole != 1)) is_no(key, "0 or 1");
  return value.whole == 1;
}

void read_json_rows(const FilePlace& file, std::string_view format, const std::vector<JsonRowList>& lists) {
  JsonBlocks blocks(file);
  JsonRowReader reader(file.path(), format, lists);
  json::sax_parse(BlockIterator{&blocks}, BlockIterator{}, &reader);
  reader.check_complete();
}

}  // namespace rewire::runtime
