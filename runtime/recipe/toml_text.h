// Text into TOML, and what messages say of it. It keeps toml++ to the files that read recipes and sweeps.
#pragma once

#include <toml++/toml.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace rewire::runtime {

/// Bytes. What people write by hand has a few thousand.
inline constexpr std::size_t kLargestToml = 64 << 10;

/// UserError with the line where the text is no TOML, or more than kLargestToml.
toml::table parse_toml(std::string_view text, std::string_view file_name);

/// The shortest text that TOML reads back as the same number: 0.003, 1e-08, 2.0.
std::string toml_text(double value);

/// "the integer 3", "a list", …: what stands in the file.
std::string describe(const toml::node& node);

/// `text`, the value of `key`. UserError where it holds a NUL: C takes names and paths to end there.
const std::string& without_nul(const std::string& text, std::string_view place, std::string_view key);

/// "fashion.toml:12", or what --set said: where an error is.
struct Place {
  std::string text;
  static Place of(std::string_view file_name, const toml::source_region& source);
};

}  // namespace rewire::runtime
