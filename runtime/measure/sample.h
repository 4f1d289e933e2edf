// Samples of a network that was trained for velocities: from noise at time 0 to images at time 1, in equal steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "programs/input.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

struct SampleRequest {
  std::int64_t images = 1;
  std::int64_t steps = 50;
  bool heun = false;  // else Euler's method, of half as many evaluations
  std::int64_t classes = 1;
  std::int64_t label = -1;              // of all; -1: one class after the other
  std::optional<double> guidance = {};  // of programs that take it
  std::uint64_t seed = 0;               // of the noise
};

/// f32[images, channels, height, width], in the numbers that the network was trained with. Image i begins with the same
/// noise, a function of seed and i, however many there are. `suffix`: behind the names of the module's programs
/// sample_step and, for Heun's method, sample_correct.
HostTensor draw_samples(Engine& engine, const ir::Module& module, const SampleRequest& request,
                        std::string_view suffix = "");

/// What labels there are, by an objective's inputs; 1 where they do not say.
std::int64_t label_classes(const programs::Inputs& inputs);

}  // namespace rewire::runtime
