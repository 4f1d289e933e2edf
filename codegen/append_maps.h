// Appends a map to the kernel that ends the sums it reads. In training, a batch norm turns each channel's sum
// into a mean, a scale and new statistics: a few ops over some hundred channels, which would be a launch of
// their own between two that depend on each other. Tables (tables.h) cannot take such a launch.
//
// In: launches in execution order. Out: the same values to the bit, by fewer launches.
//   sum  a kernel with row axes, one lane axis and one partition, such as the end of a sum of partial
//        results. Its epilogue stores the sum of each lane.
//   map  the next launch that reads it: a kernel of as many lanes and no rows, all of whose loads of the sums
//        are at their own lane. A launch over many times its elements waits for it
// The map's ops become part of the sum's epilogue. A sum that nothing else reads is no longer stored.
// Reductions over the map's lanes, such as the check that all statistics are finite, need all lanes at once.
// They remain a kernel at the map's place, which reads what the epilogue has stored; a table may take it.
#pragma once

#include "codegen/program.h"

namespace rewire::codegen {

void append_maps(Program& program);

}  // namespace rewire::codegen
