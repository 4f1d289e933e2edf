// Named residents with a schema: models, sources of images, objectives, optimizers, schedules. Each is a row
// of one list, and only the row's own file knows it.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/schema.h"

namespace rewire::ir {

/// The name of a row with its given parameters; all others have the schema's defaults.
struct Selection {
  std::string name;
  Attributes values = {};

  Selection& set(std::string_view parameter, Attribute value) {
    values.set(parameter, std::move(value));
    return *this;
  }
};

/// The name of a row and one line about it.
struct NamedDoc {
  std::string name, doc = {};
};

template <class Row>
std::vector<NamedDoc> named_docs(std::span<const Row* const> rows) {
  std::vector<NamedDoc> docs;
  for (const Row* row : rows) docs.push_back({std::string(row->name), std::string(row->doc)});
  return docs;
}

template <class Row>
std::vector<std::string> row_names(std::span<const Row* const> rows) {
  std::vector<std::string> names;
  for (const Row* row : rows) names.emplace_back(row->name);
  return names;
}

/// Returns the row. Throws UserError "optimizer.name=sdg is unknown: it takes one of adamw|sgd (did you mean
/// 'sgd'?)".
template <class Row>
const Row& find_row(std::span<const Row* const> rows, std::string_view key, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  if (found != rows.end()) return **found;
  const std::vector<std::string> names = row_names(rows);
  user_error("{}={} is unknown: it takes one of {}{}", key, name, fmt::join(names, "|"),
             did_you_mean(name, names));
}

}  // namespace rewire::ir
