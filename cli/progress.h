// Training as a person sees it on stderr: one line that moves where stderr is a terminal, and one line an
// epoch everywhere.
#pragma once

#include <string>

#include "runtime/train/trainer.h"

namespace rewire::cli {

/// "3:07", "1:02:09".
std::string clock_text(double seconds);

class Progress final : public runtime::TrainObserver {
 public:
  explicit Progress(bool quiet);
  ~Progress() override;

  void started(const runtime::RunFacts& facts) override;
  void compiling(const std::string& program) override;
  void stepped(const runtime::TrainView& view) override;
  void evaluating(std::int64_t done, std::int64_t batches) override;
  void epoch_done(const runtime::EpochReport& report) override;
  void replaying(const std::string& program) override;

  /// Ends the moving line, so that other text begins on its own.
  void clear();

 private:
  void line(const std::string& text);
  void moving(const std::string& text, bool now);

  bool quiet_, terminal_;
  bool shown_ = false;
  double last_ = 0;  // when the moving line was last written
};

}  // namespace rewire::cli
