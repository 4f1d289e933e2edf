#include "codegen/files/digest.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>

#include <cstdint>

namespace rewire::codegen {

struct Digest::Impl {
  llvm::BLAKE3 hasher;
};

Digest::Digest() : impl_(std::make_unique<Impl>()) {}
Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  impl_->hasher.update(
      llvm::ArrayRef<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

std::string Digest::hex() const {
  llvm::BLAKE3 copy = impl_->hasher;
  const auto digest = copy.final<32>();
  return llvm::toHex(llvm::ArrayRef<std::uint8_t>(digest.data(), digest.size()), /*LowerCase=*/true);
}

std::string digest_hex(std::span<const std::byte> bytes) {
  Digest digest;
  digest.update(bytes);
  return digest.hex();
}

}  // namespace rewire::codegen
