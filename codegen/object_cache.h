// Compiled kernels on disk. An entry is one file named by the hash of its key; it holds the key itself, so
// that a collision is a miss, and a checksum of all its bytes, so that a damaged file is one too. So is a
// file that others could have written: it is code. Beside it stands the text that the kernel was made from.
// Files are renamed when they are whole: readers of other processes see all of an entry or none. The folder
// may be deleted at any time.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"

namespace rewire::codegen {

/// 32 hexadecimal digits.
std::string hash_text(std::string_view text);

struct CachedObject {
  std::string object;
  std::int64_t scratch_bytes = 0;
};

class ObjectCache {
 public:
  /// Makes the folder, readable by the user alone, if there is none. UserError if it cannot be made, and if
  /// others may write to it, or exchange it (codegen/files/trusted.h).
  explicit ObjectCache(std::string directory);

  /// nullopt if there is no sound entry with this key; `why` then says what there is.
  std::optional<CachedObject> load(std::string_view key, std::string* why = nullptr) const;
  /// `source` is kept in a file that ends in `suffix`: "tile", "cu". False if the disk does not take it; the
  /// cache is then only less full.
  bool store(std::string_view key, const CachedObject& entry, std::string_view source,
             std::string_view suffix) const;

  /// Where the entry with this key stands.
  std::string path(std::string_view key) const;

 private:
  std::string directory_;
  Descriptor folder_;  // the one that was judged
  mutable std::once_flag swept_;
};

}  // namespace rewire::codegen
