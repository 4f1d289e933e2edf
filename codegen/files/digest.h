// Computes BLAKE3 of data that is written piece by piece, to detect damaged files. It is LLVM's, whose
// header this one hides.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace rewire::codegen {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Returns the digest of all bytes so far: 64 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string digest_hex(std::span<const std::byte> bytes);

}  // namespace rewire::codegen
