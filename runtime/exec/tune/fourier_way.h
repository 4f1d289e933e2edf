// The recorded choice of how a GPU computes a Fourier transform (exec/cuda/tune/fourier_choices.h makes it).
#pragma once

#include <string>

#include "ir/ops/fourier.h"
#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

std::string fourier_key(const ir::FourierRows& rows);
/// Returns the recorded way to transform the rows, or the default, on a device with cuFFT.
ir::FourierWay fourier_way(const ChoiceRecord& choices, const ir::FourierRows& rows);

}  // namespace rewire::runtime
