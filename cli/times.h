// rewire dump --stage times: how long each launch of a step should take on a card, told without one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/cuda/time_model.h"

namespace rewire::cli {

/// What is told, beside the program.
struct TimesRequest {
  std::string model, program;  // "vit_tiny_28", "step"
  std::int64_t batch = 0;
  bool tf32 = false, json = false;
};

/// Launches of one code are one row, by descending time, under the name that `rewire bench --profile` gives
/// them; of products without the algorithm, which is the device's to choose.
void print_times(const codegen::Program& program, const codegen::cuda::DeviceTarget& target,
                 const codegen::cuda::Card& card, const TimesRequest& request);

}  // namespace rewire::cli
