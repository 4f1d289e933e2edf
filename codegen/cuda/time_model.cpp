// Computes the times of the pipes for each kind of launch; see time_model.h.
#include "codegen/cuda/time_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "codegen/cost.h"
#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/rows_plan.h"
#include "codegen/cuda/walks_plan.h"
#include "codegen/library/device_attention.h"
#include "codegen/library/device_convolution.h"
#include "codegen/library/device_gemm.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen::cuda {
namespace {

// NVIDIA's data sheets: A100 80GB SXM, L4, L40S, H100 SXM, H200 SXM, B200 (a card of an HGX board). NVIDIA's papers on the
// architectures GA102, Ada and RTX Blackwell: RTX 3090, 4090 and 5090.
constexpr std::array<Card, 9> kCards = {{{"a100", 80, 108, 2.039e12, 312e12, 156e12, 19.5e12},
                                         {"rtx3090", 86, 82, 936e9, 71e12, 35.6e12, 35.6e12},
                                         {"l4", 89, 58, 300e9, 121e12, 60e12, 30.3e12},
                                         {"l40s", 89, 142, 864e9, 362e12, 183e12, 91.6e12},
                                         {"rtx4090", 89, 128, 1.008e12, 165e12, 82.6e12, 82.6e12},
                                         {"h100", 90, 132, 3.35e12, 989e12, 494e12, 67e12},
                                         {"h200", 90, 132, 4.8e12, 989e12, 494e12, 67e12},
                                         {"b200", 100, 148, 8e12, 2250e12, 1125e12, 75e12},
                                         {"rtx5090", 120, 170, 1.792e12, 209e12, 105e12, 105e12}}};

// Shares of a peak, and times, that no data sheet states: fitted to the launches recorded on an H100 and an
// H200 (bench/results/2026-11-27-*-networks.json, -layers.json). docs/design/tuning.md has how well they fit.
constexpr double kReached = 0.86;       // share of the memory's bandwidth that a copy reaches
constexpr double kLatency = 0.73e-6;    // seconds from a load to its value under full traffic
constexpr double kSustained = 0.8;      // share of the tensor cores' rate that a large product reaches
constexpr double kOwn = 0.47;           // share of the tensor cores' rate that mma.sync reaches
constexpr double kWarps = 9.6;          // a multiprocessor with so many warps in step waits half of its time
constexpr double kAttention = 0.2;      // share of the tensor cores' rate, of cuDNN's attention
constexpr double kCacheBytes = 9.2e12;  // per second, of the L2 cache
constexpr double kShared = 2.0 / 3;     // share of operands loaded: two blocks of a cluster share one
constexpr double kTile = 0.86e-6;       // seconds of a tile before and after its main loop
constexpr double kLastWave = 0.3;       // share of a last wave's idle time that is lost: tiles start early
constexpr double kLaunch = 4.4e-6;      // seconds between launches in a graph, until blocks run and end
constexpr double kHostBytes = 25e9;     // per second, over PCIe
constexpr std::int64_t kBesideLoads = 40;    // registers per thread of a row kernel besides its arrays
constexpr std::int64_t kBytesOfThread = 64;  // in flight, per thread that fills shared memory
constexpr std::int64_t kFileRegisters = 65536, kFileThreads = 2048;  // per multiprocessor

/// Shares of a peak in the main loops of cuBLASLt, and of cuDNN's convolutions by pass.
struct Shares {
  double product = 0, forward = 0, input_grad = 0, weight_grad = 0;
};
constexpr Shares kBf16 = {0.885, 0.58, 0.62, 0.53};
constexpr Shares kTf32 = {0.62, 0.6, 0.61, 0.31};
constexpr Shares kF32 = {0.73, 0.72, 0.6, 0.53};
constexpr std::int64_t kChannelBytes = 64;  // of a map that the tensor cores take at once

/// Instructions per element, as the compiler writes them without fast maths. `f32`: of the f32 units, with
/// integer arithmetic. `special`: of the units of special functions, which have an eighth of their rate.
struct Instructions {
  double f32 = 1, special = 0;
};
Instructions instructions_of(ir::Opcode code) {
  using enum ir::Opcode;
  switch (code) {
    case exp:
      return {6, 1};
    case log:
      return {12, 0};
    case rsqrt:
    case sqrt:
      return {6, 1};
    case div:
      return {8, 1};
    case sigmoid:
      return {14, 2};
    case tanh:
      return {16, 2};
    case erf:
      return {22, 1};
    case sin:
    case cos:
      return {30, 0};
    case pow:
      return {40, 2};
    case random_uniform:
      return {25, 0};
    case random_normal:
      return {60, 3};
    default:  // an op for which nothing better is known
      return {std::max(ir::operations_each(code), 1.0), 0};
  }
}

/// Seconds of each pipe if every multiprocessor were busy all the time.
struct Pipes {
  double tensor = 0, f32 = 0, special = 0;
};

double waves(std::int64_t blocks, int multiprocessors) {
  const double share = static_cast<double>(blocks) / multiprocessors;
  return std::ceil(share) / share;
}

/// Returns the time of work on several resources that overlap in part: the longer one counts most.
Prediction overlapping(std::initializer_list<Prediction> parts, double power) {
  Prediction whole = *std::ranges::max_element(parts, {}, &Prediction::seconds);
  double sum = 0;
  for (const Prediction& part : parts) sum += std::pow(part.seconds, power);
  whole.seconds = std::pow(sum, 1 / power);
  if (whole.seconds < kLaunch) whole.bound = Bound::launch;
  whole.seconds += kLaunch;
  return whole;
}
constexpr double kKernels = 2, kLibraries = 3;  // powers: how well the two overlap

/// One of our kernels, with the cost model's schedule.
class KernelTime {
 public:
  KernelTime(const Program& program, const KernelLaunch& launch, const DeviceTarget& target, const Card& card)
      : kernel_(launch.kernel),
        target_(target),
        card_(card),
        cost_(cost_of(program, launch)),
        work_(work_of(program, launch)),
        schedule_(schedules(kernel_, target, 1).front()),
        shape_(emit(launch, "kernel", target, &schedule_).launch),
        blocks_(shape_.blocks * static_cast<std::int64_t>(launch.members())) {}

