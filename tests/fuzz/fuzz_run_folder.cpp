// A run's folder with any choices.json and entries of any names beside its checkpoints: the input is that
// file, a zero, and a name a line. What it says of itself is read or refused in one line; checkpoints are in
// order.
#include <algorithm>
#include <string_view>
#include <vector>

#include "runtime/run/run_folder.h"
#include "tests/fuzz/fuzz_folder.h"

namespace {

using namespace rewire;

constexpr int kMostNames = 8;

bool is_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 200 &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

void read_all(const runtime::RunFolder& run, std::size_t entries) {
  test::accepted([&] { runtime::recorded_engine(run); });
  test::accepted([&] { runtime::recorded_choices(run); });
  test::accepted([&] { runtime::recorded_kernels(run); });
  const std::vector<std::string> checkpoints = run.checkpoints();
  test::require(checkpoints.size() <= entries);
  for (const std::string& path : checkpoints) {
    const std::string name = path.substr(path.rfind('/') + 1);
    test::require(name.find_first_not_of("0123456789-") == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const test::FuzzFolder& folder = test::fuzz_folder();
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::filesystem::remove_all(folder.file("run"));
  folder.write("run/recipe.toml", "");
  folder.write("run/kernels/step.cu", "extern \"C\" __global__ void step() {}\n");
  folder.write("run/choices.json", test::take_until(text, '\0'));
  std::size_t entries = 0;
  for (int i = 0; i < kMostNames && !text.empty(); ++i) {
    const std::string name = test::take_until(text, '\n');
    if (!is_name(name)) continue;
    std::filesystem::create_directories(folder.file("run/checkpoints/" + name));
    ++entries;
  }
  test::accepted([&] { read_all(runtime::RunFolder::open(folder.file("run")), entries); });
  return 0;
}
