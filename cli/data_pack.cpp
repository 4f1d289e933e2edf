// rewire data pack: a folder of images as shards.
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
  options.text("--output", request.output, "an empty folder, or one to be made", Options::Need::required)
      .takes(Values::folder);
  options.choice("--format", request.format, {"folder", "tiny_imagenet"}, "as data.format names the layout");
  options.integer("--shard-size", request.megabytes, 1, "MB of a shard, about");
  options.integer("--seed", request.seed, 0, "of the order of training images");
  options.example("rewire data pack photos --output shards",
                  "photos/train and photos/val as tar files that read in order");
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
  return make_command<PackRequest>("data pack", "a folder of images as shards (tar files)", declare_pack,
                                   run_pack);
}

}  // namespace rewire::cli