  Prediction predict() const {
    const double bytes = static_cast<double>(cost_.bytes), read = static_cast<double>(work_.bytes_read);
    return overlapping({{bytes / (kReached * card_.bytes_per_second), Bound::memory},
                        {read * kLatency / bytes_under_way(), Bound::latency},
                        computing()},
                       kKernels);
  }

 private:
  Prediction computing() const {
    const Pipes pipes = arithmetic();
    Prediction longest = std::ranges::max(
        std::array<Prediction, 3>{
            {{pipes.tensor, Bound::tensor}, {pipes.f32, Bound::f32}, {pipes.special, Bound::special}}},
        {}, &Prediction::seconds);
    if (std::holds_alternative<BlockSchedule>(schedule_)) {
      const double warps = static_cast<double>(blocks_at_once() * shape_.threads) / 32;
      longest.seconds = (pipes.tensor + pipes.f32 + pipes.special) * (1 + kWarps / warps);
    }
    longest.seconds *= waves(blocks_, target_.multiprocessors);
    return longest;
  }

  Pipes arithmetic() const {
    const double rate = card_.f32_flops / 2;  // instructions per second
    Instructions all{static_cast<double>(work_.reduced + work_.accessed), 0};
    for (const auto& [code, elements] : work_.ops) {
      const Instructions each = instructions_of(code);
      all.f32 += each.f32 * static_cast<double>(elements);
      all.special += each.special * static_cast<double>(elements);
    }
    const std::set<const tile::Node*> narrow = on_tensor_cores();
    Pipes pipes;
    for (const auto& [node, flops] : work_.products) {
      if (narrow.contains(node)) {
        pipes.tensor += static_cast<double>(flops) / (kOwn * card_.bf16_flops);
      } else {
        all.f32 += static_cast<double>(flops) / 2;
      }
    }
    pipes.f32 = all.f32 / rate;
    pipes.special = all.special / (rate / 8);
    return pipes;
  }

