// How commands print JSON.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rewire::cli {

/// On stdout. Text that is no UTF-8 (a path may be anything) is printed with replacement characters.
inline void print_json(const nlohmann::ordered_json& value, int indent = 2) {
  fmt::print("{}\n", value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}
inline void print_json_line(const nlohmann::ordered_json& value) {
  print_json(value, -1);
}

}  // namespace rewire::cli
