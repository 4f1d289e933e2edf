// Cells of CSV (RFC 4180), for pandas and spreadsheets.
#pragma once

#include <string>
#include <string_view>

namespace rewire::runtime {

/// Quoted where the format asks for it. A spreadsheet takes a text that begins with = + - @, a tab or a carriage return
/// for a formula, and runs it: such a text gets a ' before it, unless all of it is a number.
std::string csv_field(std::string_view text);

}  // namespace rewire::runtime
