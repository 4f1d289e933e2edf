// Training as a person sees it on stderr: one line that moves where stderr is a terminal, elsewhere (and with --plain) one
// for each line of metrics, and one line an epoch everywhere.
#pragma once

#include <string>
#include <string_view>

#include "cli/loss_curve.h"
#include "runtime/train/trainer.h"

namespace rewire::cli {

/// "3:07", "1:02:09".
std::string clock_text(double seconds);

/// Lines on stderr, the last of which moves where stderr is a terminal.
class MovingLine {
 public:
  /// `plain`: none that moves, on a terminal either.
  explicit MovingLine(bool quiet, bool plain = false);
  ~MovingLine();
  MovingLine(const MovingLine&) = delete;
  MovingLine& operator=(const MovingLine&) = delete;

  bool moves() const { return terminal_; }
  /// One that stays.
  void line(const std::string& text);
  /// In place of the moving line, on a terminal alone; `now`: however short a time after the one before.
  void moving(const std::string& text, bool now);
  /// Whether moving() would write a line that is not `now`: making it may cost more than a step.
  bool is_due() const;
  /// The columns that a moving line has.
  std::size_t width() const;
  /// Ends the moving line, so that other text begins on its own.
  void clear();

 private:
  bool quiet_, terminal_;
  double last_ = 0;  // when the moving line was last written
};

/// Whether a process that trains wrote this line by Progress::logged().
bool is_step_line(std::string_view line);

/// The moving line of a step in at most `width` columns: what does not fit is left out, the curve first, then memory,
/// then the rate. `memory`: bytes.
std::string step_line(const runtime::TrainView& view, std::int64_t memory, const LossCurve& curve,
                      std::size_t width, bool utf8);

class Progress final : public runtime::TrainObserver {
 public:
  explicit Progress(bool quiet, bool plain = false) : line_(quiet, plain) {}

  void started(const runtime::RunFacts& facts) override;
  void compiling(const std::string& program) override;
  void stepped(const runtime::TrainView& view) override;
  void logged(const runtime::TrainView& view) override;
  void evaluating(std::int64_t done, std::int64_t batches) override;
  void epoch_done(const runtime::EpochReport& report) override;
  void replaying(const std::string& program) override;

 private:
  MovingLine line_;
  LossCurve curve_;
  bool utf8_ = locale_is_utf8();
};

}  // namespace rewire::cli
