// How long a launch takes on a card, told without one: from what it moves and computes (codegen/cost.h), how
// it is cut (schedule.h) and what the card's data sheet says. It ranks nothing and decides nothing: a profile
// is held against it, launch by launch, and what is far off is looked at first.
//
//   time       = kLaunch + max(memory, arithmetic)
//   memory     = max(bytes / (kReached bandwidth), bytes read kLatency / bytes under way)
//   under way  = multiprocessors with a block x their resident blocks x what a block's threads load before
//                they wait
//   arithmetic = waves x (the operations of a pipe / its rate); pipes: tensor cores, the f32 units, the units
//                of special functions. Of rows and transposes the longest pipe, since blocks overlap; of
//                block kernels all pipes after each other, since barriers stand between their steps
//   waves      = ceil(blocks / multiprocessors) / (blocks / multiprocessors)
//   a product  = the best of a few tiles and splits of its sum: waves of tiles at kLibrary of the tensor
//                cores' rate, of operands at the L2 cache's, and kTile each; no less than its bytes take
//   a convolution = its multiply-adds at kConvolution of the tensor cores' rate, without TF32 at kUnits of the
//                f32 units'; no less than its bytes take
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/program.h"

namespace rewire::codegen::cuda {

/// What a data sheet says; dense, without sparsity.
struct Card {
  std::string_view name;
  int arch = 90;
  double bytes_per_second = 0;            // of device memory
  double bf16_flops = 0, tf32_flops = 0;  // a second, of tensor cores
  double f32_flops = 0;                   // of the f32 units, a multiply-add being two
};
std::vector<std::string> card_names();
/// UserError for a name that is not known.
const Card& card(std::string_view name);

/// What bounds a launch.
enum class Bound : std::uint8_t { launch, memory, latency, tensor, f32, special };
std::string_view bound_name(Bound bound);

struct Prediction {
  double seconds = 0;
  Bound bound = Bound::launch;
};
/// `tf32`: products of f32 may be of TF32. An op of the host takes what copying it out and in does.
Prediction predict(const Program& program, const Launch& launch, const DeviceTarget& target, const Card& card,
                   bool tf32);

}  // namespace rewire::codegen::cuda
