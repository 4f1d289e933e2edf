// Sizes of a kernel's grid.
#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {
namespace {

std::int64_t extent_product(const Kernel& kernel, AxisUse use) {
  std::int64_t product = 1;
  for (const Axis& axis : kernel.axes) {
    if (axis.use == use) product *= axis.extent;
  }
  return product;
}

}  // namespace

std::int64_t Kernel::instances() const {
  return extent_product(*this, AxisUse::outer) * partitions;
}

std::int64_t Kernel::row_count() const {
  return extent_product(*this, AxisUse::row);
}

std::int64_t Kernel::rows_per_partition() const {
  return (row_count() + partitions - 1) / partitions;
}

std::int64_t Kernel::row_visits() const {
  return bounds ? bounds->visits : instances() / partitions * row_count();
}

}  // namespace rewire::codegen::tile
