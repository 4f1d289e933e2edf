// The folder that holds all that reproduces and explains a run:
//
//   recipe.toml            the resolved recipe: every key, every plugin value
//   plugins.json           the plugins' libraries: version, path, SHA-256 (runtime/plugin/kept_plugins.h)
//   plugins/NAME-….so      a copy of each, readable by the user alone
//   choices.json           what else decides the bits: engine, target, libraries, choices made by timing
//   kernels/NAME.cu        of each kernel that was given in place of the emitted one
//   metrics.jsonl          one line each log_every steps, one an evaluation
//   events.out.tfevents.00000000.rewire   the same for TensorBoard, and more (run_events.h); one a time that it is resumed
//   metrics.prom           the last lines' figures for Prometheus (run_prometheus.h)
//   log.txt                what the run said (run_log.h)
//   report.html            the run as a page (run_report.h)
//   pictures/epoch-0005.png   what the evaluation behind the fifth epoch drew, where the objective draws anything
//   checkpoints/0002-00001874/   two epochs, 1874 steps done: weights.safetensors, state.safetensors,
//                          checkpoint.json
//   checkpoints/last, best the name of the newest, and of the one that was evaluated best
//   weights.safetensors    at the end: the weights, under timm's names
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/kernel_override.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

/// Weights that a complete run has in its folder.
constexpr const char* kFinalWeights = "weights.safetensors";
constexpr const char* kFinalAverages = "weights_ema.safetensors";  // where averages of them are kept

class RunFolder {
 public:
  /// For a new run. UserError if something other than an empty folder stands there, or nothing can be
  /// written.
  static RunFolder create(const std::string& path);
  /// The same in `wanted`, or if that is taken in the first of wanted-2, wanted-3, … that is not.
  static RunFolder create_numbered(const std::string& wanted);
  /// To read from. UserError if it is no run folder.
  static RunFolder open(const std::string& path);
  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  RunFolder(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  /// The last part of the path, whether or not a slash ends it.
  static std::string name_of(const std::string& path);
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// The same to be opened: whoever made the folder may have put links into it, and none is followed.
  FilePlace place(const std::string& name) const { return FilePlace::below(path_, name); }

  /// The same of RUN/checkpoints/NAME, and of a file in it.
  static FilePlace place_in(const std::string& checkpoint, std::string_view file = "");

  /// For training in it: takes the lock that ends with the process, checks that it can be written, removes
  /// what a killed process left half-written. UserError naming the cause, also if another process trains
  /// here.
  void claim();

  /// UserError where the folder that was locked has been removed since, or another stands in its place.
  void require_held() const;

  /// "0002-00001874": two epochs, 1874 steps.
  static std::string checkpoint_name(std::int64_t epoch, std::int64_t step);
  static bool is_checkpoint_name(const std::string& name);
  /// "events.out.tfevents.00000056.rewire": of what follows step 56; and the step of such a name, -1 of another.
  static std::string event_file_name(std::int64_t step);
  static std::int64_t event_file_step(const std::string& name);
  /// For a new run in it that failed: where no line of metrics and no checkpoint was written, what was made
  /// here for it is removed, the folder itself if it was not there before. Anything else stays.
  void discard_unused() noexcept;

  /// The checkpoints, oldest first; paths that can be opened. Whatever else stands beside them is left alone.
  /// UserError where they cannot be read.
  std::vector<std::string> checkpoints() const;
  /// Removes all but the last `keep`, and but the one named `spared`.
  void prune_checkpoints(std::int64_t keep, std::string_view spared = "") const;
  /// The checkpoint that checkpoints/NAME names; "" where there is no such file, or it names none that is there.
  std::string named_checkpoint(const std::string& name) const;
  /// Writes that file, at once; `checkpoint` "" removes it. What stands there and is no file is left alone. UserError
  /// as write_file_atomically().
  void name_checkpoint(const std::string& name, const std::string& checkpoint) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  /// `made`: the folder, by whoever calls, for this run.
  static RunFolder begin(const std::string& path, bool made);
  void lock();
  void prepare() const;

  std::string path_;
  int lock_ = -1;
  bool is_ours_ = false;  // the folder, made by create()
};

/// Writes choices.json, or where it is there already compares it: what has changed since is appended, with
/// the step from which on it holds, and warned of. Choices that it lacks are added.
void record_choices(const RunFolder& folder, const std::string& engine, const ChoiceRecord& choices,
                    const std::vector<KernelOverride>& kernels, std::int64_t step);
/// Writes the texts of kernels that are not the emitted ones; record_choices() names them. Whoever gave them
/// has agreed to run them: they are remembered (runtime/plugin/trust_list.h).
void keep_kernels(const RunFolder& folder, const std::vector<KernelOverride>& kernels);
/// Those that the run began with. UserError if a file has gone or is another one since.
std::vector<KernelOverride> recorded_kernels(const RunFolder& folder);
/// They are code: UserError where the user has not agreed to run one, before or by `trust` now.
void require_agreed(const RunFolder& folder, const std::vector<KernelOverride>& kernels, bool trust);
/// Those that the run made; none if there is no such file. UserError on a list of them that cannot be read.
ChoiceRecord recorded_choices(const RunFolder& folder);
/// The engine that the run began with; "" if it is not recorded.
std::string recorded_engine(const RunFolder& folder);

}  // namespace rewire::runtime
