// Predicts how long a launch takes on a card, without the card: from what it moves and computes
// (codegen/cost.h), its schedule (schedule.h) and the card's data sheet. It ranks nothing and decides
// nothing. Profiles are compared with it launch by launch, and launches that are far off are examined first.
//
//   time       = kLaunch + root of (memory^2 + latency^2 + arithmetic^2): they overlap in part
//   memory     = bytes / (kReached bandwidth)
//   latency    = bytes read kLatency / bytes under way
//   under way  = multiprocessors with a block x their resident blocks x what a block's threads load before
//                they wait
//   arithmetic = waves x (the operations of a pipe / its rate); pipes: tensor cores, the f32 units, the
//                units of special functions. For rows and transposes the longest pipe, since blocks overlap;
//                for block kernels the sum of all pipes, since barriers separate their steps, times
//                1 + kWarps / resident warps
//   waves      = ceil(blocks / multiprocessors) / (blocks / multiprocessors)
//   a product  = the best of a few tiles and splits of its sum: waves of tiles at a share of the tensor
//                cores' rate, or of operands at the L2 cache's, plus kTile each and its epilogue's arithmetic;
//                with its bytes' time, by the cube root of the sum of cubes
//   a convolution = its multiply-adds at a share of a rate, which depends on its pass and precision
// A launch cannot take less than
//   least      = the longer of bytes / (kReached bandwidth) and operations / the rate of their units; of tensor
//                cores the rate that a large product sustains, kSustained of the data sheet's. Tensors that are
//                still in the L2 cache may be read faster, which this leaves out.
// bench/results/2026-11-29-time-model.md compares it with what launches took.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/program.h"

namespace rewire::codegen::cuda {

/// The numbers of a data sheet; dense, without sparsity, and with sums in f32 (GeForce cards halve the rate for them).
struct Card {
  std::string_view name;
  int arch = 90;
  int multiprocessors = 132;
  double bytes_per_second = 0;            // of device memory
  double bf16_flops = 0, tf32_flops = 0;  // per second, of tensor cores
  double f32_flops = 0;                   // of the f32 units; a multiply-add is two
};
/// Returns the target of a card: its architecture's, with its own number of multiprocessors.
DeviceTarget card_target(const Card& card);
std::vector<std::string> card_names();
/// Returns the card of this name. Throws UserError if it is unknown.
const Card& card(std::string_view name);

/// The resource that bounds a launch.
enum class Bound : std::uint8_t { launch, memory, latency, tensor, f32, special };
std::string_view bound_name(Bound bound);

struct Prediction {
  double seconds = 0;
  Bound bound = Bound::launch;
  double least_seconds = 0;
};
/// Predicts a launch's time. `tf32`: products of f32 may be of TF32. An op of the host takes the time of
/// copying its operands out and its results in.
Prediction predict(const Program& program, const Launch& launch, const DeviceTarget& target, const Card& card,
                   bool tf32);

}  // namespace rewire::codegen::cuda
