#include "runtime/plugin/sha256.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/SHA256.h>

namespace rewire::runtime {

std::string sha256_hex(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return llvm::toHex(llvm::SHA256::hash({data, bytes.size()}), /*LowerCase=*/true);
}

}  // namespace rewire::runtime
