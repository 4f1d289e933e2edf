// Runs the rewire binary and hands back what it said.
#pragma once

#include <string>
#include <vector>

namespace rewire::test {

struct Outcome {
  int code = -1;  // the exit code; 128 + the signal's number if one ended it
  std::string out, err;
};

/// `standard_output` is a file to write stdout to instead of capturing it.
Outcome rewire_command(const std::vector<std::string>& arguments, const std::string& standard_output = "");

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

}  // namespace rewire::test
