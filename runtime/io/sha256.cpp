#include "runtime/io/sha256.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/SHA256.h>

#include <cstdint>

namespace rewire::runtime {

struct Sha256::Impl {
  llvm::SHA256 hasher;
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  impl_->hasher.update(
      llvm::ArrayRef<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

std::string Sha256::hex() const {
  llvm::SHA256 copy = impl_->hasher;
  return llvm::toHex(copy.final(), /*LowerCase=*/true);
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

}  // namespace rewire::runtime
