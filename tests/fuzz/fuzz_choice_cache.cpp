// An entry of the cache of choices of any bytes: a miss, or the choice that was asked for.
#include <string_view>

#include "runtime/exec/tune/choice_cache.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const test::FuzzFolder& folder = test::fuzz_folder();
  static const runtime::ChoiceCache cache(folder.file("cache"), "here");
  const std::string key = "circulant_matmul conv rows=16 blocks=1x28 lags=28 f32 training",
                    entry = cache.path(key);
  folder.write("cache/" + entry.substr(entry.rfind('/') + 1), {reinterpret_cast<const char*>(data), size});
  const auto choice = cache.load(key);
  test::require(!choice || (choice->key == key && !choice->taken.empty()));
  return 0;
}
