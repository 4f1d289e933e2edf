// Shows training on stderr. On a terminal one line moves. Elsewhere, and with --plain, each line of metrics
// prints one line. Each epoch prints a line in both cases.
#pragma once

#include <string>
#include <string_view>

#include "cli/loss_curve.h"
#include "runtime/train/trainer.h"

namespace rewire::cli {

/// Returns "3:07" or "1:02:09".
std::string clock_text(double seconds);

/// Lines on stderr. On a terminal the last one moves.
class MovingLine {
 public:
  /// `plain`: no line moves, even on a terminal.
  explicit MovingLine(bool quiet, bool plain = false);
  ~MovingLine();
  MovingLine(const MovingLine&) = delete;
  MovingLine& operator=(const MovingLine&) = delete;

  bool moves() const { return terminal_; }
  /// Writes a line that stays.
  void line(const std::string& text);
  /// Replaces the moving line, on a terminal only. `now`: also shortly after the previous one.
  void moving(const std::string& text, bool now);
  /// Returns whether moving() would write a line without `now`. Making the text may cost more than a step.
  bool is_due() const;
  /// Returns the columns of a moving line.
  std::size_t width() const;
  /// Ends the moving line, so that other text begins on a new one.
  void clear();

 private:
  bool quiet_, terminal_;
  double last_ = 0;  // time of the last write of the moving line
};

/// Returns whether a training process wrote this line in Progress::logged().
bool is_step_line(std::string_view line);

/// Returns the moving line of a step in at most `width` columns. If it is too long, it omits the curve, then
/// memory, then the rate. `memory` is in bytes.
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
