// The header's grammar as a state machine over the JSON library's events. It builds nothing but the entries,
// so wrong or deeply nested text is refused at the first unexpected event.
#include "runtime/io/safetensors_header.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

using nlohmann::json;

class HeaderReader final : public json::json_sax_t {
 public:
  explicit HeaderReader(const std::string& file_name) : file_name_(file_name) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t /*elements*/) override {
    switch (state_) {
      case State::start:
        state_ = State::top;
        return true;
      case State::entry_begins:
        state_ = State::entry;
        return true;
      case State::metadata_begins:
        state_ = State::metadata;
        return true;
      default:
        misplaced("an object");
    }
  }

  bool end_object() override {
    switch (state_) {
      case State::top:
        state_ = State::end;
        return true;
      case State::metadata:
        state_ = State::top;
        return true;
      default:
        break;  // State::entry: after a key comes a value, whose event is checked
    }
    for (const std::string_view key : {"dtype", "shape", "data_offsets"}) {
      if (!keys_.contains(std::string(key))) fail(fmt::format("{} has no '{}'", where(), key));
    }
    state_ = State::top;
    return true;
  }

  bool key(std::string& name) override {
    if (state_ == State::metadata) {
      if (header_.metadata.contains(name)) fail(fmt::format("metadata '{}' appears twice", printable(name)));
      metadata_key_ = name;
      state_ = State::metadata_value;
    } else if (state_ == State::entry) {
      entry_key(name);
    } else if (name.find('\0') != std::string::npos) {
      fail(fmt::format("the name '{}' holds a NUL character", printable(name)));
    } else if (!names_.insert(name).second) {
      fail(fmt::format("the name '{}' appears twice", printable(name)));
    } else if (name == "__metadata__") {
      state_ = State::metadata_begins;
    } else {
      header_.entries.push_back({name, "", {}, {}});
      keys_.clear();
      state_ = State::entry_begins;
    }
    return true;
  }

  bool string(std::string& value) override {
    if (state_ == State::metadata_value) {
      header_.metadata.emplace(metadata_key_, value);
      state_ = State::metadata;
    } else if (state_ == State::dtype) {
      header_.entries.back().dtype = value;
      state_ = State::entry;
    } else {
      misplaced("a string");
    }
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (state_ == State::shape_begins) {
      state_ = State::shape;
    } else if (state_ == State::offsets_begin) {
      state_ = State::offsets;
      offsets_read_ = 0;
    } else {
      misplaced("an array");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets && offsets_read_ != 2) offsets_are_two();
    state_ = State::entry;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape) {
      header_.entries.back().shape.push_back(value);
    } else if (state_ == State::offsets) {
      if (offsets_read_ == 2) offsets_are_two();
      header_.entries.back().data_offsets[offsets_read_++] = value;
    } else {
      misplaced("a number");
    }
    return true;
  }

  bool number_integer(number_integer_t) override { misplaced("a negative number"); }
  bool number_float(number_float_t, const std::string&) override {
    misplaced("a number that is not a 64-bit integer");
  }
  bool boolean(bool) override { misplaced("a truth value"); }
  bool null() override { misplaced("null"); }
  bool binary(json::binary_t&) override { misplaced("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    fail(fmt::format("the header is not JSON at byte {}", position));
  }

 private:
  enum class State {
    start,
    top,
    metadata_begins,
    metadata,
    metadata_value,
    entry_begins,
    entry,
    dtype,
    shape_begins,
    shape,
    offsets_begin,
    offsets,
    end
  };

  void entry_key(const std::string& name) {
    if (name == "dtype") {
      state_ = State::dtype;
    } else if (name == "shape") {
      state_ = State::shape_begins;
    } else if (name == "data_offsets") {
      state_ = State::offsets_begin;
    } else {
      fail(fmt::format("{} has an unknown key '{}'", where(), printable(name)));
    }
    if (!keys_.insert(name).second) fail(fmt::format("{} has '{}' twice", where(), name));
  }

  [[noreturn]] void fail(const std::string& fault) const {
    user_error("{}: not a readable safetensors file: {}", file_name_, fault);
  }
  [[noreturn]] void misplaced(std::string_view what) const {
    fail(fmt::format("{} has {}, which the format does not allow there", where(), what));
  }
  [[noreturn]] void offsets_are_two() const {
    fail(fmt::format("{} has 'data_offsets' that are not two numbers", where()));
  }
  std::string where() const {
    switch (state_) {
      case State::start:
      case State::top:
      case State::end:
        return "the header";
      case State::metadata_begins:
      case State::metadata:
      case State::metadata_value:
        return "the metadata";
      default:
        return fmt::format("tensor '{}'", printable(header_.entries.back().name));
    }
  }

  const std::string& file_name_;
  State state_ = State::start;
  SafetensorsHeader header_;
  std::set<std::string> names_;  // of tensors, and "__metadata__"
  std::set<std::string> keys_;   // of the entry being read
  std::string metadata_key_;
  std::size_t offsets_read_ = 0;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file_name) {
  // Like the reference library, refuses the white space that JSON allows before the header.
  if (text.find_first_of(" \t\r\n\xef") == 0)
    user_error("{}: not a readable safetensors file: the header does not begin with '{{'", file_name);
  HeaderReader reader(file_name);
  json::sax_parse(text.begin(), text.end(), &reader);
  // For the JSON library the text ends at a NUL, whatever follows it.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
    user_error("{}: not a readable safetensors file: the header is not JSON at byte {}", file_name, at + 1);
  return reader.take();
}

std::string print_safetensors_header(const SafetensorsHeader& header) {
  const auto quoted = [](const std::string& text) {
    try {
      return json(text).dump();
    } catch (const json::exception&) {
      user_error("cannot write the name or metadata '{}' into a safetensors file: it is not UTF-8",
                 printable(text));
    }
  };
  std::vector<std::string> members;
  if (!header.metadata.empty()) {
    std::vector<std::string> items;
    for (const auto& [key, value] : header.metadata) items.push_back(quoted(key) + ":" + quoted(value));
    members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(items, ",")));
  }
  for (const SafetensorsEntry& entry : header.entries) {
    members.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})",
                                  quoted(entry.name), entry.dtype, fmt::join(entry.shape, ","),
                                  fmt::join(entry.data_offsets, ",")));
  }
  return fmt::format("{{{}}}", fmt::join(members, ","));
}

}  // namespace rewire::runtime
