// What every answer to a hostile input is held to, beside what its row says:
// 1. The exit code is 0 or 2 as the row says; no signal ended it, and it ended in time.
// 2. stderr is one line that begins with "rewire: " and has each phrase in it; it is empty where there is
// none.
// 3. The line has at most 2000 bytes; it is UTF-8 without control characters, C1 and bidirectional ones
// included.
// 4. Memory stayed below 600 MB.
// 5. A refusal leaves the folder as it was: no file made, none gone, none changed. Whatever the code, no
//    temporary name stays behind.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/hostile/table.h"

namespace rewire::test {

/// Every path below a folder, with its size and a hash of its bytes.
using Tree = std::map<std::string, std::pair<std::uintmax_t, std::size_t>>;
Tree tree_of(const std::string& folder);

/// "" or what is wrong. `before`: the folder as its steps left it.
std::string judge(const Case& given, const Ended& ended, const std::string& folder, const Tree& before);

/// "" or what is wrong with it as a line for a terminal.
std::string judge_text(std::string_view text);

}  // namespace rewire::test
