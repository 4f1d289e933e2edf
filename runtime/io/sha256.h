// SHA-256 (FIPS 180-4), by LLVM, to identify what a run was made with: a library, a text.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace rewire::runtime {

/// Computes the digest of data that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Returns the digest of all bytes so far: 64 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace rewire::runtime
