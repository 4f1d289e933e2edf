// The optimizers that Rewire has.
#pragma once

#include <string>
#include <vector>

#include "programs/optimizer.h"

namespace rewire::programs {

/// All but what tests of this program add.
inline std::vector<std::string> resident_optimizers() {
  std::vector<std::string> names = ir::row_names(optimizers());
  std::erase_if(names,
                [](const std::string& name) { return name == "row_norm" || name == "schedule_free_sgd"; });
  return names;
}

}  // namespace rewire::programs
