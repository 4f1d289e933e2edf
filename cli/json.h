// How commands print JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/streams.h"

namespace rewire::cli {

/// `text`, JSON of UTF-8, with what a terminal does not show as itself escaped as JSON escapes it: such
/// characters stand in strings alone.
std::string escaped_json(std::string_view text);

/// On stdout. Text that is no UTF-8 (a path may be anything) is printed with replacement characters.
inline void print_json(const nlohmann::ordered_json& value, int indent = 2) {
  write_stdout(
      escaped_json(value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n");
}
inline void print_json_line(const nlohmann::ordered_json& value) {
  print_json(value, -1);
}

}  // namespace rewire::cli
