// The parts of a file that are the same in every network: functions that PyTorch lacks, tables, first values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

/// Returns a function of this name: drop_path, circulant, rfft or irfft.
std::string torch_helper(const std::string& name);
/// Returns a constant tensor under a name.
std::string torch_table(const std::string& name, const ir::TensorType& type,
                        const std::vector<double>& values);
/// Returns a parameter's first values as a tuple: a function of a tensor, and its further arguments.
std::string torch_init(const ir::Parameter& parameter);
/// Returns a table of such tuples by names, and the function that fills a network by it.
std::string torch_initialise(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace rewire::runtime
