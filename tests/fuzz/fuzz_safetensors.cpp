// The safetensors reader on any bytes: what it accepts holds no more than the file does.
#include "runtime/io/safetensors.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  test::accepted([&] {
    const runtime::SafetensorsFile file =
        runtime::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : file.tensors) {
      test::require(tensor.bytes().size() == static_cast<std::size_t>(tensor.type().bytes()));
      bytes += tensor.bytes().size();
    }
    test::require(bytes < size);
  });
  return 0;
}
