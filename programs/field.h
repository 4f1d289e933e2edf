// What a tensor of a batch is, beside its type.
#pragma once

#include <cstdint>

namespace rewire::programs {

/// By its kind a tensor of a sample is found where a network asks for one of another name, and boxes move with the pixels in them.
/// `category` is one class of several, `mask` an image of classes, `latent` an image that is no pixels, `number` whatever has no kind
/// of its own.
enum class FieldKind : std::uint8_t { number, image, category, tokens, boxes, mask, latent };

}  // namespace rewire::programs
