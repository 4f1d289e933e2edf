#include "tests/hostile/good.h"

#include <filesystem>
#include <stdexcept>

#include "tests/hostile/steps.h"

namespace rewire::test {

const std::string kMixer = R"rir(module @mixer {
  param @c : f32[1,28,28] {init = "trunc_normal(0.02, 2.0)"}
  func @forward(%image: f32[16,1,28,28]) -> (logits: f32[16,10]) {
    %0 = reshape %image : f32[16,784]
    %1 = param {name = "c"} : f32[1,28,28]
    %2 = circulant_matmul %0, %1 : f32[16,28]
    %3 = slice %2 {limits = [16, 10], starts = [0, 0]} : f32[16,10]
    return logits = %3
  }
}
)rir";

namespace {

const std::string kSweep = R"toml(recipe = "vit_tiny_28"
seeds = [0, 1]
plugins = ["none"]

[settings]
model.dim = 8
model.depth = 1
model.heads = 2
model.patch = 14
data.format = "synthetic"
data.count = 24
train.batch = 8
train.epochs = 2
train.log_every = 1
eval.batch = 12
)toml";

std::string idx_images(std::uint32_t count) {
  return big_endian(0x803, 4) + big_endian(count, 4) + big_endian(28, 4) + big_endian(28, 4) +
         std::string(std::size_t{count} * 28 * 28, '\x40');
}

std::string idx_labels(std::uint32_t count) {
  return big_endian(0x801, 4) + big_endian(count, 4) + std::string(count, '\x03');
}

/// Of a program's text: "  kernel NAME …".
std::string first_kernel(const std::string& fused) {
  const std::string before = "kernel ";
  const std::size_t at = fused.find(before) + before.size();
  return fused.substr(at, fused.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at) - at);
}

}  // namespace

std::string plugin_file(const std::string& name) {
  return std::string(REWIRE_FIXTURES) + "/" + name + ".so";
}

std::string npy_bytes(const std::string& header, std::size_t data_bytes) {
  return "\x93NUMPY\x01" + std::string(1, '\0') + little_endian(header.size(), 2) + header +
         std::string(data_bytes, '\0');
}

Good::Good() {
  std::string cache = "cache";
  const auto run = [&](const Words& words) {
    const Ended ended = run_process(Words{REWIRE_BINARY} + words,
                                    {"XDG_CACHE_HOME=" + file(cache), "XDG_DATA_HOME=" + file("home")},
                                    folder_.path().string(), {.seconds = 120});
    if (ended.code != 0) throw std::runtime_error("rewire " + words.front() + ": " + ended.err);
    return ended.out;
  };
  write_bytes(file("x.npy"),
              npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1, 28, 28), }\n",
                        std::size_t{3} * 28 * 28 * 4));
  write_bytes(file("y.npy"), npy_bytes("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n", 3 * 8));
  std::filesystem::create_directory(file("data"));
  write_bytes(file("data/train-images-idx3-ubyte"), idx_images(16));
  write_bytes(file("data/train-labels-idx1-ubyte"), idx_labels(16));
  write_bytes(file("data/t10k-images-idx3-ubyte"), idx_images(8));
  write_bytes(file("data/t10k-labels-idx1-ubyte"), idx_labels(8));
  write_bytes(file("mixer.rir"), kMixer);
  write_bytes(file("sweep.toml"), kSweep);
  run(Words{"init"} + kModel + Words{"--output", file("w.safetensors"), "--quiet"});
  write_bytes(file("m.rir"), run(Words{"dump"} + kModel + Words{"--stage", "ir", "--quiet"}));
  run(Words{"train"} + kModel + kTraining + Words{"--out", file("run")});
  run({"train", file("mixer.rir"), "--set", "data.format=synthetic", "--set", "data.count=48", "--set",
       "train.epochs=1", "--quiet", "--out", file("mixed")});
  run({"sweep", file("sweep.toml"), "--out", file("swept"), "--quiet"});
  run(Words{"repro"} + kModel +
      Words{"--kernel", first_kernel(run(Words{"dump"} + kModel + Words{"--stage", "fused", "--quiet"})),
            "--output", file("case")});
  cache = "run_cache";
  run(Words{"run"} + kModel +
      Words{"--weights", file("w.safetensors"), "--input", file("x.npy"), "--output", file("out.npy"),
            "--quiet"});
}

std::string Good::bytes(const std::string& name) const {
  return read_bytes(file(name));
}

const Good& good() {
  static const Good instance;
  return instance;
}

}  // namespace rewire::test
