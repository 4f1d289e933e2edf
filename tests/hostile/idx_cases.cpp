// IDX files in the place of a run's images and labels.
#include <zlib.h>

#include <stdexcept>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

const std::string kImages = "data/train-images-idx3-ubyte", kLabels = "data/train-labels-idx1-ubyte";

std::string header(std::uint64_t magic, const std::vector<std::uint64_t>& extents) {
  std::string bytes = big_endian(magic, 4);
  for (const std::uint64_t extent : extents) bytes += big_endian(extent, 4);
  return bytes;
}

std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  if (::deflateInit2(&stream, 9, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string packed(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

}  // namespace

void add_idx_cases(std::vector<Case>& cases) {
  Words training = {"--set", "data.path=@/data", "--set", "data.format=idx", "--set",  "train.batch=8",
                    "--set", "train.epochs=1",   "--set", "eval.batch=8",    "--quiet"};
  Table table(cases, "idx", Words{"train"} + kModel + training + Words{"--out", "@/run"},
              {copy(good().file("data"), "data")});
  table.row("sound", {}, fine());
  for (const std::string& file : {kImages, kLabels}) {
    const std::string sound = good().bytes(file);
    const Expectation no = refused("@/" + file);
    add_odd_files(table, file, Origin::command_line, no);
    add_lost_links(table, file, no);
    add_cuts(table, file, sound.size(), 7, no);
    add_flips(table, file, 0, file == kImages ? 16 : 8, 8, refused("@/" + file));
    table.row(file + " has a byte more", {extend(file, "x")}, no);
    const std::string packed = gzipped(sound), zipped = file + ".gz";
    table.row(file + " packed, sound", {remove(file), put(zipped, packed)}, fine());
    const Expectation no_zip = refused("@/" + zipped);
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{10}, packed.size() / 2,
          packed.size() - 8, packed.size() - 4, packed.size() - 1})
      table.row(file + " packed, cut to " + std::to_string(length),
                {remove(file), put(zipped, packed.substr(0, length))}, no_zip);
    for (const std::size_t byte :
         {std::size_t{0}, std::size_t{1}, std::size_t{2}, packed.size() / 2, packed.size() - 8,
          packed.size() - 5, packed.size() - 4, packed.size() - 1})
      table.row(file + " packed, byte " + std::to_string(byte) + " flipped",
                {remove(file), put(zipped, packed), flip(zipped, byte, 2)}, no_zip);
    table.row(file + " packed, text behind it", {remove(file), put(zipped, packed + "more")}, no_zip);
    table.row(file + " packed, zeros of another", {remove(file), put(zipped, packed + gzipped("x"))}, no_zip);
    table.row(file + " packed, a bomb",
              {remove(file), put(zipped, gzipped(sound + std::string(std::size_t{64} << 20, '\0')))}, no_zip);
    table.row(file + " is gone", {remove(file)}, refused("@/" + file));
  }
  const auto images = [&](const std::string& what, std::string bytes) {
    table.row("images " + what, {put(kImages, std::move(bytes))}, refused("@/" + kImages));
  };
  const std::string data(std::size_t{16} * 28 * 28, '\0');
  for (const std::uint64_t magic :
       {0x803ULL << 8, 0x903ULL, 0xb03ULL, 0xd03ULL, 0xe03ULL, 0x801ULL, 0x804ULL, 0x8ffULL, 0x800ULL, ~0ULL})
    images("of the magic number " + std::to_string(magic & 0xffffffff), header(magic, {16, 28, 28}) + data);
  const std::uint64_t most = 0xffffffff;
  for (const auto& extents : std::vector<std::vector<std::uint64_t>>{{0, 28, 28},
                                                                     {16, 0, 28},
                                                                     {16, 28, 0},
                                                                     {most, 28, 28},
                                                                     {most, most, most},
                                                                     {17, 28, 28},
                                                                     {16, 29, 28},
                                                                     {15, 28, 28},
                                                                     {65536, 65536, 65536},
                                                                     {1U << 31, 1, 1}})
    images("of " + std::to_string(extents[0]) + " x " + std::to_string(extents[1]) + " x " +
               std::to_string(extents[2]),
           header(0x803, extents) + data);
  table.row("images of another size",
            {put(kImages, header(0x803, {16, 14, 14}) + std::string(std::size_t{16} * 14 * 14, '\0'))},
            refused("14"));
  table.row("fewer labels than images", {put(kLabels, header(0x801, {15}) + std::string(15, '\0'))},
            refused("@/data", "15"));
  table.row("a label beyond the classes", {put(kLabels, header(0x801, {16}) + std::string(16, '\x0a'))},
            refused("@/data", "10"));
  table.row("a label of 255", {put(kLabels, header(0x801, {16}) + std::string(16, '\xff'))},
            refused("@/data", "255"));
  table.row("labels in place of images", {copy(good().file(kLabels), kImages)}, refused("@/" + kImages));
  table.row("images in place of labels", {copy(good().file(kImages), kLabels)}, refused("@/" + kLabels));
  table.row("no folder", {remove("data")}, refused("@/data"));
  table.row("a file in place of the folder", {put("data", "x")}, refused("@/data"));
  table.row("a link to itself in place of the folder", {become_link("data", "./data")}, refused("@/data"));
}

}  // namespace rewire::test
