// Training as a person sees it on stderr: one line that moves where stderr is a terminal, elsewhere one for
// each line of metrics, and one line an epoch everywhere.
#pragma once

#include <string>
#include <string_view>

#include "runtime/train/trainer.h"

namespace rewire::cli {

/// "3:07", "1:02:09".
std::string clock_text(double seconds);

/// Lines on stderr, the last of which moves where stderr is a terminal.
class MovingLine {
 public:
  explicit MovingLine(bool quiet);
  ~MovingLine();
  MovingLine(const MovingLine&) = delete;
  MovingLine& operator=(const MovingLine&) = delete;

  bool moves() const { return terminal_; }
  /// One that stays.
  void line(const std::string& text);
  /// In place of the moving line, on a terminal alone; `now`: however short a time after the one before.
  void moving(const std::string& text, bool now);
  /// Ends the moving line, so that other text begins on its own.
  void clear();

 private:
  bool quiet_, terminal_;
  bool shown_ = false;
  double last_ = 0;  // when the moving line was last written
};

/// Whether a process that trains wrote this line by Progress::logged().
bool is_step_line(std::string_view line);

class Progress final : public runtime::TrainObserver {
 public:
  explicit Progress(bool quiet) : line_(quiet) {}

  void started(const runtime::RunFacts& facts) override;
  void compiling(const std::string& program) override;
  void stepped(const runtime::TrainView& view) override;
  void logged(const runtime::TrainView& view) override;
  void evaluating(std::int64_t done, std::int64_t batches) override;
  void epoch_done(const runtime::EpochReport& report) override;
  void replaying(const std::string& program) override;

 private:
  MovingLine line_;
};

}  // namespace rewire::cli
