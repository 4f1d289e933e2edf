// rewire data pack: packs a folder of images into shards.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "cli/commands.h"
#include "cli/streams.h"
#include "ir/printable.h"
#include "runtime/data/vision/pack.h"

namespace rewire::cli {
namespace {

struct PackRequest {
  std::string folder, output, format = "folder";
  std::int64_t megabytes = 256, seed = 0;
};

void declare_pack(PackRequest& request, Options& options) {
  options.text("FOLDER", request.folder, "the images: FOLDER/train and FOLDER/val", Options::Need::required)
      .takes(Values::folder);
  options.text("--output", request.output, "an empty or new folder for the shards", Options::Need::required)
      .takes(Values::folder);
  options.choice("--format", request.format, {"folder", "tiny_imagenet"},
                 "the layout of the images, as for data.format");
  options.integer("--shard-size", request.megabytes, 1, "approximate size of a shard in MB");
  options.integer("--seed", request.seed, 0, "seed of the order of training images");
  options.example("rewire data pack photos --output shards",
                  "pack photos/train and photos/val into tar files that are read in order");
}

void run_pack(const PackRequest& request) {
  constexpr std::uint64_t kMegabyte = 1'000'000, kMost = 1'000'000'000;
  runtime::PackOptions options;
  options.folder = request.folder;
  options.output = request.output;
  options.format = request.format;
  options.shard_bytes = std::min(static_cast<std::uint64_t>(request.megabytes), kMost) * kMegabyte;
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
  return make_command<PackRequest>("data pack", "pack a folder of images into shards (tar files)",
                                   declare_pack, run_pack);
}

}  // namespace rewire::cli
