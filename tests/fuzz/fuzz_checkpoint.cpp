// The reader of checkpoint.json on any text, as it is or with a checksum that fits: a checkpoint is read, or
// called damaged in one line.
#include <nlohmann/json.hpp>
#include <string_view>

#include "codegen/files/digest.h"
#include "runtime/io/json_view.h"
#include "runtime/run/checkpoint.h"
#include "tests/fuzz/fuzz_folder.h"

namespace {

using namespace rewire;

constexpr const char* kCheckpoint = "run/checkpoints/0001-00000003";

std::string digest(std::string_view text) {
  return codegen::digest_hex(std::as_bytes(std::span(text.data(), text.size())));
}

/// With the sum that its writer would have given it, where it is an object.
std::string sealed(std::string_view text) {
  std::string result(text);
  test::accepted([&] {
    nlohmann::ordered_json json = runtime::parse_json(text, "input");
    if (!json.is_object()) return;
    json.erase("blake3");
    if (json.contains("files"))
      json["files"] = {{"weights.safetensors", digest(std::string_view("\2\0\0\0\0\0\0\0{}", 10))}};
    json["blake3"] = digest(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    result = json.dump();
  });
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const test::FuzzFolder& folder = test::fuzz_folder();
  static const bool prepared = [&] {
    folder.write("run/recipe.toml", "");
    folder.write(std::string(kCheckpoint) + "/weights.safetensors",
                 std::string_view("\2\0\0\0\0\0\0\0{}", 10));
    return true;
  }();
  static_cast<void>(prepared);
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool seals = test::takes_other_way(text);
  folder.write(std::string(kCheckpoint) + "/checkpoint.json", seals ? sealed(text) : std::string(text));
  test::accepted([&] {
    const auto weights = runtime::read_last_weights(runtime::RunFolder::open(folder.file("run")));
    test::require(weights && weights->position.epoch == 1 && weights->position.step == 3);
    test::require(weights->position.step_in_epoch >= 0);
  });
  return 0;
}
