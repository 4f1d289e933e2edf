// A file of tokens with any bytes: what is accepted can be read, and holds no more than the file does.
#include <vector>

#include "runtime/data/text/token_file.h"
#include "tests/fuzz/fuzz_folder.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const test::FuzzFolder& folder = test::fuzz_folder();
  folder.write("tokens.bin", {reinterpret_cast<const char*>(data), size});
  const std::string path = folder.file("tokens.bin");
  for (const runtime::TokenType type :
       {runtime::TokenType::u8, runtime::TokenType::u16, runtime::TokenType::i32}) {
    test::accepted([&] {
      const runtime::TokenFile file(path, type);
      test::require(file.count() > 0 &&
                    static_cast<std::size_t>(file.count()) * bytes_of(file.type()) <= size);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(file.count()));
      file.read(0, ids);
      for (const std::int32_t id : ids) test::require(id >= 0);
    });
  }
  return 0;
}
