// Families of damage that every file can suffer, as rows of a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tests/hostile/table.h"

namespace rewire::test {

/// What stands in place of the file `name`: a folder, links that lead in a circle or nowhere, devices, a
/// terabyte of nothing, no permission, an empty file. Each is answered as `expected` says.
/// `Origin::command_line`: the user named the file, who may name a pipe too; `folder`: Rewire found it in a
/// folder, where a pipe (nobody writes to it) is answered as the others are.
enum class Origin { command_line, folder };
void add_odd_files(Table& table, const std::string& name, Origin origin, const Expectation& expected);
/// Those of links that lead nowhere: as good as no file, where there need not be one.
void add_lost_links(Table& table, const std::string& name, const Expectation& expected);

/// The file cut to each of `parts` lengths, spread from nothing to one byte short.
void add_cuts(Table& table, const std::string& name, std::size_t bytes, int parts,
              const Expectation& expected);

/// One bit of it flipped at each of `parts` places between two bytes.
void add_flips(Table& table, const std::string& name, std::size_t from, std::size_t to, int parts,
               const Expectation& expected);

/// The JSON file with each value in turn replaced by those of other types and by numbers beyond bounds, left
/// out, and nested deeply.
void add_wrong_json(Table& table, const std::string& name, const nlohmann::ordered_json& good,
                    const Expectation& expected);

/// Text that is no JSON, of each kind: cut, doubled, nested deeply, with bytes that are no UTF-8.
void add_no_json(Table& table, const std::string& name, const std::string& good, const Expectation& expected);

}  // namespace rewire::test
