// Labels samples by the class names that a network learnt.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

/// Labels the samples by `classes`, the names by label as they are shown, and logs a line. The source may
/// lack classes. If it names none, or the same ones, it is returned unchanged. Throws UserError on a class
/// not among `classes`.
std::unique_ptr<ImageSource> map_classes(std::unique_ptr<ImageSource> source,
                                         const std::vector<std::string>& classes);

}  // namespace rewire::runtime
