// The text of cli/completions/rewire.SHELL (completion_scripts.cpp.in).
#pragma once

#include <string_view>
#include <vector>

namespace rewire::cli {

struct CompletionScript {
  std::string_view shell, text;
};
std::vector<CompletionScript> completion_scripts();

}  // namespace rewire::cli
