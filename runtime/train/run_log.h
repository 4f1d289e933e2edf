// The messages of a run in RUN/log.txt: the log's lines, whichever of them stderr shows, and a line for each
// epoch.
//
//   2026-11-26T16:01:04Z training in runs/a, 1209098 weights
//   2026-11-26T16:03:10Z warning: runs/a: the best checkpoint was chosen by loss; …
//   2026-11-26T16:03:11Z epoch 1/3: loss 1.7555, top-1 39.06 %; test loss 1.3866, top-1 48.15 %, 2.1 s
//
// A resumed run appends to it and says so, but only with its first step, so that a resume without steps
// leaves the folder unchanged. Other files have the same data: if the log cannot be written, the run goes on
// without it, and says so once.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/device/log.h"
#include "runtime/io/appended_file.h"
#include "runtime/run/run_folder.h"
#include "runtime/train/trainer.h"

namespace rewire::runtime {

/// An observer that logs its calls and passes them on.
class RunLog final : public TrainObserver {
 public:
  explicit RunLog(TrainObserver& observer);

  /// Sets the folder that it is written to, from the first step or open() on.
  void stands_in(const RunFolder& folder);
  void open();
  /// Logs how the run ended.
  void ended(const TrainResult& result);
  void failed(std::string_view why);

  void compiling(const std::string& program) override { observer_.compiling(program); }
  void started(const RunFacts& facts) override;
  void stepped(const TrainView& view) override;
  void logged(const TrainView& view) override { observer_.logged(view); }
  void evaluating(std::int64_t done, std::int64_t batches) override { observer_.evaluating(done, batches); }
  void epoch_done(const EpochReport& report) override;
  void replaying(const std::string& program) override;

 private:
  /// Writes one line, and warns if that failed.
  void line(std::string_view text);
  /// Writes a line without a warning, which the listener may not give; that follows with the next step.
  void append(std::string_view text);
  void warn_of_refusal();
  /// Runs `write`, under the lock.
  void attempt(const std::function<void()>& write);

  TrainObserver& observer_;
  std::optional<FilePlace> place_;  // nothing: before stands_in()
  std::mutex mutex_;                // of all below
  bool opened_ = false;
  std::unique_ptr<AppendedFile> file_;  // none: before open(), or it failed
  std::string early_;                   // messages before open()
  std::string refusal_;                 // why it failed, until the warning
  const LogListener listener_;
};

}  // namespace rewire::runtime
