// The ELF reader on damaged libraries: it refuses or answers, and never reads outside the bytes (which the
// sanitizer builds would see).
#include "runtime/plugin/elf_file.h"

#include <elf.h>

#include <cstring>

#include "ir/philox.h"
#include "runtime/io/files.h"
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

constexpr char kQuery[] = "rewire_plugin_query";

/// In a block of its own size, so that one byte too far is seen.
std::string verdict(const std::vector<std::byte>& bytes) {
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  return message_of<UserError>([&] { runtime::read_elf(exact, kQuery); });
}

template <class Change>
std::string verdict_with_header(std::vector<std::byte> bytes, Change change) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  change(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return verdict(bytes);
}

TEST_CASE("A whole library tells what it exports") {
  const std::vector<std::byte> bytes = runtime::read_file(fixture_path("gain"));
  CHECK(runtime::read_elf(bytes, kQuery).exports_symbol);
  CHECK_FALSE(runtime::read_elf(bytes, "rewire_plugin_quer").exports_symbol);
  CHECK_FALSE(runtime::read_elf(bytes, "").exports_symbol);
  CHECK_FALSE(runtime::read_elf(runtime::read_file(fixture_path("no_symbol")), kQuery).exports_symbol);
}

TEST_CASE("Other kinds of ELF file are no library") {
  const std::vector<std::byte> bytes = runtime::read_file(fixture_path("gain"));
  const std::string kind = "it is not a 64-bit shared library for this kind of machine";
  CHECK(verdict_with_header(bytes, [](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; }) == kind);
  CHECK(verdict_with_header(bytes, [](Elf64_Ehdr& h) { h.e_ident[EI_DATA] = ELFDATA2MSB; }) == kind);
  CHECK(verdict_with_header(bytes, [](Elf64_Ehdr& h) { h.e_type = ET_REL; }) == kind);
}

TEST_CASE("Tables that lie outside the file are damage") {
  const std::vector<std::byte> bytes = runtime::read_file(fixture_path("gain"));
  const std::string damage = "it is a truncated or damaged library: copy or build it again";
  for (const std::uint64_t offset :
       {bytes.size() - 8, bytes.size(), std::size_t{1} << 40, ~std::size_t{0} - 8}) {
    CAPTURE(offset);
    CHECK(verdict_with_header(bytes, [&](Elf64_Ehdr& h) { h.e_shoff = offset; }) == damage);
    CHECK(verdict_with_header(bytes, [&](Elf64_Ehdr& h) { h.e_phoff = offset; }) == damage);
  }
}

TEST_CASE("Random damage is refused or survived") {
  const std::vector<std::byte> whole = runtime::read_file(fixture_path("gain"));
  const std::uint64_t seed = 20240607;
  CAPTURE(seed);
  const ir::PhiloxStream random{seed, 0, ir::stream_hash("elf_file_test")};
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof(header));
  const std::size_t sections = header.e_shoff;
  for (std::uint64_t trial = 0; trial < 2000; ++trial) {
    CAPTURE(trial);
    std::vector<std::byte> bytes = whole;
    // Half of the damage goes to the header and the section table, where it hurts most.
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::uint32_t draw = random.bits(trial * 16 + i), value = random.bits(trial * 16 + 8 + i);
      const std::size_t places[] = {draw % bytes.size(), draw % sizeof(header),
                                    sections + draw % (bytes.size() - sections), draw % bytes.size()};
      bytes[places[i]] = static_cast<std::byte>(value);
    }
    const std::string message = verdict(bytes);
    CHECK((message == "(nothing was thrown)" || message.starts_with("it is ")));
  }
}

}  // namespace
}  // namespace rewire::test
