// The places of processes that train at once: each core belongs to one, as long as there are enough.
#include "runtime/sweep/places.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/device/process.h"
#include "tests/fake_cuda/use.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using runtime::ProcessPlace;

TEST_CASE("Processes divide the cores, and share them if they are more") {
  const std::vector<int> cores = runtime::allowed_cores();
  REQUIRE_FALSE(cores.empty());
  CHECK(runtime::divided_places(1, false).at(0).cores.empty());
  const int most = runtime::usable_cores();  // fewer than the cores, if there is a quota
  for (int count = 2; count <= 2 * most + 1; ++count) {
    CAPTURE(count, most);
    const std::vector<ProcessPlace> places = runtime::divided_places(count, false);
    REQUIRE(places.size() == static_cast<std::size_t>(count));
    std::vector<int> all;
    for (const ProcessPlace& place : places) {
      CHECK(place.device.empty());
      CHECK_FALSE(place.cores.empty());
      all.insert(all.end(), place.cores.begin(), place.cores.end());
    }
    std::ranges::sort(all);
    if (count <= most) {
      CHECK(all.size() == static_cast<std::size_t>(most));
      CHECK(std::ranges::adjacent_find(all) == all.end());
      CHECK(std::ranges::includes(cores, all));
    }
    if (count > most) CHECK(all.size() == static_cast<std::size_t>(count));
  }
}

TEST_CASE("Processes take the GPUs in turn") {
  for (const auto& [name, value] : fake_cuda::environment()) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("REWIRE_FAKE_CUDA_DEVICES", "3", 1);
  const auto devices = [](int count) {
    std::string all;
    for (const ProcessPlace& place : runtime::divided_places(count, true)) all += place.device + ";";
    return all;
  };
  CHECK(devices(1) == ";");
  CHECK(devices(4) == "0;1;2;0;");
  ::setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  CHECK(devices(3) == "2;0;2;");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace rewire::test
