// Checks whether runs that one table compares have seen the same data.
#pragma once

#include <string>
#include <vector>

namespace rewire::runtime {

/// Returns lines about runs that differ from the first: "trained on other data than a: b (60000 samples
/// there, 59000 here)", "evaluated …", and about runs without a sound checkpoint. For training data, only
/// runs with the same part of their data (data.train_fraction, data.train_list) are compared. `folders` are
/// run folders.
std::vector<std::string> mixed_data(const std::vector<std::string>& folders);

}  // namespace rewire::runtime
