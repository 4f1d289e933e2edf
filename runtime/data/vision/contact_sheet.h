// A grid of images on grey, for people to look at.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/vision/png_file.h"

namespace rewire::runtime {

struct SheetLayout {
  std::int64_t rows = 1, columns = 1;
  std::int64_t cell_height = 96, cell_width = 96;
  std::int64_t channels = 3;  // channels of the sheet: 1 or 3
  std::int64_t gap = 4;       // around cells
};

class ContactSheet {
 public:
  /// Throws UserError if the sheet would exceed the pixels that a PNG is read with (kMostImagePixels).
  explicit ContactSheet(const SheetLayout& layout);

  /// Puts an image into the middle of a cell in its own proportions. One that fits is enlarged by the
  /// largest whole factor, each pixel a square; a larger one is scaled down. `pixels` are u8 [channels,
  /// height, width]. Of other than 3 channels, the first three are shown, or the first as grey; a sheet of
  /// one channel shows the luma.
  void put(std::int64_t row, std::int64_t column, std::span<const std::uint8_t> pixels, std::int64_t channels,
           std::int64_t height, std::int64_t width);

  const DrawnImage& image() const { return sheet_; }

 private:
  SheetLayout layout_;
  DrawnImage sheet_;
};

}  // namespace rewire::runtime
