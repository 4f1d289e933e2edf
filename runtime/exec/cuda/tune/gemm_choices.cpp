#include "runtime/exec/cuda/tune/gemm_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "runtime/device/log.h"
#include "runtime/exec/cuda/device_timing.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/tune/tune_keys.h"

namespace rewire::runtime {
namespace {

using codegen::DeviceGemm;
using codegen::DeviceGemmShape;

constexpr int kCandidates = 32;
/// A candidate leaves the race after a run that takes this many times as long as the best so far.
constexpr double kBehind = 1.3;
/// The heuristic's first few are timed in any case, the others while this share of a product's time lasts.
constexpr std::size_t kSurelyTimed = 8;
constexpr double kEntryShare = 0.25;

/// Returns the bytes from the first to the last element of all matrices of the batch.
std::int64_t bytes_of(const DeviceGemmShape& shape, const DeviceGemmShape::Matrix& matrix, std::int64_t rows,
                      std::int64_t columns, ir::DType dtype) {
  const std::int64_t last =
      (shape.batch - 1) * matrix.batch + (rows - 1) * matrix.row + (columns - 1) * matrix.column;
  return (last + 1) * static_cast<std::int64_t>(ir::dtype_bytes(dtype));
}

/// Times a product's algorithms on memory of its own by the device's clock.
class GemmBench {
 public:
  GemmBench(const DeviceGemmShape& shape, DeviceGemm& gemm, const cuda::Stream& stream)
      : gemm_(gemm),
        stream_(stream),
        a_(bytes_of(shape, shape.a, shape.m, shape.k, shape.dtype), kMemory),
        b_(bytes_of(shape, shape.b, shape.k, shape.n, shape.dtype), kMemory),
        c_(bytes_of(shape, shape.c, shape.m, shape.n, shape.result), kMemory),
        bias_(shape.n * static_cast<std::int64_t>(ir::dtype_bytes(shape.result)), kMemory),
        pre_(shape.has_pre() ? bytes_of(shape, shape.pre, shape.m, shape.n, shape.result) : 0, kMemory),
        shape_(shape),
        timer_(stream, kPurpose, gemm.algorithms().size()) {
    std::int64_t workspace = 0;
    for (std::size_t i = 0; i < gemm.algorithms().size(); ++i) {
      gemm.choose(static_cast<int>(i));
      workspace = std::max(workspace, gemm.workspace_bytes());
    }
    workspace_ = cuda::DeviceMemory(workspace, kMemory);
    for (const cuda::DeviceMemory* memory : {&a_, &b_})
      fill_at_random(stream, memory->address(), memory->bytes(), shape.dtype, kPurpose);
    for (const cuda::DeviceMemory* memory : {&c_, &bias_, &pre_})
      fill_at_random(stream, memory->address(), memory->bytes(), shape.result, kPurpose);
  }

  /// Returns seconds per product.
  double time(std::size_t algorithm) {
    gemm_.choose(static_cast<int>(algorithm));
    return timer_.time(algorithm, [this] { run(); });
  }

  bool repeats(std::size_t algorithm) {
    gemm_.choose(static_cast<int>(algorithm));
    const bool gradient = shape_.epilogue == codegen::GemmEpilogue::gelu_gradient;
    std::vector<WrittenMemory> written = {{c_.address(), c_.bytes()}};
    if (gradient) written.push_back({bias_.address(), bias_.bytes()});
    if (shape_.has_pre() && !gradient) written.push_back({pre_.address(), pre_.bytes()});
    return timer_.repeats([this] { run(); }, written);
  }

 private:
  static constexpr const char* kMemory = "timing matrix products";
  static constexpr const char* kPurpose = "to time matrix products";

  void run() const {
    const auto at = [](const cuda::DeviceMemory& memory) {
      return reinterpret_cast<void*>(memory.address());
    };
    gemm_.run({at(a_), at(b_), at(c_), at(bias_), at(pre_)}, at(workspace_), stream_.handle());
  }

  DeviceGemm& gemm_;
  const cuda::Stream& stream_;
  cuda::DeviceMemory a_, b_, c_, bias_, pre_, workspace_;
  const DeviceGemmShape shape_;
  GraphTimer timer_;
};

/// Returns "2: algorithm 66, tile 18, stages 35, split 1, swizzle 0, option 0". The rank distinguishes
/// algorithms with the same text.
std::string label(std::size_t rank, const std::string& algorithm) {
  const std::size_t from = algorithm.find("algorithm"), to = algorithm.rfind(": ");
  return fmt::format("{}: {}", rank + 1, algorithm.substr(from, to - from));
}

/// Returns the products of all programs in their order, without duplicates.
std::vector<DeviceGemmShape> products_of(DevicePrograms& device) {
  std::vector<DeviceGemmShape> products;
  std::set<DeviceGemmShape> known;
  for (const codegen::Program& program : device.programs) {
    for (const codegen::Launch& launch : program.launches) {
      const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch);
      if (gemm == nullptr) continue;
      const DeviceGemmShape shape =
          codegen::device_gemm_calls(program, *gemm, device.libraries.tf32()).front().shape;
      if (device.libraries.answer(shape) != codegen::GemmAnswer::none && known.insert(shape).second)
        products.push_back(shape);
    }
  }
  return products;
}

}  // namespace

void choose_algorithms(DevicePrograms& device, Tuner& tuner) {
  const std::vector<DeviceGemmShape> products = products_of(device);
  const double before = tuner.seconds();
  const int untimed = tuner.out_of_time(), refused = tuner.refused();
  const auto candidates = static_cast<int>(tuned(tuner.record(), "candidates", kCandidates));
  for (std::size_t product = 0; product < products.size(); ++product) {
    const DeviceGemmShape& shape = products[product];
    DeviceGemm gemm = device.libraries.candidates(shape, candidates);
    const std::vector<std::string> algorithms = gemm.algorithms();
    std::vector<std::string> labels;
    for (const std::string& algorithm : algorithms) labels.push_back(label(labels.size(), algorithm));
    const auto racers = [&] {
      const auto bench = std::make_shared<GemmBench>(shape, gemm, device.stream);
      std::vector<Racer> racing;
      for (std::size_t i = 0; i < algorithms.size(); ++i)
        racing.push_back(
            {i, [bench, i] { return bench->time(i); }, [bench, i] { return bench->repeats(i); }});
      return racing;
    };
    TimedChoice choice{codegen::full_name(shape),
                       algorithms,
                       labels,
                       [&gemm](const std::string& answer) { return gemm.choose(answer); },
                       racers,
                       kGemmSeconds - (tuner.seconds() - before)};
    choice.limits = {.behind = kBehind,
                     .at_least = kSurelyTimed,
                     .entry_seconds = kEntryShare * choice.budget_seconds /
                                      static_cast<double>(products.size() - product)};
    tuner.choose(choice);
  }
  if (const int again = tuner.refused() - refused; again > 0)
    write_log(LogLevel::warning,
              fmt::format("{} recorded algorithms of matrix products are refused by cuBLASLt {} on {}: they "
                          "are chosen again, and the last bits of a step may change",
                          again, codegen::CublasLt::version(), describe(device.context.facts())));
  if (const int left = tuner.out_of_time() - untimed; left > 0)
    write_log(LogLevel::warning, fmt::format("{} of {} matrix products were not timed within {}: they use "
                                             "the algorithm that cuBLASLt's heuristic ranks first",
                                             left, products.size(), tuner.limit_text(kGemmSeconds)));
}

}  // namespace rewire::runtime
