// The kind of a batch's tensor, beside its type.
#pragma once

#include <cstdint>

namespace rewire::programs {

/// The kind of a sample's tensor. A network that asks for a tensor under another name gets it by its kind,
/// and boxes move with the pixels in them. `category` is one of several classes, `mask` an image of classes,
/// `latent` an image that is not pixels, `number` anything else.
enum class FieldKind : std::uint8_t { number, image, category, tokens, boxes, mask, latent };

}  // namespace rewire::programs
