// The reader of choices on any JSON: what it accepts is written as JSON that reads as the same choices.
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/exec/tune/choice_record.h"
#include "runtime/io/json_view.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  runtime::ChoiceRecord record;
  const auto read = [&](const nlohmann::ordered_json& json) {
    return runtime::record_from_json(runtime::JsonView(json, "input"));
  };
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!test::accepted([&] { record = read(runtime::parse_json(text, "input")); })) return 0;
  const nlohmann::ordered_json written = to_json(record);
  test::require(to_json(read(written)) == written);
  return 0;
}
