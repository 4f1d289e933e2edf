// From a fused group to tile kernels: one for the group, and one that adds the partial sums of each reduction
// over rows.
#pragma once

#include <vector>

#include "codegen/fuse/grouping.h"
#include "codegen/fuse/storage.h"
#include "codegen/program.h"

namespace rewire::codegen {

struct EmittedGroup {
  KernelLaunch kernel;
  std::vector<KernelLaunch> finish;  // adds partials in partition order; run before anyone reads the sums
  GroupReport report;
};

EmittedGroup emit_group(const Grouping& grouping, Storage& storage, const GroupNode& node,
                        const Program& program, const WorkGrain& grain);

}  // namespace rewire::codegen
