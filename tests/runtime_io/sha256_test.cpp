// SHA-256 against the vectors that NIST publishes with FIPS 180-4.
#include "runtime/io/sha256.h"

#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

std::string hash(const std::string& text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

TEST_CASE("SHA-256 gives the published digests") {
  CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqr"
             "smnopqrst"
             "nopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(hash(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 of pieces is that of the whole, and goes on after it was asked") {
  Sha256 digest;
  std::string whole;
  for (int i = 0; i < 200; ++i) {
    const std::string piece(static_cast<std::size_t>(i), static_cast<char>(i));
    digest.update(std::as_bytes(std::span(piece)));
    whole += piece;
    if (i % 50 == 49) CHECK(digest.hex() == hash(whole));
  }
}

}  // namespace
}  // namespace rewire::runtime
