// Parses TOML and describes its values in messages. Only the files that read recipes and sweeps see toml++.
#pragma once

#include <toml++/toml.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace rewire::runtime {

/// In bytes. A file written by hand has a few thousand.
inline constexpr std::size_t kLargestToml = 64 << 10;

/// Throws UserError with the line if the text is not TOML, or is longer than kLargestToml.
toml::table parse_toml(std::string_view text, std::string_view file_name);

/// Returns the shortest text that TOML reads back as the same number: 0.003, 1e-08, 2.0.
std::string toml_text(double value);

/// Returns the kind and value in the file: "the integer 3", "a list", ….
std::string describe(const toml::node& node);

/// Returns `text`, the value of `key`. Throws UserError if it holds a NUL, where C would end a name or path.
const std::string& without_nul(const std::string& text, std::string_view place, std::string_view key);

/// The place of an error: "fashion.toml:12", or the text of --set.
struct Place {
  std::string text;
  static Place of(std::string_view file_name, const toml::source_region& source);
};

}  // namespace rewire::runtime
