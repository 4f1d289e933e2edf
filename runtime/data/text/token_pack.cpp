#include "runtime/data/text/token_pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/new_folder.h"

namespace rewire::runtime {
namespace {

/// Writes ids into one file after another.
class TokenPacker {
 public:
  TokenPacker(const NewFolder& folder, const TokenPackOptions& options, TokenType type,
              const std::function<void(const PackedTokens&)>& written)
      : folder_(folder), options_(options), type_(type), written_(written) {}

  void pack(const TokenSource& source, std::string_view split) {
    const TokenStream& stream = source.stream();
    const std::int64_t most = options_.shards ? options_.shard_tokens : stream.count();
    std::int64_t number = 0;
    for (std::int64_t first = 0; first < stream.count(); first += most) {
      const std::string name = options_.shards ? fmt::format("tokens_{}_{:06}.bin", split, number++)
                                               : fmt::format("{}.bin", split);
      write(stream.part(first, std::min(first + most, stream.count())), name);
    }
  }
  std::vector<PackedTokens> take() { return std::move(packed_); }

 private:
  void write(const TokenStream& stream, const std::string& name) {
    AtomicFile file(folder_.partial(name));
    std::int64_t bytes = stream.count() * static_cast<std::int64_t>(bytes_of(type_));
    if (options_.shards) {
      std::array<std::int32_t, kShardHeaderWords> header{kShardMagic, kShardVersion,
                                                         static_cast<std::int32_t>(stream.count())};
      file.write(std::as_bytes(std::span(header)));
      bytes += static_cast<std::int64_t>(sizeof header);
    }
    std::vector<std::uint16_t> narrow;
    stream.for_each([&](std::span<const std::int32_t> ids) {
      if (type_ == TokenType::u32) {
        file.write(std::as_bytes(ids));
      } else {
        narrow.assign(ids.begin(), ids.end());
        file.write(std::as_bytes(std::span(narrow)));
      }
    });
    file.commit();
    packed_.push_back({folder_.output(name), stream.count(), bytes});
    if (written_) written_(packed_.back());
  }

  const NewFolder& folder_;
  const TokenPackOptions& options_;
  TokenType type_;
  const std::function<void(const PackedTokens&)>& written_;
  std::vector<PackedTokens> packed_;
};

}  // namespace

std::vector<PackedTokens> pack_tokens(const TokenSource& train, const TokenSource* validation,
                                      const TokenPackOptions& options,
                                      const std::function<void(const PackedTokens&)>& written) {
  if (!train.options().tokenizer) internal_error("tokens without a tokenizer are packed already");
  if (options.output.empty()) user_error("no folder for the tokens is given: set --output");
  const TokenType type = narrowest_type(train.options().tokenizer->vocabulary());
  if (options.shards && type != TokenType::u16)
    user_error("{}: its tokenizer has {} ids, but shards hold uint16: leave --tokens at nanogpt",
               train.name(), train.options().tokenizer->vocabulary());
  NewFolder folder(options.output);
  TokenPacker packer(folder, options, type, written);
  packer.pack(train, "train");
  if (validation != nullptr) packer.pack(*validation, "val");
  folder.commit();
  return packer.take();
}

}  // namespace rewire::runtime
