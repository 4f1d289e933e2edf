// Prints JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/streams.h"

namespace rewire::cli {

/// Escapes, in JSON's way, characters that a terminal does not show as they are. `text` is JSON in UTF-8;
/// such characters occur only in its strings.
std::string escaped_json(std::string_view text);

/// Prints to stdout. Text that is not UTF-8 (a path may be anything) gets replacement characters.
inline void print_json(const nlohmann::ordered_json& value, int indent = 2) {
  write_stdout(
      escaped_json(value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n");
}
inline void print_json_line(const nlohmann::ordered_json& value) {
  print_json(value, -1);
}

}  // namespace rewire::cli
