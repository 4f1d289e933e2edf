// The index of a shard, of any bytes: samples that lie in the file and have a label, the same each time, or one line.
#include "runtime/data/vision/tar_index.h"
#include "tests/fuzz/fuzz_folder.h"
#include "tests/fuzz/fuzz_support.h"

namespace {

using namespace rewire;

bool read(const std::string& path, runtime::ShardIndex& index) {
  return test::accepted([&] { index = runtime::index_shard(path); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const test::FuzzFolder& folder = test::fuzz_folder();
  folder.write("shard.tar", std::string_view(reinterpret_cast<const char*>(data), size));
  const std::string path = folder.file("shard.tar");
  runtime::ShardIndex index, again;
  const bool good = read(path, index);
  test::require(read(path, again) == good);
  if (!good) return 0;
  test::require(index.file_size == size && !index.images.empty() &&
                again.images.size() == index.images.size());
  for (std::size_t i = 0; i < index.images.size(); ++i) {
    const runtime::ShardImage& image = index.images[i];
    test::require(image.size > 0 && image.label >= 0 && image.offset >= 512 &&
                  image.offset + image.size <= size);
    test::require(!index.name(i).empty() && index.name(i) == again.name(i));
    test::require(again.images[i].offset == image.offset && again.images[i].label == image.label);
  }
  return 0;
}
