// Random tile kernels as CUDA text against the interpreter: every storage dtype, access, reduction and dot
// that the tile IR has. REWIRE_FUZZ_SEED=n replays one of them, REWIRE_FUZZ_COUNT=n runs that many.
#include <cstdlib>
#include <map>
#include <string>

#include "codegen/cuda/emit.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/support/catch.h"
#include "tests/support/random_tile.h"
#include "tests/support/tile_check.h"

namespace rewire::cuda_shim {
namespace {

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Printed {
  codegen::tile::Kernel kernel;
  std::string symbol, text;
  Grid grid;
};

TEST_CASE("random tile kernels as CUDA text agree with the interpreter, in any order of threads") {
  const std::uint64_t only = environment("REWIRE_FUZZ_SEED", 0);
  const std::uint64_t first = only > 0 ? only : 1;
  const std::uint64_t last = only > 0 ? only : environment("REWIRE_FUZZ_COUNT", 120);
  std::map<std::uint64_t, Printed> printed;
  std::vector<KernelText> texts;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    Printed one{test::random_kernel(seed), "random_" + std::to_string(seed), {}, {}};
    INFO("REWIRE_FUZZ_SEED=" << seed << "\n" << codegen::tile::print(one.kernel));
    const auto source =
        codegen::cuda::emit(one.kernel, one.symbol, codegen::cuda::device_target(seed % 2 == 0 ? 80 : 90));
    one.text = source.text;
    one.grid = {source.launch.blocks, source.launch.threads, source.launch.shared_bytes};
    texts.push_back({one.symbol, one.text});
    printed.emplace(seed, std::move(one));
  }
  HostCompiler compiler(kernel_folder(), codegen::cuda::prelude(), CompileOptions{2, false});
  compiler.add(texts);
  for (const auto& entry : printed) {
    const std::uint64_t seed = entry.first;
    const auto& one = entry.second;
    test::TileCheck check;
    check.seed = seed;
    check.tolerance = 1e-5;
    check.floor = 0.01;
    for (const std::uint64_t order : {std::uint64_t{0}, 2 * seed, 2 * seed + 1}) {
      GridRunner runner(order_of_seed(order));
      const auto run = [&](const codegen::tile::Kernel&, const std::vector<void*>& arguments) {
        runner.launch(compiler.kernel(one.symbol), one.grid, arguments);
      };
      INFO("REWIRE_FUZZ_SEED=" << seed << ", order " << order << "\n"
                               << codegen::tile::print(one.kernel) << one.text);
      std::string problem;
      REQUIRE_NOTHROW(problem = test::check_kernel(one.kernel, check, run));
      CHECK(problem == "");
    }
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
