// The files of byte-level BPE with any bytes. A vocabulary that is accepted gives back any text. The input is a
// tiktoken file, or a vocab.json, a NUL and a merges.txt.
#include <string>
#include <string_view>

#include "runtime/data/text/tokenizer.h"
#include "tests/fuzz/fuzz_folder.h"
#include "tests/fuzz/fuzz_support.h"

namespace {

using namespace rewire;

void check_tokenizer(const std::string& name) {
  test::accepted([&] {
    const auto tokenizer = runtime::make_tokenizer(name);
    constexpr std::string_view kText = "It's  a test of 12 words,\n\tnaïve ones 東京 😀\u00a0 .";
    std::string back;
    tokenizer->encode(kText, "text", [&](std::span<const std::int32_t> ids) {
      for (const std::int32_t id : ids) back += tokenizer->text_of(id);
    });
    test::require(back == kText);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const test::FuzzFolder& folder = test::fuzz_folder();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = input.find('\0');
  if (nul == std::string_view::npos) {
    folder.write("x.tiktoken", input);
    check_tokenizer("tiktoken:" + folder.file("x.tiktoken"));
  } else {
    folder.write("gpt2/vocab.json", input.substr(0, nul));
    folder.write("gpt2/merges.txt", input.substr(nul + 1));
    check_tokenizer("gpt2:" + folder.file("gpt2"));
  }
  return 0;
}
