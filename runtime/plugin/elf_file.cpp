// Reads just enough ELF: header, segments, dynamic symbols. Every offset is checked against the file's size.
#include "runtime/plugin/elf_file.h"

#include <elf.h>

#include <cstring>

#include "ir/error.h"
#include "plugins/sdk/rewire_plugin.h"

namespace rewire::runtime {
namespace {

[[noreturn]] void damaged() {
  user_error("it is a truncated or damaged library: copy or build it again");
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }
  void require(std::uint64_t offset, std::uint64_t size) const {
    if (!holds(offset, size)) damaged();
  }
  template <class T>
  T at(std::uint64_t offset) const {
    require(offset, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  /// The text at `offset` up to its zero, which stands before `end`.
  std::string_view text(std::uint64_t offset, std::uint64_t end) const {
    if (offset >= end) damaged();
    require(offset, end - offset);
    const char* begin = reinterpret_cast<const char*>(bytes_.data()) + offset;
    return {begin, strnlen(begin, end - offset)};
  }

 private:
  std::span<const std::byte> bytes_;
};

Elf64_Ehdr read_header(const Reader& file) {
  if (!file.holds(0, SELFMAG) || std::memcmp(file.text(0, SELFMAG).data(), ELFMAG, SELFMAG) != 0) {
    user_error("it is no shared library");
  }
  const auto header = file.at<Elf64_Ehdr>(0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_type != ET_DYN) {
    user_error("it is no 64-bit shared library of this kind of machine");
  }
  return header;
}

void note_symbol(ElfFacts& facts, const Elf64_Sym& symbol, std::string_view name, std::string_view wanted) {
  if (symbol.st_shndx != SHN_UNDEF) {
    facts.exports_symbol |= name == wanted;
  } else if (name.starts_with("__asan_init")) {
    facts.sanitizer = REWIRE_SANITIZER_ADDRESS;
  } else if (name.starts_with("__tsan_init")) {
    facts.sanitizer = REWIRE_SANITIZER_THREAD;
  }
}

}  // namespace

ElfFacts read_elf(std::span<const std::byte> bytes, std::string_view symbol) {
  const Reader file(bytes);
  const Elf64_Ehdr header = read_header(file);
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type == PT_LOAD) file.require(segment.p_offset, segment.p_filesz);
  }
  ElfFacts facts;
  const auto section = [&](std::uint64_t i) {
    return file.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr names = section(symbols.sh_link);
    file.require(symbols.sh_offset, symbols.sh_size);
    file.require(names.sh_offset, names.sh_size);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
      const auto entry = file.at<Elf64_Sym>(symbols.sh_offset + at);
      const std::string_view name =
          file.text(names.sh_offset + entry.st_name, names.sh_offset + names.sh_size);
      note_symbol(facts, entry, name, symbol);
    }
  }
  return facts;
}

}  // namespace rewire::runtime