  std::set<const tile::Node*> on_tensor_cores() const {
    std::set<const tile::Node*> nodes;
    if (!std::holds_alternative<BlockSchedule>(schedule_)) return nodes;
    if (plan_walk(kernel_, target_)) {
      for (const auto& product : work_.products) nodes.insert(product.first);
      return nodes;
    }
    const std::optional<BlockPlan> plan = plan_block(kernel_, target_);
    for (const auto* section : {&plan->prologue, &plan->body, &plan->epilogue}) {
      for (const BlockStep& step : *section) {
        if (step.kind == StepKind::tensor_dot) nodes.insert(step.nodes.begin(), step.nodes.end());
      }
    }
    return nodes;
  }

  double bytes_under_way() const {
    const std::int64_t busy = std::min<std::int64_t>(blocks_, target_.multiprocessors);
    return static_cast<double>(busy * blocks_at_once() * bytes_of_block());
  }

  /// Returns the blocks that a multiprocessor with work holds.
  std::int64_t blocks_at_once() const {
    const std::int64_t filled = (blocks_ + target_.multiprocessors - 1) / target_.multiprocessors;
    return std::min(resident_blocks(), filled);
  }

  std::int64_t resident_blocks() const {
    const std::int64_t by_threads = kFileThreads / shape_.threads;
    std::int64_t resident = std::visit([](const auto& one) { return one.resident_blocks; }, schedule_);
    if (const auto plan = rows_plan()) {
      std::int64_t arrays = 0;
      for (const ValueHome& home : plan->homes) arrays += home.array ? plan->elements() : 0;
      resident = std::max(resident, kFileRegisters / ((kBesideLoads + arrays) * shape_.threads));
    }
    if (shape_.shared_bytes > 0)
      resident = std::min(resident, target_.shared_bytes_per_block / shape_.shared_bytes);
    return std::clamp<std::int64_t>(resident, 1, by_threads);
  }

  /// Returns the bytes that the threads of a block request before the first of them waits.
  std::int64_t bytes_of_block() const {
    const std::optional<RowsPlan> plan = rows_plan();
    if (!plan) return kBytesOfThread * shape_.threads;
    std::int64_t bytes = std::max(loaded_at_once(plan->prologue, *plan), loaded_at_once(plan->body, *plan));
    // The compiler has the loads of several rows of a part in flight together: rows.cpp unrolls four rows if
    // nothing is added up along a row.
    const bool reduces = std::ranges::any_of(
        kernel_.body, [](const tile::Node& node) { return std::holds_alternative<tile::Reduce>(node); });
    if (plan->by_partition && !reduces)
      bytes *= std::clamp<std::int64_t>(kernel_.rows_per_partition() / plan->groups, 1, 4);
    return std::max<std::int64_t>(bytes, shape_.threads);
  }

  /// Returns the bytes that a block loads at once in the level with the most loads.
  std::int64_t loaded_at_once(const Section& section, const RowsPlan& plan) const {
    std::int64_t most = 0;
    for (int level = 0; level < section.levels; ++level) {
      std::int64_t bytes = 0;
      for (const LeveledNode& leveled : section.nodes) {
        const auto* load = std::get_if<tile::Load>(leveled.node);
        if (load == nullptr || leveled.level != level) continue;
        const auto dtype = kernel_.arguments[static_cast<std::size_t>(load->access.argument)].dtype;
        const bool lanes = !tile::iteration_lanes(kernel_, *leveled.node).empty();
        bytes += static_cast<std::int64_t>(ir::dtype_bytes(dtype)) * (lanes ? plan.elements() : 1);
      }
      most = std::max(most, bytes);
    }
    return most * shape_.threads;
  }

  std::optional<RowsPlan> rows_plan() const {
    if (!std::holds_alternative<RowsSchedule>(schedule_)) return std::nullopt;
    return plan_rows(kernel_, target_, &std::get<RowsSchedule>(schedule_));
  }

