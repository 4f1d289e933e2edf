// clang-format off
// A sweep: one recipe, and every combination of plugins, settings and seeds to train it with. Read from
// TOML:
//
//   recipe = "../recipes/mine.toml"            # from the sweep's folder; or a name of the zoo
//   seeds = [0, 1, 2]
//   plugins = ["none", "gain", ["gain:factor=0.5,sites=attn", "other"]]
//   [settings]                                 # as --set; a list is one axis of the grid
//   train.epochs = 2
//   optimizer.lr = [1e-3, 3e-4]
//
// Without plugins or seeds, the recipe's own are used.
// clang-format on
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

/// A text of the file, and its place: "sweep.toml:3".
struct Placed {
  std::string text, place;
};

/// A strategy: the --plugin flags of a run. None: the recipe's own plugins.
struct SweepPlugins {
  std::vector<std::string> flags;
  std::string label;  // "gain:factor=0.5,sites=attn + other"; "" for the recipe's own
  std::string place;
};

/// "train.epochs=2", and its place. `former`: the spelling of an earlier Rewire that wrote every number with
/// 17 digits, "optimizer.lr=0.0030000000000000001".
struct SweepSetting {
  std::string text, former, place;
};

/// A key, and the settings that give it its values in turn.
struct SweepAxis {
  std::string key;
  std::vector<SweepSetting> settings;
};

struct Sweep {
  Placed recipe;
  std::vector<SweepPlugins> plugins;  // at least one
  std::vector<SweepAxis> axes;
  std::vector<std::int64_t> seeds;  // empty: the recipe's
};

/// Reads a sweep. Throws UserError with the line: an unknown key (and the nearest), a wrong type, a setting
/// that no recipe has, text that is no plugin spec, anything repeated.
Sweep parse_sweep(std::string_view text, std::string_view file_name);
Sweep read_sweep(const std::string& path);

/// One run. Runs of one row differ only in the seed.
struct SweepRun {
  std::string name;                   // name of its folder: "gain-factor=0.5-lr=0.001-s0", no two alike
  std::string former_name;            // the folder's name in sweeps before numbers were spelled shortest
  std::size_t row = 0;                // counted over plugins and settings
  const SweepPlugins* plugins;        // in the sweep, which must outlive it
  std::vector<std::string> settings;  // for --set, with the seed
  std::vector<std::string> varied;    // "optimizer.lr=0.001": those whose axis has several values
  std::optional<std::int64_t> seed;   // nothing: the recipe's
};

/// Returns the runs, seed by seed within a row, so that a row is complete early.
std::vector<SweepRun> sweep_runs(const Sweep& sweep);

}  // namespace rewire::runtime
