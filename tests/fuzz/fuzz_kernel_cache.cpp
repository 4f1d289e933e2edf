// An entry of the kernel cache of any bytes, as they are or behind the magic and a checksum that fits: a
// miss, or an object within the file and scratch memory within bounds.
#include <span>
#include <string>
#include <string_view>

#include "codegen/files/digest.h"
#include "codegen/object_cache.h"
#include "tests/fuzz/fuzz_folder.h"

namespace {

constexpr const char* kKey = "a kernel";

std::string sealed(std::string_view rest) {
  const std::string hex = rewire::codegen::digest_hex(std::as_bytes(std::span(rest.data(), rest.size())));
  std::string sum;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    sum += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "rewire-kernel-2\n" + sum + std::string(rest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const test::FuzzFolder& folder = test::fuzz_folder();
  static const codegen::ObjectCache cache(folder.file("cache"));
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool seals = test::takes_other_way(text);
  const std::string entry = cache.path(kKey);
  folder.write("cache/" + entry.substr(entry.rfind('/') + 1), seals ? sealed(text) : std::string(text));
  std::string why;
  const auto object = cache.load(kKey, &why);
  test::require(object.has_value() == why.empty());
  if (!object) return 0;
  test::require(object->object.size() < size);
  test::require(object->scratch_bytes >= 0 && object->scratch_bytes <= std::int64_t{1} << 32);
  return 0;
}
