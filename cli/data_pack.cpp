// rewire data pack: packs a folder of images into shards, or a text into files of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/data_settings.h"
#include "cli/streams.h"
#include "ir/printable.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/text/token_pack.h"
#include "runtime/data/vision/pack.h"

namespace rewire::cli {
namespace {

struct PackRequest {
  std::string folder, output, format = "folder", tokens = "nanogpt";
  std::vector<std::string> settings;
  std::int64_t megabytes = 256, seed = 0;
};

void declare_pack(PackRequest& request, Options& options) {
  options
      .text("PATH", request.folder,
            "the images: PATH/train and PATH/val; or a text, as for data.path, which --format text has by "
            "default")
      .takes(Values::file);
  options.text("--output", request.output, "an empty or new folder for the files", Options::Need::required)
      .takes(Values::folder);
  options.choice("--format", request.format, {"folder", "tiny_imagenet", "text"},
                 "the layout of the images, as for data.format; or text");
  options.list("--set", request.settings, "data.key=value: another key of [data] for text; repeatable")
      .takes(Values::setting, {"data"});
  options.choice(
      "--tokens", request.tokens, {"nanogpt", "shards"},
      "form of a text's tokens; nanogpt: train.bin and val.bin; shards: with a header, as llm.c and "
      "modded-nanogpt read them");
  options.integer("--shard-size", request.megabytes, 1, "approximate size of a shard in MB");
  options.integer("--seed", request.seed, 0, "seed of the order of training images");
  options.example("rewire data pack photos --output shards",
                  "pack photos/train and photos/val into tar files that are read in order");
  options.example("rewire data pack book.txt --format text --output tokens --set data.tokenizer=gpt2:gpt2",
                  "write the tokens of a text to tokens/train.bin and tokens/val.bin");
}

constexpr std::int64_t kMegabyte = 1'000'000, kMostMegabytes = 1'000'000'000;

/// The split as windows of one token, which any text fills.
std::unique_ptr<runtime::Source> tokens_of_text(const ir::Selection& selection, runtime::Split split) {
  return runtime::make_source(
      selection,
      {split, {{std::string(runtime::kTokensField), ir::DType::i32, {1}, runtime::FieldKind::tokens}}});
}

void pack_text(const PackRequest& request) {
  runtime::Recipe recipe;
  recipe.source = {"text"};
  const ir::Selection selection = with_settings("data pack", "data", request.settings, std::move(recipe))
                                      .source.set("path", request.folder);
  const std::unique_ptr<runtime::Source> train = tokens_of_text(selection, runtime::Split::train);
  const auto* const fraction = selection.values.find("validation_fraction");
  const bool validates =
      fraction == nullptr || std::get<double>(*fraction) > 0 || selection.values.has("validation");
  std::unique_ptr<runtime::Source> validation;
  if (validates) validation = tokens_of_text(selection, runtime::Split::test);
  runtime::TokenPackOptions options;
  options.output = request.output;
  options.shards = request.tokens == "shards";
  options.shard_tokens = std::min(request.megabytes, kMostMegabytes) * kMegabyte / 2;
  const runtime::TokenSource& tokens = *runtime::tokens_of(*train);
  const std::int64_t ids = tokens.options().tokenizer->vocabulary();
  runtime::pack_tokens(tokens, validation ? runtime::tokens_of(*validation) : nullptr, options,
                       [](const runtime::PackedTokens& file) {
                         print("{}  {} tokens, {:.1f} MB\n", visible(file.path), file.tokens,
                               static_cast<double>(file.bytes) * 1e-6);
                       });
  const runtime::TokenType type = runtime::narrowest_type(ids);
  print("{} ids; train on them with data.format=tokens data.path={}{}\n", ids, visible(request.output),
        type == runtime::TokenType::u16 ? "" : fmt::format(" data.dtype={}", name_of(type)));
}

void run_pack(const PackRequest& request) {
  if (request.format == "text") {
    pack_text(request);
    return;
  }
  if (request.folder.empty()) user_error("data pack: give PATH, the folder of images");
  if (!request.settings.empty()) user_error("data pack: --set has no effect without --format text");
  runtime::PackOptions options;
  options.folder = request.folder;
  options.output = request.output;
  options.format = request.format;
  options.shard_bytes = static_cast<std::uint64_t>(std::min(request.megabytes, kMostMegabytes) * kMegabyte);
  options.seed = static_cast<std::uint64_t>(request.seed);
  std::int64_t images = 0;
  const auto tell = [&images](const runtime::PackedShard& shard) {
    images += shard.images;
    print("{}  {} images, {:.1f} MB\n", visible(shard.path), shard.images,
          static_cast<double>(shard.bytes) * 1e-6);
  };
  const auto shards = runtime::pack_images(options, tell);
  print("{} images in {} shards; train on them with data.format=shards data.path={}\n", images, shards.size(),
        visible(request.output));
}

}  // namespace

Command data_pack_command() {
  return make_command<PackRequest>("data pack", "pack images into shards (tar files), or text into tokens",
                                   declare_pack, run_pack);
}

}  // namespace rewire::cli
