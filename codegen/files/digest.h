// BLAKE3 of what is written piece by piece, to tell a damaged file from a sound one. LLVM's, whose header
// stays behind this one.
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
  /// 64 lower-case hexadecimal digits, of all so far.
  std::string hex() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string digest_hex(std::span<const std::byte> bytes);

}  // namespace rewire::codegen
