// A folder with a small model's weights, inputs and labels, and the commands on it; what the tests of commands share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/io/host_tensor.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {

using Words = std::vector<std::string>;
using Json = nlohmann::json;

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

/// Exit code 2, one line of this message, and nothing on stdout.
void check_refusal(const Outcome& outcome, const std::string& message);

/// On the libraries of tests/fake_cuda; `more`: NAME=value.
Outcome on_fake(const Words& arguments, Words more = {});

/// Whether a strategy, NAME or NAME:key=value, is built here.
bool is_built(const std::string& plugin);

/// The lines of a run's metrics.jsonl, and how many checkpoints its folder has: without the files that name some of them.
std::vector<Json> metrics(const std::string& run);
std::size_t checkpoints(const std::string& run);

/// The text with the first `from`, which it must have, as `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to);

/// Values without pattern in [-1, 1].
runtime::HostTensor floats(const ir::Shape& shape);
std::vector<float> floats_of(const std::string& npy_path);
double norm(const std::vector<double>& values);
double norm(const runtime::HostTensor& tensor);

}  // namespace rewire::test
