// The built-in transforms. Each has its own file and a row here, in the order in which they are applied.
#include <algorithm>

#include "runtime/data/vision/transform.h"

namespace rewire::runtime {

extern const TransformRow kResizedCrop, kRandomCrop, kHorizontalFlip, kColorJitter, kRandAugment, kGrayscale,
    kGaussianBlur, kSolarize, kNormalize, kRandomErasing, kMix;

namespace {

std::vector<const TransformRow*>& transform_rows() {
  static std::vector<const TransformRow*> rows = {
      &kResizedCrop,     // of bytes
      &kRandomCrop,      //
      &kHorizontalFlip,  //
      &kColorJitter,     //
      &kRandAugment,     //
      &kGrayscale,       //
      &kGaussianBlur,    //
      &kSolarize,        //
      &kNormalize,       // to floats
      &kRandomErasing,   // of floats
      &kMix,             // of batches
  };
  return rows;
}

}  // namespace

std::span<const TransformRow* const> transforms() {
  return transform_rows();
}

void add_transform(const TransformRow& row, std::string_view before) {
  std::vector<const TransformRow*>& rows = transform_rows();
  rows.insert(std::ranges::find(rows, before, &TransformRow::name), &row);
}

}  // namespace rewire::runtime
