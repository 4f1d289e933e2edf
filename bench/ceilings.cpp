// What a program cannot be faster than on this machine: the floor of a step.
//   rewire dump MODEL … --stage step | rewire_bench_ceilings [threads]
// Reads a simplified program, lowers it, and times (a) the GEMMs at exactly its shapes and counts, as the
// engine cuts them and as oneDNN threads them itself, (b) multiply-adds in registers, (c) copies of rising
// size. bench/README.md says how the floors are made of these. One JSON object on stdout.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/copy_rate.h"
#include "bench/gemm_rate.h"
#include "codegen/cost.h"
#include "codegen/llvm/jit.h"
#include "codegen/program.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"
#include "ir/ops/convolution.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/exec/cpu/peak.h"

namespace rewire::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMilli = 1e3, kGiga = 1e-9;
constexpr double kOfPeak = 0.95;  // what a product can be expected to reach of the multiply-adds' peak

struct Gemms {
  Json shapes = Json::array();
  double flops = 0, best_rate = 0;
  Seconds seconds, engine_seconds;
  int launches = 0;
};

Gemms measure_gemms(const codegen::Program& program, runtime::ThreadPool& pool, codegen::CpuJit& jit) {
  Gemms all;
  for (const GemmCount& gemm : gemms_of(program)) {
    const GemmTime time = measure_gemm(gemm, pool, jit.product());
    const Seconds least_time = least(least(time.own, time.cut), time.library);
    all.launches += gemm.count;
    all.flops += gemm.flops * gemm.count;
    all.seconds += gemm.count * least_time;
    all.engine_seconds += gemm.count * (codegen::prefers_own_products() ? time.own : time.cut);
    all.best_rate = std::max(all.best_rate, gemm.flops / least_time.best);
    all.shapes.push_back({{"shape", codegen::short_name(gemm.launch)},
                          {"count", gemm.count},
                          {"mflop", gemm.flops * 1e-6},
                          {"own_gflops", gemm.flops / time.own.best * kGiga},
                          {"cut_gflops", gemm.flops / time.cut.best * kGiga},
                          {"library_gflops", gemm.flops / time.library.best * kGiga}});
  }
  return all;
}

struct Kernels {
  double bytes = 0, dot_flops = 0, convolution_flops = 0;
  Seconds seconds, memory_seconds;
  int launches = 0;
};

/// Multiply-adds x 2 of a kernel's dots: what attention does instead of GEMMs.
double dot_flops(const codegen::tile::Kernel& kernel) {
  const auto instances = static_cast<double>(kernel.instances());
  const double rows =
      instances / static_cast<double>(kernel.partitions) * static_cast<double>(kernel.row_count());
  double flops = 0;
  for (const auto* part : {&kernel.prologue, &kernel.body, &kernel.epilogue}) {
    for (const codegen::tile::Node& node : *part) {
      if (!std::holds_alternative<codegen::tile::Dot>(node)) continue;
      double once = 2;
      for (std::int32_t axis : codegen::tile::iteration_lanes(kernel, node))
        once *= static_cast<double>(kernel.axes[static_cast<std::size_t>(axis)].extent);
      flops += once * (part == &kernel.body ? rows : instances);
    }
  }
  return flops;
}

Kernels price_kernels(const codegen::Program& program, const std::vector<CopyTime>& copies) {
  Kernels all;
  for (const codegen::Launch& launch : program.launches) {
    if (std::holds_alternative<codegen::GemmLaunch>(launch)) continue;
    const codegen::LaunchCost cost = codegen::cost_of(program, launch);
    const auto bytes = static_cast<double>(cost.bytes);
    const auto* call = std::get_if<codegen::OpCall>(&launch);
    const bool is_convolution = call != nullptr && ir::is_convolution(call->op.code);
    if (is_convolution) all.convolution_flops += static_cast<double>(cost.flops);
    ++all.launches;
    all.bytes += bytes;
    if (is_convolution) continue;  // a product, whose bytes move while it computes
    all.seconds += copy_seconds(copies, bytes);
    all.memory_seconds += bytes * copies.back().seconds;
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch))
      all.dot_flops += static_cast<double>(kernel->members()) * dot_flops(kernel->kernel);
  }
  return all;
}

void run(std::istream& input, int threads) {
  const std::string text(std::istreambuf_iterator<char>(input), {});
  const ir::Module module = ir::parse(text, "stdin");
  ir::verify(module);
  if (module.functions.size() != 1)
    user_error("stdin: one program is wanted: rewire dump MODEL --stage step");
  const codegen::Program program = codegen::lower(module, module.functions.front());

  runtime::ThreadPool pool(threads);
  const std::vector<CopyTime> times = measure_copies(pool);
  codegen::CpuJit jit({});
  const Gemms gemms = measure_gemms(program, pool, jit);
  const Kernels kernels = price_kernels(program, times);
  const double peak = runtime::multiply_add_peak(jit.product(), pool);
  const double dots = kernels.dot_flops / gemms.best_rate;
  const double products = gemms.flops + kernels.dot_flops + kernels.convolution_flops;

  Json copies = Json::array();
  for (const CopyTime& time : times)
    copies.push_back({{"mb", time.bytes * 1e-6}, {"gb_per_s", kGiga / time.seconds.best}});
  Seconds floor = gemms.seconds;
  floor += kernels.seconds;
  const Json result = {{"program", program.name},
                       {"cpu", codegen::host_cpu_description()},
                       {"threads", threads},
                       {"floor_ms", floor.best * kMilli},
                       {"floor_median_ms", floor.median * kMilli},
                       {"floor_with_dots_ms", (floor.best + dots) * kMilli},
                       {"peak_gflops", peak * kGiga},
                       {"floor_from_peak_ms", (products / (kOfPeak * peak) + kernels.seconds.best) * kMilli},
                       {"floor_from_memory_ms", (gemms.seconds.best + kernels.memory_seconds.best) * kMilli},
                       {"gemm",
                        {{"launches", gemms.launches},
                         {"gflop", gemms.flops * kGiga},
                         {"ms", gemms.seconds.best * kMilli},
                         {"engine_ms", gemms.engine_seconds.best * kMilli},
                         {"shapes", gemms.shapes}}},
                       {"kernels",
                        {{"launches", kernels.launches},
                         {"mb", kernels.bytes * 1e-6},
                         {"ms", kernels.seconds.best * kMilli},
                         {"from_memory_ms", kernels.memory_seconds.best * kMilli},
                         {"dot_gflop", kernels.dot_flops * kGiga},
                         {"dot_ms", dots * kMilli},
                         {"convolution_gflop", kernels.convolution_flops * kGiga}}},
                       {"copies", copies}};
  fmt::print("{}\n", result.dump(2));
}

}  // namespace
}  // namespace rewire::bench

int main(int argc, char** argv) {
  try {
    rewire::bench::run(std::cin, argc > 1 ? std::atoi(argv[1]) : 2);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rewire_bench_ceilings: {}\n", error.what());
    return 1;
  }
}
