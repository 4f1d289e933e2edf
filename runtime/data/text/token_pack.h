// Writes the tokens of a text into files: nanoGPT's train.bin and val.bin, or shards of modded-nanogpt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/text/token_source.h"

namespace rewire::runtime {

struct TokenPackOptions {
  std::string output;   // a new or empty folder
  bool shards = false;  // tokens_train_000000.bin, … with headers; else train.bin, val.bin
  std::int64_t shard_tokens = 100'000'000;  // most tokens of a shard
};

struct PackedTokens {
  std::string path;
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;  // of the file
};

/// Writes both splits; `validation` null: there is none. Elements are uint16, or uint32 if ids need them. `written`
/// is called after each file. All is written into a hidden folder beside the output, which is renamed last. Throws
/// UserError, and leaves nothing, if the output is not an empty folder, or if ids of shards need more than uint16.
std::vector<PackedTokens> pack_tokens(const TokenSource& train, const TokenSource* validation,
                                      const TokenPackOptions& options,
                                      const std::function<void(const PackedTokens&)>& written = nullptr);

}  // namespace rewire::runtime
