// Which class each folder of images is: a text file with a line FOLDER<TAB>CLASS for each. CLASS is the name of a class, or
// its label, counted from 0; several folders may be one class.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rewire::runtime {

struct ClassMap {
  std::map<std::string, std::int64_t> labels;  // by folder
  std::vector<std::string> classes;            // by label; none where the file gives labels
};
/// Classes that have names are in the order of `is_before`. Empty lines are skipped. UserError naming the line and its
/// fault.
ClassMap read_class_map(const std::string& path,
                        bool (*is_before)(const std::string& one, const std::string& other));

}  // namespace rewire::runtime
