#include "runtime/exec/ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "ir/verify.h"
#include "runtime/device/log.h"
#include "runtime/device/other_load.h"
#include "runtime/device/process.h"
#include "runtime/exec/make_engine.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using ir::Value;

constexpr double kLongest = 0.1;  // seconds: no size is tried whose run is expected to take longer
constexpr int kRuns = 5;
constexpr std::int64_t kRow = 1024;
constexpr std::array<std::int64_t, 4> kCopied = {1 << 18, 1 << 21, 1 << 24, 1 << 26};  // f32 elements
constexpr std::array<std::int64_t, 4> kSquares = {256, 1024, 2048, 4096};

void add_state(ir::Module& module, const std::string& name, ir::TensorType type) {
  ir::Parameter parameter;
  parameter.name = name;
  parameter.type = std::move(type);
  module.add_parameter(parameter);
}

/// Returns a module whose function `run` writes the value of `compute` into the parameter `to`.
template <class Compute>
ir::Module updating(ir::Module module, const std::string& to, const Compute& compute) {
  ir::Function& function = module.functions.emplace_back();
  function.name = "run";
  ir::Builder b(module, function);
  b.emit(ir::Opcode::update, {compute(b)}, {{"name", to}});
  ir::verify(module);
  return module;
}

ir::Module copy_of(std::int64_t elements) {
  ir::Module module;
  module.name = "copy";
  for (const char* name : {"x", "y"}) add_state(module, name, {DType::f32, {elements / kRow, kRow}});
  return updating(std::move(module), "y", [](ir::Builder& b) { return b.add(b.param("x"), 1); });
}

ir::Module product_of(std::int64_t extent, DType dtype, bool tf32) {
  ir::Module module;
  module.name = "product";
  ir::allow_tf32(module, tf32);
  for (const char* name : {"a", "b", "c"}) add_state(module, name, {dtype, {extent, extent}});
  return updating(std::move(module), "c",
                  [](ir::Builder& b) { return b.matmul(b.param("a"), b.param("b")); });
}

/// Returns pseudo-random numbers in [-1, 1), for which a multiplier has no shortcut.
HostTensor numbers(const ir::TensorType& type) {
  HostTensor tensor(type);
  std::uint32_t state = 1;
  const auto next = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8) * 0x1p-23F - 1;
  };
  if (type.dtype == DType::f32) {
    for (float& value : tensor.as<float>()) value = next();
  } else {
    for (std::uint16_t& value : tensor.as<std::uint16_t>())
      value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(next()) >> 16);  // bf16
  }
  return tensor;
}

/// Returns the launch with the most `work` in the module's function, which may also contain a copy.
LaunchTime main_launch(std::string_view engine_name, const ir::Module& module, int threads,
                       std::int64_t LaunchTime::* work) {
  const std::unique_ptr<JitEngine> engine = make_compiling_engine(engine_name, module, {.threads = threads});
  for (const char* name : {"a", "b"}) {
    if (const ir::Parameter* parameter = module.find_parameter(name))
      engine->write_state(name, numbers(parameter->type));
  }
  const std::vector<LaunchTime> times = engine->profile("run", {}, kRuns);
  return *std::ranges::max_element(times, {}, work);
}

/// Returns the load if it is at least a twentieth of the CPUs and a tenth of one CPU. A quiet desktop uses
/// less, which is not reported.
std::optional<double> notable_load(std::optional<double> others) {
  const int cpus = usable_cores();
  if (!others || *others < std::max(0.1, 0.05 * cpus)) return std::nullopt;
  write_log(LogLevel::warning,
            fmt::format("other programs kept {:.1f} of {} CPUs busy while the ceilings were measured, so "
                        "they may be too low: measure again on an idle machine",
                        *others, cpus));
  return others;
}

}  // namespace

Ceilings measure_ceilings(std::string_view engine, DType products, bool tf32, int threads) {
  Ceilings ceilings;
  const OtherLoad others;
  double expected = 0;
  for (std::size_t i = 0; i < kCopied.size() && expected < kLongest; ++i) {
    const LaunchTime time = main_launch(engine, copy_of(kCopied[i]), threads, &LaunchTime::bytes);
    ceilings.bytes_per_second = static_cast<double>(time.bytes) / time.seconds;
    if (i + 1 < kCopied.size())
      expected = time.seconds * static_cast<double>(kCopied[i + 1]) / static_cast<double>(kCopied[i]);
  }
  expected = 0;
  for (std::size_t i = 0; i < kSquares.size() && expected < kLongest; ++i) {
    const LaunchTime time =
        main_launch(engine, product_of(kSquares[i], products, tf32), threads, &LaunchTime::flops);
    ceilings.flops_per_second =
        std::max(ceilings.flops_per_second, static_cast<double>(time.flops) / time.seconds);
    const double growth = i + 1 < kSquares.size() ? static_cast<double>(kSquares[i + 1] / kSquares[i]) : 1;
    expected = time.seconds * growth * growth * growth;
  }
  if (engine == kCudaEngine) return ceilings;
  const double peak =
      make_compiling_engine(engine, product_of(kSquares[0], products, tf32), {.threads = threads})
          ->peak_flops_per_second();
  ceilings.in_registers = peak > ceilings.flops_per_second;
  ceilings.flops_per_second = std::max(ceilings.flops_per_second, peak);
  ceilings.load = notable_load(others.cpus());
  return ceilings;
}

}  // namespace rewire::runtime
