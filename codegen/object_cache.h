// Caches compiled kernels on disk. An entry is one file, named by the hash of its key. It holds the key, so
// that a collision is a miss, and a checksum of all its bytes, so that a damaged file is a miss. A file that
// others could have written is a miss too, since it is code. The kernel's source text is in a file beside
// it. Files are renamed when complete, so other processes see all of an entry or none. The folder may be
// deleted at any time.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"

namespace rewire::codegen {

/// Returns a hash of 32 hexadecimal digits.
std::string hash_text(std::string_view text);

struct CachedObject {
  std::string object;
  std::int64_t scratch_bytes = 0;
};

class ObjectCache {
 public:
  /// Makes the folder, readable by the user alone, if it is missing. Throws UserError if it cannot be made,
  /// or if others may write to it or replace it (codegen/files/trusted.h).
  explicit ObjectCache(std::string directory);

  /// Returns nullopt if there is no valid entry with this key; `why` then gets the reason.
  std::optional<CachedObject> load(std::string_view key, std::string* why = nullptr) const;
  /// Stores an entry, and `source` in a file that ends in `suffix`: "tile", "cu". Returns false if the disk
  /// refuses it; the cache then lacks the entry.
  bool store(std::string_view key, const CachedObject& entry, std::string_view source,
             std::string_view suffix) const;

  /// Returns the path of the entry with this key.
  std::string path(std::string_view key) const;

 private:
  std::string directory_;
  Descriptor folder_;  // the one that was checked
  mutable std::once_flag swept_;
};

}  // namespace rewire::codegen
