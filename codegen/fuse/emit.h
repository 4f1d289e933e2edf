// Emits the tile kernels of a fused group: one for the group, and for each reduction over rows one that adds
// its partial sums.
#pragma once

#include <vector>

#include "codegen/fuse/grouping.h"
#include "codegen/fuse/storage.h"
#include "codegen/program.h"

namespace rewire::codegen {

struct EmittedGroup {
  KernelLaunch kernel;
  std::vector<KernelLaunch> finish;  // adds partials in partition order; runs before any reader of the sums
  GroupReport report;
};

EmittedGroup emit_group(const Grouping& grouping, Storage& storage, const GroupNode& node,
                        const Program& program, const WorkGrain& grain);

}  // namespace rewire::codegen
