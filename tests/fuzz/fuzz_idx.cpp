// The IDX reader on any bytes, and on the same bytes packed by gzip, which it must judge alike.
#include "runtime/data/vision/idx.h"
#include "tests/fuzz/fuzz_support.h"
#include "tests/runtime_data/idx_files.h"

namespace {

using namespace rewire;

bool read(const std::string& bytes, runtime::IdxArray& array) {
  return test::accepted(
      [&] { array = runtime::parse_idx(std::as_bytes(std::span(bytes.data(), bytes.size())), "input"); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  runtime::IdxArray array, packed;
  const bool is_gzip = bytes.starts_with("\x1f\x8b");
  const bool good = read(bytes, array);
  if (good && !is_gzip) test::require(array.data.size() < size);
  if (!is_gzip) {
    test::require(read(test::gzip(bytes), packed) == good);
    test::require(packed.data == array.data && packed.shape == array.shape);
  }
  return 0;
}