  const tile::Kernel& kernel_;
  const DeviceTarget& target_;
  const Card& card_;
  LaunchCost cost_;
  KernelWork work_;
  Schedule schedule_;
  LaunchShape shape_;
  std::int64_t blocks_ = 1;
};

/// Returns the shares of a precision and its peak.
std::pair<const Shares&, double> precision(const Card& card, ir::DType dtype, bool tf32) {
  if (dtype == ir::DType::bf16 || dtype == ir::DType::f16) return {kBf16, card.bf16_flops};
  if (tf32) return {kTf32, card.tf32_flops};
  return {kF32, card.f32_flops};
}

/// Returns the time of a library's product: the best of its usual tiles, with each sum whole or in parts
/// that are added up afterwards. `flops_per_second` of its main loop.
double product_seconds(const DeviceGemmShape& shape, const DeviceTarget& target, double flops_per_second) {
  const auto count = [](std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; };
  const double multiprocessors = target.multiprocessors;
  const double rate = flops_per_second / multiprocessors, cache = kCacheBytes / kShared / multiprocessors;
  const auto operand = static_cast<double>(ir::dtype_bytes(shape.dtype));
  double best = 0;
  for (const auto& [rows, columns] : {std::pair{128, 256}, {128, 128}, {64, 128}, {64, 64}}) {
    for (std::int64_t split = 1; split <= 64 && split * 64 <= std::max<std::int64_t>(shape.k, 64);
         split *= 2) {
      const std::int64_t tiles = shape.batch * count(shape.m, rows) * count(shape.n, columns) * split;
      const double depth = static_cast<double>(count(shape.k, split));
      const double loop =
          std::max(2.0 * rows * columns * depth / rate, (rows + columns) * depth * operand / cache);
      const double parts = split == 1 ? 0 : 2.0 * 4 * static_cast<double>(split * shape.m * shape.n);
      const double whole = std::max(1.0, static_cast<double>(tiles) / multiprocessors);
      const double started =
          kLastWave * static_cast<double>(count(tiles, target.multiprocessors)) + (1 - kLastWave) * whole;
      const double seconds = started * (loop + kTile) + parts / kCacheBytes;
      best = best == 0 ? seconds : std::min(best, seconds);
    }
  }
  return best;
}

/// Returns the instructions per element of what a product computes besides the sum.
double epilogue_instructions(GemmEpilogue epilogue) {
  const Instructions erf = instructions_of(ir::Opcode::erf), exp = instructions_of(ir::Opcode::exp);
  switch (epilogue) {
    case GemmEpilogue::gelu:
      return erf.f32 + 8 * erf.special + 4;
    case GemmEpilogue::gelu_gradient:
      return erf.f32 + exp.f32 + 8 * (erf.special + exp.special) + 6;
    default:
      return 0;
  }
}

Prediction product(const Program& program, const GemmLaunch& launch, const DeviceTarget& target,
                   const Card& card, bool tf32) {
  const std::vector<DeviceGemmCall> calls = device_gemm_calls(program, launch, tf32);
  const DeviceGemmShape& shape = calls.front().shape;
  const auto& [shares, peak] = precision(card, shape.dtype, shape.tf32);
  const auto number = static_cast<double>(calls.size());
  const double results = static_cast<double>(shape.batch * shape.m * shape.n);
  const double computing = number * (product_seconds(shape, target, shares.product * peak) +
                                     results * epilogue_instructions(launch.epilogue) / (card.f32_flops / 2));
  const double moving =
      static_cast<double>(cost_of(program, launch).bytes) / (kReached * card.bytes_per_second);
  const Bound units = &shares == &kF32 ? Bound::f32 : Bound::tensor;
  Prediction whole = overlapping({{computing, units}, {moving, Bound::memory}}, kLibraries);
  whole.seconds += (number - 1) * kLaunch;
  return whole;
}

Prediction predict_convolution(const DeviceConvolution& call, double flops, Prediction moving,
                               const Card& card) {
  const auto& [shares, peak] = precision(card, call.dtype, call.tf32);
  const bool on_units = &shares == &kF32;
  double share = shares.forward;
  if (call.code == ir::Opcode::conv2d_input_grad) share = shares.input_grad;
  if (call.code == ir::Opcode::conv2d_weight_grad) share = shares.weight_grad;
  if (!on_units) {  // the channels of an image are few: the tensor cores multiply zeros with the rest
    const std::int64_t bytes =
        call.shape.inputs / call.shape.groups * static_cast<std::int64_t>(ir::dtype_bytes(call.dtype));
    flops *= static_cast<double>((bytes + kChannelBytes - 1) / kChannelBytes * kChannelBytes) /
             static_cast<double>(bytes);
  }
  return overlapping({{flops / (share * peak), on_units ? Bound::f32 : Bound::tensor}, moving}, kKernels);
}

bool is_attention(const OpCall& call) {
  return call.op.code == ir::Opcode::attention || call.op.code == ir::Opcode::attention_grad;
}

Prediction predicted(const Program& program, const Launch& launch, const DeviceTarget& target,
                     const Card& card, bool tf32) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&launch))
    return KernelTime(program, *kernel, target, card).predict();
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) return product(program, *gemm, target, card, tf32);
  const LaunchCost cost = cost_of(program, launch);
  const auto bytes = static_cast<double>(cost.bytes), flops = static_cast<double>(cost.flops);
  const Prediction moving{bytes / (kReached * card.bytes_per_second), Bound::memory};
  const auto& call = std::get<OpCall>(launch);
  const ir::Opcode code = call.op.code;
  if (is_attention(call) && device_attention(program, call))
    return overlapping({{flops / (kAttention * card.bf16_flops), Bound::tensor}, moving}, kKernels);
  if (const auto convolution = device_convolution(program, call, tf32))
    return predict_convolution(*convolution, flops, moving, card);
  const bool on_device = code == ir::Opcode::rfft_pairs || code == ir::Opcode::irfft_pairs;
  return on_device ? overlapping({moving}, kKernels) : Prediction{bytes / kHostBytes, Bound::memory};
}

