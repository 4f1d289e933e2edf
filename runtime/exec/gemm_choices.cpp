#include "runtime/exec/gemm_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "ir/passes/mixed_precision.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/cuda_engine.h"
#include "runtime/exec/cuda_lowering.h"
#include "runtime/log.h"

namespace rewire::runtime {
namespace {

using codegen::DeviceGemm;
using codegen::DeviceGemmShape;

constexpr int kCandidates = 8;
constexpr double kGraphSeconds = 2e-4;  // what one timing takes, by as many products as that takes
constexpr int kMostProducts = 20;
constexpr unsigned char kNumbers =
    0x3C;  // a byte of which every type makes numbers that are neither 0 nor large

/// The bytes from the first to the last element of a matrix of every batch.
std::int64_t bytes_of(const DeviceGemmShape& shape, const DeviceGemmShape::Matrix& matrix, std::int64_t rows,
                      std::int64_t columns, ir::DType dtype) {
  const std::int64_t last =
      (shape.batch - 1) * matrix.batch + (rows - 1) * matrix.row + (columns - 1) * matrix.column;
  return (last + 1) * static_cast<std::int64_t>(ir::dtype_bytes(dtype));
}

/// Runs a product's algorithms on memory of its own, by the device's clock.
class GemmBench {
 public:
  GemmBench(const DeviceGemmShape& shape, DeviceGemm& gemm, const cuda::Stream& stream)
      : gemm_(gemm),
        stream_(stream),
        a_(bytes_of(shape, shape.a, shape.m, shape.k, shape.dtype), kWhat),
        b_(bytes_of(shape, shape.b, shape.k, shape.n, shape.dtype), kWhat),
        c_(bytes_of(shape, shape.c, shape.m, shape.n, shape.result), kWhat),
        bias_(shape.n * static_cast<std::int64_t>(ir::dtype_bytes(shape.result)), kWhat) {
    std::int64_t workspace = 0;
    for (std::size_t i = 0; i < gemm.algorithms().size(); ++i) {
      gemm.choose(static_cast<int>(i));
      workspace = std::max(workspace, gemm.workspace_bytes());
    }
    workspace_ = cuda::DeviceMemory(workspace, kWhat);
    for (const cuda::DeviceMemory* memory : {&a_, &b_, &c_, &bias_})
      stream.fill(memory->address(), kNumbers, memory->bytes(), kWhat);
    graphs_.resize(gemm.algorithms().size());
  }

  /// Seconds a product.
  double time(std::size_t algorithm) {
    Replay& replay = graphs_[algorithm];
    if (!replay.graph) {
      gemm_.choose(static_cast<int>(algorithm));
      run();  // may load the algorithm's code
      stream_.synchronise(kWhat);
      const double once = seconds([&] { run(); });
      replay.products =
          static_cast<int>(std::clamp(kGraphSeconds / std::max(once, 1e-9), 1.0, double{kMostProducts}));
      replay.graph = cuda::Graph(stream_, kWhat, [&] {
        for (int i = 0; i < replay.products; ++i) run();
      });
    }
    return seconds([&] { replay.graph.launch(stream_, kWhat); }) / replay.products;
  }

 private:
  static constexpr const char* kWhat = "to time matrix products";
  struct Replay {
    cuda::Graph graph;
    int products = 1;
  };

  void run() const {
    const auto at = [](const cuda::DeviceMemory& memory) {
      return reinterpret_cast<void*>(memory.address());
    };
    gemm_.run(at(a_), at(b_), at(c_), at(bias_), at(workspace_), stream_.handle());
  }

  template <class Work>
  double seconds(Work work) const {
    start_.record(stream_);
    work();
    end_.record(stream_);
    stream_.synchronise(kWhat);
    return end_.seconds_since(start_);
  }

  DeviceGemm& gemm_;
  const cuda::Stream& stream_;
  cuda::DeviceMemory a_, b_, c_, bias_, workspace_;
  cuda::Event start_{true}, end_{true};
  std::vector<Replay> graphs_;
};

/// "2: algorithm 66, tile 18, stages 35, split 1, swizzle 0, option 0": the rank tells those apart of which
/// the words say the same.
std::string label(std::size_t rank, const std::string& algorithm) {
  const std::size_t from = algorithm.find("algorithm"), to = algorithm.rfind(": ");
  return fmt::format("{}: {}", rank + 1, algorithm.substr(from, to - from));
}

/// Of all functions, each once, in their order.
std::vector<DeviceGemmShape> products_of(const ir::Module& module, const std::vector<std::string>& functions,
                                         const codegen::cuda::DeviceTarget& target,
                                         CudaLibraries& libraries) {
  const FunctionNames training = training_functions(module);
  std::vector<DeviceGemmShape> products;
  std::set<DeviceGemmShape> known;
  for (const ir::Function& function : module.functions) {
    if (std::ranges::find(functions, function.name) == functions.end()) continue;
    const codegen::Program program = lower_for_device(
        module, function, {target, training.contains(function.name), /*fuse=*/true}, libraries);
    for (const codegen::Launch& launch : program.launches) {
      const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch);
      if (gemm == nullptr) continue;
      const DeviceGemmShape shape =
          codegen::device_gemm_calls(program, *gemm, libraries.tf32()).front().shape;
      if (libraries.answer(shape) != codegen::GemmAnswer::none && known.insert(shape).second)
        products.push_back(shape);
    }
  }
  return products;
}

}  // namespace

void choose_algorithms(const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
  const cuda::Context context;
  const cuda::Stream stream;
  CudaLibraries libraries(ir::allows_tf32(module), tuner.record());
  const std::vector<DeviceGemmShape> products =
      products_of(module, functions, target_of(context.facts()), libraries);
  const double before = tuner.seconds();
  const int untimed = tuner.out_of_time(), refused = tuner.refused();
  for (const DeviceGemmShape& shape : products) {
    DeviceGemm gemm = libraries.candidates(shape, kCandidates);
    const std::vector<std::string> algorithms = gemm.algorithms();
    std::vector<std::string> labels;
    for (const std::string& algorithm : algorithms) labels.push_back(label(labels.size(), algorithm));
    const auto racers = [&] {
      const auto bench = std::make_shared<GemmBench>(shape, gemm, stream);
      std::vector<Racer> racing;
      for (std::size_t i = 0; i < algorithms.size(); ++i)
        racing.push_back({i, [bench, i] { return bench->time(i); }});
      return racing;
    };
    tuner.choose(TimedChoice{codegen::full_name(shape), algorithms, labels,
                             [&gemm](const std::string& answer) { return gemm.choose(answer); }, racers,
                             kGemmSeconds - (tuner.seconds() - before)});
  }
  if (const int again = tuner.refused() - refused; again > 0)
    write_log(
        LogLevel::warning,
        fmt::format("{} recorded algorithms of matrix products are refused by cuBLASLt {} on {}: they are "
                    "chosen anew, and the last bits of a step may change",
                    again, codegen::CublasLt::version(), describe(context.facts())));
  if (const int left = tuner.out_of_time() - untimed; left > 0)
    write_log(LogLevel::warning,
              fmt::format("{} of {} matrix products were not timed within {} s: they take the algorithm that "
                          "cuBLASLt's heuristic puts first",
                          left, products.size(), kGemmSeconds));
}

}  // namespace rewire::runtime
