#include "runtime/exec/cuda/tune/convolution_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "ir/opcodes.h"
#include "runtime/device/log.h"
#include "runtime/exec/cuda/tune/engine_racer.h"

namespace rewire::runtime {
namespace {

using codegen::CudnnConvolution;
using codegen::DeviceConvolution;

constexpr std::size_t kTimedConvolutionEngines = 6;  // the first of cuDNN's heuristic
constexpr const char* kToTimeConvolutions = "to time convolutions";

/// Times engines on memory of its own by the device's clock.
class ConvolutionBench {
 public:
  ConvolutionBench(const DeviceConvolution& convolution, const cuda::Stream& stream, std::size_t engines)
      : stream_(stream), timer_(stream, kToTimeConvolutions, engines) {
    const ir::ConvShape& shape = convolution.shape;
    const std::vector<ir::Shape> shapes = {shape.input(false), shape.weight(),
                                           shape.output(false)};  // x, w, y
    // (x, w) -> y, (y, w) -> x or (x, y) -> w
    const bool of_input = convolution.code == ir::Opcode::conv2d_input_grad,
               of_weight = convolution.code == ir::Opcode::conv2d_weight_grad;
    for (const std::size_t i : {of_input ? 2U : 0U, of_weight ? 2U : 1U,
                                of_input    ? 0U
                                : of_weight ? 1U
                                            : 2U}) {
      const std::int64_t bytes =
          ir::element_count(shapes[i]) * static_cast<std::int64_t>(ir::dtype_bytes(convolution.dtype));
      memory_.emplace_back(bytes, kToTimeConvolutions);
      fill_at_random(stream_, memory_.back().address(), bytes, convolution.dtype, kToTimeConvolutions);
    }
  }

  Racer racer(std::size_t candidate, CudnnConvolution convolution) {
    struct Engine {
      CudnnConvolution convolution;
      cuda::DeviceMemory workspace;
    };
    const std::int64_t bytes = convolution.workspace_bytes();
    const auto engine = std::make_shared<Engine>(
        Engine{std::move(convolution), cuda::DeviceMemory(bytes, kToTimeConvolutions)});
    return engine_racer(candidate, engine->convolution.chosen(), timer_,
                        [this, engine] {
                          engine->convolution.run(at(memory_[0]), at(memory_[1]), at(memory_[2]),
                                                  at(engine->workspace), stream_.handle());
                        },
                        {{memory_[2].address(), memory_[2].bytes()}});
  }

 private:
  static void* at(const cuda::DeviceMemory& memory) { return reinterpret_cast<void*>(memory.address()); }

  const cuda::Stream& stream_;
  std::vector<cuda::DeviceMemory> memory_;
  GraphTimer timer_;
};

/// Returns the convolution with a plan of exactly this engine. If there is none,
/// logs it and returns nullopt.
std::optional<CudnnConvolution> exactly(const std::string& engine, const DeviceConvolution& convolution,
                                        CudaLibraries& libraries) {
  std::string why = "it makes no plan";
  try {
    CudnnConvolution made = libraries.engines(convolution, engine);
    if (made.chosen() == engine) return made;
  } catch (const RuntimeFailure& failure) {
    why = failure.what();
  }
  write_log(LogLevel::debug, fmt::format("{} is not timed: {}", engine, why));
  return std::nullopt;
}

/// Returns the convolutions of all programs in their order, without duplicates.
std::vector<DeviceConvolution> convolutions_of(const DevicePrograms& device) {
  std::vector<DeviceConvolution> convolutions;
  std::set<DeviceConvolution> known;
  for (const codegen::Program& program : device.programs) {
    for (const codegen::Launch& launch : program.launches) {
      const auto* call = std::get_if<codegen::OpCall>(&launch);
      if (call == nullptr) continue;
      const auto convolution = device_convolution(program, *call, device.libraries.tf32());
      if (convolution && known.insert(*convolution).second) convolutions.push_back(*convolution);
    }
  }
  return convolutions;
}

}  // namespace

void choose_convolutions(DevicePrograms& device, Tuner& tuner) {
  CudaLibraries& libraries = device.libraries;
  const double before = tuner.seconds();
  const int untimed = tuner.out_of_time(), refused = tuner.refused();
  for (const DeviceConvolution& convolution : convolutions_of(device)) {
    const auto* first = std::get_if<CudnnConvolution>(&libraries.convolution(convolution));
    if (first == nullptr) continue;
    std::vector<std::string> engines = {first->chosen()};
    for (const std::string& engine : first->engines()) {
      if (engines.size() == kTimedConvolutionEngines) break;
      if (engine != first->chosen()) engines.push_back(engine);
    }
    std::vector<std::string> labels;
    for (const std::string& engine : engines) labels.push_back(engine_label(engine));
    const auto accepts = [&](const std::string& answer) {
      return std::ranges::find(first->engines(), answer) != first->engines().end();
    };
    const auto racers = [&] {
      const auto bench = std::make_shared<ConvolutionBench>(convolution, device.stream, engines.size());
      std::vector<Racer> racing;
      for (std::size_t i = 0; i < engines.size(); ++i) {
        if (auto made = exactly(engines[i], convolution, libraries))
          racing.push_back(bench->racer(i, std::move(*made)));
      }
      for (Racer& racer : racing) racer.run = [bench, run = std::move(racer.run)] { return run(); };
      return racing;
    };
    tuner.choose(TimedChoice{codegen::full_name(convolution), engines, labels, accepts, racers,
                             kConvolutionSeconds - (tuner.seconds() - before)});
  }
  if (const int again = tuner.refused() - refused; again > 0)
    write_log(LogLevel::warning, fmt::format("cuDNN refuses {} recorded engines of convolutions here: they "
                                             "are chosen again, and the last bits of a step may change",
                                             again));
  if (const int left = tuner.out_of_time() - untimed; left > 0)
    write_log(LogLevel::warning, fmt::format("{} convolutions were not timed within {}: they use the "
                                             "engine that cuDNN's heuristic ranks first",
                                             left, tuner.limit_text(kConvolutionSeconds)));
}

}  // namespace rewire::runtime
