#include "runtime/io/csv.h"

#include <charconv>
#include <system_error>

namespace rewire::runtime {
namespace {

bool is_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

}  // namespace

std::string csv_field(std::string_view text) {
  const bool is_formula = !text.empty() &&
                          std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos &&
                          !is_number(text);
  std::string field = is_formula ? "'" : "";
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return field.append(text);
  field.insert(0, 1, '"');
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + '"';
}

}  // namespace rewire::runtime
