// rewire dump --stage times: predicts the time of each launch of a step on a card, which need not be
// present.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/cuda/time_model.h"

namespace rewire::cli {

/// Settings of the output, beside the program.
struct TimesRequest {
  std::string model, program;  // "vit_tiny_28", "step"
  std::int64_t batch = 0;
  bool tf32 = false, json = false;
};

/// Prints launches of the same code as one row, by descending time, with the names of `rewire bench
/// --profile`. Products have no algorithm in their name, because the device chooses it.
void print_times(const codegen::Program& program, const codegen::cuda::DeviceTarget& target,
                 const codegen::cuda::Card& card, const TimesRequest& request);

}  // namespace rewire::cli
