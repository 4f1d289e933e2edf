// What PyTorch computed in float64 (tests/reference/goldens), held against the CUDA engine: in f32 with the runs
// of twenty steps that a golden has, and in bf16 beside PyTorch's autocast, where autocast.json has the golden.
//
//   device_goldens FOLDER [FIRST OF]     of the files of FOLDER, in the order of their names, the FIRST (from 0)
//                                        and every OF-th after it
//
// It runs where the libraries lead it: on a GPU (scripts/gpu/call.py), or on the fake ones that CTest names.
// The exit code is Catch's: 0 if all agree.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#endif
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/engine.h"
#include "tests/parity/autocast.h"
#include "tests/parity/mean_squares.h"
#include "tests/plugins/backends.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

std::vector<std::string> names;  // of the goldens that are held

std::unique_ptr<runtime::Engine> on_device(const ir::Module& module) {
  runtime::CudaEngineOptions options;
  options.check_memory = true;
  return runtime::make_cuda_engine(module, options);
}

TEST_CASE("In f32 a GPU computes and learns as PyTorch does in float64") {
  for (const std::string& name : names) {
    const Golden golden = read_golden(name);
    Backend device = rewriting_evaluator(golden);
    device.dtype = ir::DType::f32;
    device.make_engine = on_device;
    check_gradients(golden, device, kSingle);
    // Some gradients of hyper's scales nearly cancel: f32 has too few digits for what AdamW divides by them.
    const bool steps = name.find("hyper") == std::string::npos;
    for (const auto& [run, options] : golden.runs) {
      if (steps) check_run(golden, run, device, kSingle);
    }
    fmt::print("{}: gradients, {} runs\n", name, steps ? golden.runs.size() : 0);
  }
}

TEST_CASE("In bf16 a GPU errs no more than PyTorch's autocast does") {
  for (const std::string& name : names) {
    if (!has_autocast(name)) continue;
    check_against_autocast(name, rewriting_evaluator(read_golden(name)).rewrite, on_device);
    fmt::print("{}: bf16\n", name);
  }
}

/// The names of the folder's goldens, of these the ones at first, first + of, …
std::vector<std::string> goldens_of(const std::filesystem::path& folder, std::size_t first, std::size_t of) {
  std::vector<std::string> all, some;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") all.push_back(entry.path().stem().string());
  }
  std::ranges::sort(all);
  for (std::size_t i = first; i < all.size(); i += of) some.push_back(all[i]);
  return some;
}

std::size_t number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("'{}' is no number", text));
  return value;
}

int run(int argc, char** argv) {
  if (argc != 2 && argc != 4) throw std::invalid_argument("FOLDER, or FOLDER FIRST OF");
  const std::size_t first = argc == 4 ? number(argv[2]) : 0, of = argc == 4 ? number(argv[3]) : 1;
  if (first >= of) throw std::invalid_argument("FIRST is not below OF");
  mean_squares();  // the objective of some goldens
  set_golden_folder(argv[1]);
  names = goldens_of(argv[1], first, of);
  if (names.empty()) throw std::invalid_argument(fmt::format("'{}' has no goldens", argv[1]));
  const runtime::cuda::Context context;  // stays while engines come and go
  fmt::print("{} goldens on {}\n", names.size(), context.facts().name);
  return Catch::Session().run(1, argv);
}

}  // namespace
}  // namespace rewire::parity

int main(int argc, char** argv) {
  try {
    return rewire::parity::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_goldens: {}\n", error.what());
    return 2;
  }
}
