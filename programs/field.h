// What a tensor of a batch is, beside its type.
#pragma once

#include <cstdint>

namespace rewire::programs {

/// How a tensor of a sample is shown, counted and checked. `category` is one class of several, `number` whatever has no kind of
/// its own.
enum class FieldKind : std::uint8_t { number, image, category, tokens, boxes, mask, latent };

}  // namespace rewire::programs
