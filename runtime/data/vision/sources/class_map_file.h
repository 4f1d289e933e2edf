// A text file that maps folders of images to classes, with a line FOLDER<TAB>CLASS for each. CLASS is the
// name of a class, or its label, counted from 0. Several folders may have one class.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rewire::runtime {

struct ClassMap {
  std::map<std::string, std::int64_t> labels;  // labels by folder
  std::vector<std::string> classes;            // names by label; empty if the file gives labels
};
/// Reads a class map. Named classes are in the order of `is_before`; empty lines are skipped. Throws
/// UserError naming the line and its fault.
ClassMap read_class_map(const std::string& path,
                        bool (*is_before)(const std::string& one, const std::string& other));

}  // namespace rewire::runtime
