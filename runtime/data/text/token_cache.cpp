#include "runtime/data/text/token_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kTokensMagicBytes = sizeof(kTokensMagic) - 1, kTokensDigestBytes = 64;

struct TokensTail {
  std::uint64_t tokens = 0;
  char digest[kTokensDigestBytes] = {};
  char magic[kTokensMagicBytes] = {};
};
static_assert(sizeof(TokensTail) == 8 + kTokensDigestBytes + kTokensMagicBytes);

/// Returns null if the file is not whole.
std::shared_ptr<const TokenFile> open_whole(const std::string& path, const TokenCacheOptions& options) {
  auto file = std::make_unique<const MappedFile>(path);
  if (file->status().st_uid != ::geteuid() && file->status().st_uid != 0) {
    user_error("{}: it belongs to user {}, so its tokens may differ: set another data.cache", visible(path),
               file->status().st_uid);
  }
  const std::span<const std::byte> bytes = file->bytes();
  const TokenType type = narrowest_type(options.vocabulary);
  TokensTail tail;
  if (bytes.size() < sizeof tail) return nullptr;
  std::memcpy(&tail, bytes.data() + bytes.size() - sizeof tail, sizeof tail);
  if (std::string_view(tail.magic, kTokensMagicBytes) != kTokensMagic ||
      tail.tokens != (bytes.size() - sizeof tail) / bytes_of(type) ||
      codegen::digest_hex(bytes.first(bytes.size() - kTokensDigestBytes - kTokensMagicBytes)) !=
          std::string_view(tail.digest, kTokensDigestBytes))
    return nullptr;
  return std::make_shared<const TokenFile>(std::move(file), options.name, type, 0,
                                           static_cast<std::int64_t>(tail.tokens));
}

void write_tokens(const std::string& path, const TokenCacheOptions& options,
                  const std::function<void(const TakeTokens&)>& make) {
  AtomicFile file(path);
  TokensTail tail;
  std::vector<std::uint16_t> narrow;
  make([&](std::span<const std::int32_t> ids) {
    tail.tokens += ids.size();
    if (narrowest_type(options.vocabulary) == TokenType::u32) {
      file.write(std::as_bytes(ids));
    } else {
      narrow.assign(ids.begin(), ids.end());
      file.write(std::as_bytes(std::span(narrow)));
    }
  });
  file.write(std::as_bytes(std::span(&tail.tokens, 1)));
  file.digest().copy(tail.digest, kTokensDigestBytes);
  std::memcpy(tail.magic, kTokensMagic, kTokensMagicBytes);
  file.write(std::as_bytes(std::span(&tail, 1)).subspan(sizeof tail.tokens));
  file.commit();
}

/// Returns the folder if a file can be written there, else "" after a warning.
std::string usable_folder(const TokenCacheOptions& options, const std::string& path) {
  if (options.folder.empty()) return "";
  try {
    make_folder(options.folder);
    require_writable(path);
    return options.folder;
  } catch (const UserError& refusal) {
    if (options.is_asked) throw;
    write_log_once(LogLevel::warning, "tokens " + options.folder,
                   fmt::format("{}; without a cache the text is tokenised at each start: set data.cache",
                               refusal.what()));
    return "";
  }
}

}  // namespace

std::shared_ptr<const TokenFile> cached_tokens(const TokenCacheOptions& options,
                                               const std::function<void(const TakeTokens&)>& make) {
  const std::string path = (std::filesystem::path(options.folder) / (options.key + ".tokens")).string();
  std::error_code error;
  for (const bool is_first : {true, false}) {
    const bool was_there = !options.folder.empty() && std::filesystem::exists(path, error);
    if (was_there) {
      if (auto whole = open_whole(path, options)) return whole;
    }
    if (!is_first) break;
    if (usable_folder(options, path).empty()) {
      std::vector<std::int32_t> tokens;
      make([&](std::span<const std::int32_t> ids) { tokens.insert(tokens.end(), ids.begin(), ids.end()); });
      return std::make_shared<const TokenFile>(options.name, std::move(tokens));
    }
    write_log(was_there ? LogLevel::warning : LogLevel::info,
              fmt::format("{}tokenising {} into {}", was_there ? "replacing a damaged cache: " : "",
                          options.name, visible(path)));
    write_tokens(path, options, make);
  }
  user_error("{}: its content differs from what was written: check the disk", visible(path));
}

}  // namespace rewire::runtime
