// What an objective asks for: the inputs of its programs, and the functions of the network that it calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/types.h"
#include "programs/field.h"

namespace rewire::programs {

/// Who fills an input: the data set, under its name, or the only field of its kind; the loader with numbers drawn uniformly from
/// [0, 1), or from the standard normal distribution, a function of seed, epoch, sample and the input's name; or, in training alone,
/// a file that has a row for each sample of the data.
enum class Filler : std::uint8_t { data, uniform, normal, file };

/// A tensor of a batch.
struct Input {
  std::string name;
  ir::TensorType type;
  std::int64_t categories = 0;  // of integers: each lies in [0, categories); 0: any
  Filler filler = Filler::data;
  int batch_axis = 0;                  // 1 of views
  FieldKind kind = FieldKind::number;  // what are called image and label have a kind by their names
  std::string file = {};               // of Filler::file: a .npy [samples, …] of this type
};
using Inputs = std::vector<Input>;

/// A function of a network's module, over the same weights as the others: what a training batch is put through.
struct Form {
  std::string function = "forward";
  std::int64_t images = 1;  // that it takes for each sample of the batch
  std::int64_t side = 0;    // pixels a side of them; 0: the network's own
};

}  // namespace rewire::programs
