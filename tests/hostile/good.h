// What hostile inputs are made from: sound files, and the small network they are of. Made once a test program
// by the binary itself, with a cache of its own.
#pragma once

#include <string>

#include "tests/hostile/process.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {

/// vit_tiny_28 cut down: patch 14, width 8, one block, two heads.
inline const Words kModel = {"vit_tiny_28", "--set",         "model.dim=8", "--set",         "model.depth=1",
                             "--set",       "model.heads=2", "--set",       "model.patch=14"};
/// Two epochs of three steps; a checkpoint each two steps, the last three kept.
inline const Words kTraining = {
    "--set", "data.format=synthetic", "--set", "data.count=24",     "--set",  "train.batch=8",
    "--set", "train.epochs=2",        "--set", "train.log_every=1", "--set",  "train.checkpoint_every=0.67",
    "--set", "train.keep=3",          "--set", "eval.batch=12",     "--quiet"};
/// A module of one block-circulant layer: how it is computed is chosen by timing.
extern const std::string kMixer;

std::string plugin_file(const std::string& name);

/// The bytes of a .npy file: version 1.0, `header` is the dictionary's text.
std::string npy_bytes(const std::string& header, std::size_t data_bytes);

class Good {
 public:
  Good();
  /// x.npy f32[3,1,28,28], y.npy i64[3], w.safetensors, m.rir, mixer.rir, run/, data/ (IDX, 16 and 8 images),
  /// mixed/ (a run of mixer.rir), sweep.toml, swept/ (its runs), cache/ (what all of these compiled and
  /// chose); case/ (a kernel that repro cut out); out.npy, of `rewire run` on the first three, and run_cache/ with the kernels of that alone.
  std::string file(const std::string& name) const { return folder_.file(name); }
  std::string bytes(const std::string& name) const;

 private:
  TemporaryFolder folder_;
};

/// Made at the first call.
const Good& good();

}  // namespace rewire::test
