#include "runtime/data/vision/picture_grid.h"

#include <algorithm>

#include "runtime/data/vision/contact_sheet.h"
#include "runtime/data/vision/preview.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kLeastSide = 96;  // pixels of the longer side

SheetLayout grid_layout(const ir::Shape& images, std::int64_t rows, std::int64_t columns) {
  const std::int64_t longer = std::max(images[2], images[3]);
  const std::int64_t factor = std::max<std::int64_t>((kLeastSide + longer - 1) / longer, 1);
  SheetLayout layout{rows, columns, images[2] * factor, images[3] * factor};
  layout.channels = images[1] >= 3 ? 3 : 1;
  return layout;
}

/// Puts image `index` of f32 [N, channels, height, width] on the sheet.
void put_image(ContactSheet& sheet, std::int64_t row, std::int64_t column, const HostTensor& images,
               std::int64_t index, const ir::Attributes& transforms) {
  const ir::Shape& shape = images.type().shape;
  const auto size = static_cast<std::size_t>(shape[1] * shape[2] * shape[3]);
  const auto pixels = unnormalised(
      images.as<const float>().subspan(static_cast<std::size_t>(index) * size, size), shape[1], transforms);
  sheet.put(row, column, pixels, shape[1], shape[2], shape[3]);
}

}  // namespace

DrawnImage picture_rows(std::span<const HostTensor> columns, std::int64_t rows,
                        const ir::Attributes& transforms) {
  ContactSheet sheet(grid_layout(columns.front().type().shape, rows, std::ssize(columns)));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < std::ssize(columns); ++column)
      put_image(sheet, row, column, columns[static_cast<std::size_t>(column)], row, transforms);
  }
  return sheet.image();
}

DrawnImage picture_grid(const HostTensor& images, std::int64_t columns, const ir::Attributes& transforms) {
  const ir::Shape& shape = images.type().shape;
  ContactSheet sheet(grid_layout(shape, (shape[0] + columns - 1) / columns, std::min(columns, shape[0])));
  for (std::int64_t i = 0; i < shape[0]; ++i)
    put_image(sheet, i / columns, i % columns, images, i, transforms);
  return sheet.image();
}

}  // namespace rewire::runtime
