// Whether runs that one table compares have seen the same data.
#pragma once

#include <string>
#include <vector>

namespace rewire::runtime {

/// A line for each kind of data that is not the same in all runs, by their last checkpoints: "trained on other data than
/// a: b (60000 images there, 59000 here)". Each run is compared with the first one; in training with the first that takes the
/// same part of its data (data.train_fraction, data.train_list). A folder without a sound checkpoint says nothing.
std::vector<std::string> mixed_data(const std::vector<std::string>& folders);

}  // namespace rewire::runtime
