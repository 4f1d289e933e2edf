// Samples of a network trained to predict velocities: equal steps from noise at time 0 to images at time 1.
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
  bool heun = false;  // else Euler's method, with half as many evaluations
  std::int64_t classes = 1;
  std::int64_t label = -1;              // label of all samples; -1: the classes in turn
  std::optional<double> guidance = {};  // for programs that take it
  std::uint64_t seed = 0;               // seed of the noise
};

/// Draws samples f32[images, channels, height, width], in the value range of the network's training images.
/// The noise of image i is a function of seed and i, whatever the number of images. `suffix` ends the names
/// of the module's programs sample_step and, for Heun's method, sample_correct.
HostTensor draw_samples(Engine& engine, const ir::Module& module, const SampleRequest& request,
                        std::string_view suffix = "");

/// Returns the number of label classes by an objective's inputs; 1 if they do not give it.
std::int64_t label_classes(const programs::Inputs& inputs);

}  // namespace rewire::runtime
