// Requests of an objective: the inputs of its programs, and the network functions that it calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/types.h"
#include "programs/field.h"

namespace rewire::programs {

/// The source of an input. data: the data set, under the input's name or as the only field of its kind.
/// uniform, normal: the loader, with numbers in [0, 1) or standard normal ones, a function of seed, epoch,
/// sample and the input's name. file: in training only, a file with a row for each sample.
enum class Filler : std::uint8_t { data, uniform, normal, file };

/// A tensor of a batch.
struct Input {
  std::string name;
  ir::TensorType type;
  std::int64_t categories = 0;  // for integers: each lies in [0, categories); 0: any
  Filler filler = Filler::data;
  int batch_axis = 0;                  // 1 for views
  FieldKind kind = FieldKind::number;  // inputs named image and label have a kind by their names
  std::string file = {};               // with Filler::file: a .npy [samples, …] of this type
};
using Inputs = std::vector<Input>;

/// A function of the network's module that training calls. All functions share the weights.
struct NetworkFunction {
  std::string function = "forward";
  std::int64_t images = 1;  // that it takes for each sample of the batch
  std::int64_t side = 0;    // the images' side in pixels; 0: the network's own
};

}  // namespace rewire::programs