/// Returns the operations per second that products of a precision sustain.
double sustained(const Card& card, ir::DType dtype, bool tf32) {
  const auto& [shares, peak] = precision(card, dtype, tf32);
  return &shares == &kF32 ? peak : kSustained * peak;
}

double least_seconds(const Program& program, const Launch& launch, const Card& card, bool tf32) {
  const LaunchCost cost = cost_of(program, launch);
  const double memory = static_cast<double>(cost.bytes) / (kReached * card.bytes_per_second);
  const auto flops = static_cast<double>(cost.flops);
  if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) {
    double products = 0;
    for (const auto& [node, each] : work_of(program, *kernel).products) products += static_cast<double>(each);
    return std::max(
        {memory, products / sustained(card, ir::DType::bf16, false), (flops - products) / card.f32_flops});
  }
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    const DeviceGemmShape shape = device_gemm_calls(program, *gemm, tf32).front().shape;
    return std::max(memory, flops / sustained(card, shape.dtype, shape.tf32));
  }
  const auto& call = std::get<OpCall>(launch);
  if (is_attention(call)) return std::max(memory, flops / sustained(card, ir::DType::bf16, false));
  if (const auto convolution = device_convolution(program, call, tf32))
    return std::max(memory, flops / sustained(card, convolution->dtype, convolution->tf32));
  return memory;
}

}  // namespace

std::vector<std::string> card_names() {
  std::vector<std::string> names;
  for (const Card& one : kCards) names.emplace_back(one.name);
  return names;
}

DeviceTarget card_target(const Card& card) {
  DeviceTarget target = device_target(card.arch);
  target.multiprocessors = card.multiprocessors;
  return target;
}

const Card& card(std::string_view name) {
  for (const Card& one : kCards) {
    if (one.name == name) return one;
  }
  user_error("unknown card '{}'; choose from {}", name, fmt::join(card_names(), ", "));
}

std::string_view bound_name(Bound bound) {
  constexpr std::array<std::string_view, 6> kNames = {"launch", "memory", "latency",
                                                      "tensor", "f32",    "special"};
  return kNames[static_cast<std::size_t>(bound)];
}

Prediction predict(const Program& program, const Launch& launch, const DeviceTarget& target, const Card& card,
                   bool tf32) {
  Prediction prediction = predicted(program, launch, target, card, tf32);
  prediction.least_seconds = least_seconds(program, launch, card, tf32);
  return prediction;
}

}  // namespace rewire::codegen::cuda
