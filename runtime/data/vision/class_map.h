// A set of labelled samples whose classes are told apart by the names that a network learnt.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

/// The same samples, labelled by `classes`, the names by label as they are shown. A source that names no classes, or the same ones, is
/// returned as it is. It may lack classes; the log then has a line. UserError on one that is not among them.
std::unique_ptr<ImageSource> map_classes(std::unique_ptr<ImageSource> source,
                                         const std::vector<std::string>& classes);

}  // namespace rewire::runtime
