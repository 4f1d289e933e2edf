// The sweep reader on any text: what it accepts is runs of different names, whose settings a recipe takes.
#include <algorithm>
#include <set>
#include <string>

#include "runtime/recipe/recipe.h"
#include "runtime/sweep/sweep.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  constexpr std::size_t kRead = 16;  // of up to 10,000 runs
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  runtime::Sweep sweep;
  if (!test::accepted([&] { sweep = runtime::parse_sweep(text, "input"); })) return 0;
  const std::vector<runtime::SweepRun> runs = runtime::sweep_runs(sweep);
  test::require(!runs.empty());
  std::set<std::string> names;
  for (const runtime::SweepRun& run : runs) {
    test::require(!run.name.empty() && run.name.front() != '.' && run.name.find('/') == std::string::npos);
    test::require(names.insert(run.name).second);
  }
  for (std::size_t i = 0; i < std::min(runs.size(), kRead); ++i)
    runtime::to_toml(runtime::parse_recipe("", "input", runs[i].settings));
  return 0;
}
