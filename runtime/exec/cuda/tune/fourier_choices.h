// How a GPU computes the Fourier transforms of a module's programs: as matrix products with constants or by
// cuFFT. Chosen once for all rows that are transformed alike, as a tuner chooses, by timing on this device;
// an engine takes the answers from the record. The key of a choice, and its answers:
//
//   fourier rfft|irfft rows=R length=N f32        product | cuFFT 12.0.0
//
// Without a choice a transform is a product where it has one (up to kLongestFourierProduct points). Beyond
// that it is cuFFT's, and the host's where cuFFT is missing or refuses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/ops/fourier.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all transforms may run together.
inline constexpr double kFourierSeconds = 4;

std::string fourier_key(const ir::FourierRows& rows);
/// As the record has it, or as without a choice, on a device with cuFFT.
ir::FourierWay fourier_way(const ChoiceRecord& choices, const ir::FourierRows& rows);

/// For the functions of these names, on device 0. `make_trial`: on that device.
void choose_transforms(const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner,
                       const MakeTrial& make_trial);

}  // namespace rewire::runtime
