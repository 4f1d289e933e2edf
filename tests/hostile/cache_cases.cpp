// Entries of the caches: a damaged one is a miss and is written anew, and the answer is that of a sound one.
#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

/// The entry of the good cache that is the smallest of its kind, by name.
std::string entry(const std::string& ending) {
  std::vector<std::pair<std::uintmax_t, std::string>> found;
  for (const fs::directory_entry& file : fs::directory_iterator(good().file("cache/rewire"))) {
    if (file.path().extension() == ending)
      found.emplace_back(file.file_size(), file.path().filename().string());
  }
  if (found.empty()) throw std::logic_error("the cache has no entry " + ending);
  return std::ranges::min(found).second;
}

/// The program gave the numbers that it gives with a sound cache.
Expectation same_numbers() {
  return fine([](const Ended&, const std::string& folder) {
    return read_bytes(folder + "/out.npy") == good().bytes("out.npy") ? "" : "its numbers are others";
  });
}

void add_kernels(std::vector<Case>& cases) {
  // A cache of the network's own kernels, so that each entry is one that the command takes.
  const Step cold = [](const std::string& folder) {
    fs::create_directories(folder + "/cache");
    fs::copy(good().file("run_cache/rewire"), folder + "/cache/rewire");
  };
  Table table(cases, "kernel",
              Words{"run"} + kModel +
                  Words{"--weights", good().file("w.safetensors"), "--input", good().file("x.npy"),
                        "--output", "@/out.npy", "--quiet"},
              {cold}, {"XDG_CACHE_HOME=@/cache"});
  table.row("sound", {}, same_numbers());
  const std::string name = [] {
    for (const fs::directory_entry& file : fs::directory_iterator(good().file("run_cache/rewire")))
      if (file.path().extension() == ".kernel") return file.path().filename().string();
    throw std::logic_error("there is no kernel");
  }();
  const std::string file = "cache/rewire/" + name;
  const std::size_t size = good().bytes("run_cache/rewire/" + name).size();
  constexpr std::size_t kHeader = 16 + 24 + 32;  // magic, the checksum, three sizes
  add_odd_files(table, file, Origin::folder, same_numbers());
  add_lost_links(table, file, same_numbers());
  add_flips(table, file, 0, kHeader, kHeader, same_numbers());
  add_flips(table, file, kHeader, size, 24, same_numbers());
  add_cuts(table, file, size, 16, same_numbers());
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0},
                                    std::uint64_t{1} << 63, std::uint64_t{1} << 40}) {
    for (const std::size_t at : {48, 56, 64}) {
      table.row("the number at byte " + std::to_string(at) + " is " + std::to_string(value),
                {[=](const std::string& folder) {
                  std::string bytes = read_bytes(folder + "/" + file);
                  bytes.replace(at, 8, little_endian(value, 8));
                  write_bytes(folder + "/" + file, bytes);
                }},
                same_numbers());
    }
  }
  table.row("with a byte behind it", {extend(file, "x")}, same_numbers());
  table.row("is another's", {copy(good().file("cache/rewire/" + entry(".kernel")), file)}, same_numbers());
  // Without a cache it computes the same; a warning says why, which --quiet leaves out.
  const Expectation no = same_numbers();
  table.row("the cache is a file", {remove("cache/rewire"), put("cache/rewire", "x")}, no);
  table.row("the cache is a link to itself", {become_link("cache/rewire", "./rewire")}, no);
  table.row("the cache is a pipe", {become_fifo("cache/rewire")}, no);
  table.row("the cache is below a file", {remove("cache"), put("cache", "x")}, no);
  table.row("anybody may write to the cache", {forbid("cache/rewire", 0777)}, no);
  table.row("the group may write to the cache", {forbid("cache/rewire", 0770)}, no);
  table.row("the cache may not be written", {remove(file), forbid("cache/rewire", 0500)}, same_numbers());
}

void add_choices(std::vector<Case>& cases) {
  const std::string name = entry(".choice"), file = "cache/rewire/" + name;
  const std::string text = good().bytes("cache/rewire/" + name);
  Table table(cases, "kept choice",
              {"train", good().file("mixer.rir"), "--set", "data.format=synthetic", "--set", "data.count=48",
               "--set", "train.epochs=1", "--quiet", "--out", "@/run"},
              {copy(good().file("cache"), "cache")}, {"XDG_CACHE_HOME=@/cache"});
  table.row("sound", {}, fine());
  add_odd_files(table, file, Origin::folder, fine());
  add_lost_links(table, file, fine());
  add_no_json(table, file, text, fine());
  add_cuts(table, file, text.size(), 8, fine());
  add_flips(table, file, 0, text.size(), 24, fine());
  table.row("the lock is a folder", {become_folder("cache/rewire/choices.lock")}, fine());
  table.row("the lock is a pipe", {become_fifo("cache/rewire/choices.lock")}, fine());
  table.row("the lock is a link to nothing", {become_link("cache/rewire/choices.lock", "/nowhere/lock")},
            fine());
}

}  // namespace

void add_cache_cases(std::vector<Case>& cases) {
  add_kernels(cases);
  add_choices(cases);
}

}  // namespace rewire::test
