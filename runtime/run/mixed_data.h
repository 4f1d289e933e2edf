// Whether runs that one table compares have seen the same data.
#pragma once

#include <string>
#include <vector>

namespace rewire::runtime {

/// Lines about runs that are not like the first: "trained on other data than a: b (60000 samples there, 59000 here)",
/// "evaluated …", and which runs no sound checkpoint tells of. Of training, runs that take the same part of their data
/// (data.train_fraction, data.train_list) are compared with each other. `folders` are runs' own.
std::vector<std::string> mixed_data(const std::vector<std::string>& folders);

}  // namespace rewire::runtime
