// A folder with a small model's weights, inputs and labels, and the commands on it.
#pragma once

#include <string>
#include <vector>

#include "runtime/host_tensor.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {

using Words = std::vector<std::string>;

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// vit_tiny_28 cut down: patch 14, width 8, one block, two heads.
inline const Words kModel = {"vit_tiny_28", "--set",         "model.dim=8", "--set",         "model.depth=1",
                             "--set",       "model.heads=2", "--set",       "model.patch=14"};
inline constexpr std::int64_t kBatch = 3;
inline constexpr std::int64_t kSteps = 2;

inline std::string plugin_file(const std::string& name) {
  return std::string(REWIRE_FIXTURES) + "/" + name + ".so";
}

/// Holds x.npy f32[3,1,28,28], y.npy i64[3], xs.npy and ys.npy (2 batches each), and w.safetensors by `rewire
/// init`.
class Workplace {
 public:
  Workplace();
  std::string file(const std::string& name) const { return folder_.file(name); }
  std::size_t entries() const { return folder_.entries(); }

  Outcome init(const Words& model, const std::string& output = "w.safetensors") const;
  Outcome run(const Words& model, const std::string& input = "x.npy", const std::string& output = "out.npy",
              const std::string& weights = "w.safetensors") const;
  Outcome grad(const Words& model, const Words& more = {}) const;
  Outcome step(const Words& model, const Words& more = {}) const;

 private:
  TemporaryFolder folder_;
};

/// What a command wrote on stderr, but for the lines in which a slow machine says how far compiling has come.
std::string without_progress(const std::string& err);

/// Values without pattern in [-1, 1].
runtime::HostTensor floats(const ir::Shape& shape);

}  // namespace rewire::test
