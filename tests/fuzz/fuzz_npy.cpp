// The .npy reader on any bytes: what it accepts holds no more than the file does.
#include "runtime/io/npy.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  test::accepted([&] {
    const runtime::HostTensor tensor = runtime::parse_npy(std::as_bytes(std::span(data, size)), "input");
    test::require(tensor.bytes().size() == static_cast<std::size_t>(tensor.type().bytes()));
    test::require(tensor.bytes().size() < size);
  });
  return 0;
}
