#include "runtime/plugin/elf_file.h"

#include <llvm/Object/ELF.h>

#include "ir/error.h"
#include "plugins/sdk/rewire_plugin.h"

namespace rewire::runtime {
namespace {

using File = llvm::object::ELF64LEFile;

/// Returns the answer, or throws UserError. LLVM checks every offset that it
/// follows against the file's size.
template <class T>
T sound(llvm::Expected<T> answer) {
  if (answer) return *answer;
  llvm::consumeError(answer.takeError());
  user_error("it is a truncated or damaged library: copy or build it again");
}

void note_symbol(ElfFacts& facts, const File::Elf_Sym& symbol, llvm::StringRef name,
                 std::string_view wanted) {
  if (!symbol.isUndefined()) {
    facts.exports_symbol |= std::string_view(name) == wanted;
  } else if (name.starts_with("__asan_init")) {
    facts.sanitizer = REWIRE_SANITIZER_ADDRESS;
  } else if (name.starts_with("__tsan_init")) {
    facts.sanitizer = REWIRE_SANITIZER_THREAD;
  }
}

}  // namespace

ElfFacts read_elf(std::span<const std::byte> bytes, std::string_view symbol) {
  const llvm::StringRef text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(llvm::ELF::ElfMagic)) user_error("it is not a shared library");
  const File file = sound(File::create(text));
  const File::Elf_Ehdr& header = file.getHeader();
  if (header.getFileClass() != llvm::ELF::ELFCLASS64 || header.getDataEncoding() != llvm::ELF::ELFDATA2LSB ||
      header.e_type != llvm::ELF::ET_DYN) {
    user_error("it is not a 64-bit shared library for this kind of machine");
  }
  // A segment is mapped even beyond the file's end, where the first access raises SIGBUS. So
  // all of it must be in the file.
  const auto segments = sound(file.program_headers());
  for (const File::Elf_Phdr& segment : segments) {
    if (segment.p_type == llvm::ELF::PT_LOAD) static_cast<void>(sound(file.getSegmentContents(segment)));
  }
  ElfFacts facts;
  const auto sections = sound(file.sections());
  for (const File::Elf_Shdr& section : sections) {
    if (section.sh_type != llvm::ELF::SHT_DYNSYM) continue;
    const llvm::StringRef names = sound(file.getStringTableForSymtab(section, sections));
    const auto symbols = sound(file.symbols(&section));
    for (const File::Elf_Sym& entry : symbols) note_symbol(facts, entry, sound(entry.getName(names)), symbol);
  }
  return facts;
}

}  // namespace rewire::runtime
