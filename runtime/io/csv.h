// Cells of CSV (RFC 4180), for pandas and spreadsheets.
#pragma once

#include <string>
#include <string_view>

namespace rewire::runtime {

/// Returns the text as a CSV cell, quoted where the format requires it. A spreadsheet runs a text that
/// begins with = + - @, a tab or a carriage return as a formula. Such a text gets a leading ', unless all of
/// it is a number.
std::string csv_field(std::string_view text);

}  // namespace rewire::runtime
