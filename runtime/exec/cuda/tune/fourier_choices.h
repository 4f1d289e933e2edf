// Chooses how a GPU computes the Fourier transforms of a module's programs: as matrix products with
// constants or by cuFFT. A tuner chooses once for all rows that are transformed alike, by timing on this
// device; an engine takes the answers from the record. Keys and answers:
//
//   fourier rfft|irfft rows=R length=N f32        product | cuFFT 12.0.0
//
// Without a choice a transform is a product if it has one (up to kLongestFourierProduct points). Longer ones
// are cuFFT's, or the host's if cuFFT is missing or refuses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/tune/fourier_way.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The most seconds that candidates of all transforms may run together.
inline constexpr double kFourierSeconds = 4;

/// Chooses for the functions of these names, on device 0, where `make_trial` makes trials.
void choose_transforms(const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner,
                       const MakeTrial& make_trial);

}  // namespace rewire::runtime
