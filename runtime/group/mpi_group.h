// The row `mpi` of groups: a thread that alone calls Open MPI.
#pragma once

#include <memory>

#include "runtime/group/group.h"

namespace rewire::runtime {

/// What the launcher says of this process.
struct Launched {
  int rank = 0, size = 1;
};

/// Joins the ranks that the launcher has started. Throws UserError as make_group() does.
std::unique_ptr<Group> make_mpi_group(Launched launched, std::chrono::seconds longest_silence);

}  // namespace rewire::runtime
