// Rows of a comparison, one per difference: {"key": …, "a": VALUE or null, "b": VALUE or null}.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace rewire::runtime {

/// Returns the rows that differ, in the order of the keys.
template <class Value>
nlohmann::ordered_json different_rows(const std::map<std::string, Value>& a,
                                      const std::map<std::string, Value>& b) {
  std::set<std::string> keys;
  for (const auto& [key, value] : a) keys.insert(key);
  for (const auto& [key, value] : b) keys.insert(key);
  const auto value_of = [](const std::map<std::string, Value>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? nlohmann::ordered_json() : nlohmann::ordered_json(found->second);
  };
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string& key : keys) {
    nlohmann::ordered_json row = {{"key", key}, {"a", value_of(a, key)}, {"b", value_of(b, key)}};
    if (row["a"] != row["b"]) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace rewire::runtime
