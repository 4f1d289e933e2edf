// The folder that holds all that reproduces and explains a run:
//
//   recipe.toml            the resolved recipe: every key, every plugin value
//   plugins.json           the plugins' libraries: version, path, SHA-256 (runtime/plugin/kept_plugins.h)
//   plugins/NAME-….so      a copy of each, readable by the user alone
//   choices.json           what else decides the bits: engine, target, libraries, choices made by timing
//   kernels/NAME.cu        each kernel that was given in place of the emitted one
//   metrics.jsonl          one line per log_every steps, one per evaluation
//   events.out.tfevents.00000000.rewire   for TensorBoard, with more (run_events.h); one more per resume
//   metrics.prom           the last lines' figures for Prometheus (run_prometheus.h)
//   log.txt                the run's messages (run_log.h)
//   report.html            the run as a page (run_report.h)
//   pictures/epoch-0005.png   drawn by the evaluation after the fifth epoch, if the objective draws pictures
//   checkpoints/0002-00001874/   two epochs, 1874 steps done: weights.safetensors, state.safetensors,
//                          checkpoint.json
//   checkpoints/last, best the name of the newest, and of the one with the best evaluation
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

/// The weights in the folder of a complete run.
constexpr const char* kFinalWeights = "weights.safetensors";
constexpr const char* kFinalAverages = "weights_ema.safetensors";  // if averages of them are kept

class RunFolder {
 public:
  /// Makes the folder of a new run. Throws UserError if anything but an empty folder exists there, or it
  /// cannot be written.
  static RunFolder create(const std::string& path);
  /// Makes it at `wanted`, or if that exists at the first free one of wanted-2, wanted-3, ….
  static RunFolder create_numbered(const std::string& wanted);
  /// Opens a run folder to read from. Throws UserError if it is none.
  static RunFolder open(const std::string& path);
  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  RunFolder(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Returns the last part of the path, with or without a final slash.
  static std::string name_of(const std::string& path);
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Returns the place to open a file at: whoever made the folder may have put links into it, and none is
  /// followed.
  FilePlace place(const std::string& name) const { return FilePlace::below(path_, name); }

  /// Returns the place of RUN/checkpoints/NAME, and of a file in it.
  static FilePlace place_in(const std::string& checkpoint, std::string_view file = "");

  /// Prepares for training in the folder: takes the lock that ends with the process, checks that it can be
  /// written, removes files that a killed process left incomplete. Throws UserError with the cause, also if
  /// another process trains here.
  void claim();

  /// Throws UserError if the locked folder has been removed since, or replaced by another.
  void require_held() const;

  /// Returns "0002-00001874" for two epochs and 1874 steps.
  static std::string checkpoint_name(std::int64_t epoch, std::int64_t step);
  static bool is_checkpoint_name(const std::string& name);
  /// Returns "events.out.tfevents.00000056.rewire" for events after step 56; and the step of such a name, -1
  /// for another.
  static std::string event_file_name(std::int64_t step);
  static std::int64_t event_file_step(const std::string& name);
  /// Cleans up after a new run that failed. If it wrote no line of metrics and no checkpoint, its files are
  /// removed, and the folder if the run made it. Anything else stays.
  void discard_unused() noexcept;

  /// Returns the checkpoints, oldest first, as paths that can be opened. Other files there are ignored.
  /// Throws UserError if they cannot be read.
  std::vector<std::string> checkpoints() const;
  /// Removes all but the last `keep` and the one named `spared`.
  void prune_checkpoints(std::int64_t keep, std::string_view spared = "") const;
  /// Returns the checkpoint that checkpoints/NAME names; "" if there is no such file or no such checkpoint.
  std::string named_checkpoint(const std::string& name) const;
  /// Writes that file at once; `checkpoint` "" removes it. Leaves alone what is not a file. Throws UserError
  /// like write_file_atomically().
  void name_checkpoint(const std::string& name, const std::string& checkpoint) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  /// `made`: the caller has made the folder for this run.
  static RunFolder begin(const std::string& path, bool made);
  void lock();
  void prepare() const;

  std::string path_;
  int lock_ = -1;
  bool is_ours_ = false;  // the folder, made by create()
};

/// Writes choices.json. If it exists, appends and warns of what has changed since, with the step from which
/// it holds, and adds choices that it lacks.
void record_choices(const RunFolder& folder, const std::string& engine, const ChoiceRecord& choices,
                    const std::vector<KernelOverride>& kernels, std::int64_t step);
/// Writes the texts of kernels that replace emitted ones; record_choices() names them. The user who gave
/// them has agreed to run them, so they are remembered (runtime/plugin/trust_list.h).
void keep_kernels(const RunFolder& folder, const std::vector<KernelOverride>& kernels);
/// Returns the kernels that the run began with. Throws UserError if a file is missing or has changed.
std::vector<KernelOverride> recorded_kernels(const RunFolder& folder);
/// Kernels are code: throws UserError if the user has not agreed to run one, before or by `trust` now.
void require_agreed(const RunFolder& folder, const std::vector<KernelOverride>& kernels, bool trust);
/// Returns the choices that the run made; none without the file. Throws UserError if they cannot be read.
ChoiceRecord recorded_choices(const RunFolder& folder);
/// Returns the engine that the run began with; "" if it is not recorded.
std::string recorded_engine(const RunFolder& folder);

}  // namespace rewire::runtime
