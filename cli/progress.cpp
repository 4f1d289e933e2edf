#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "cli/streams.h"

namespace rewire::cli {
namespace {

constexpr std::string_view kStep = "  step ";
constexpr double kInterval = 0.2;  // seconds between two states of the moving line

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t terminal_width() {
  struct winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string step_text(const runtime::TrainView& view) {
  return fmt::format("epoch {}/{}{}{}/{}  {}  {:.0f} images/s  {} left", view.position.epoch + 1, view.epochs,
                     kStep, view.position.step_in_epoch, view.steps_per_epoch,
                     runtime::metrics_text(view.metrics, 1, "  "), view.images_per_second,
                     clock_text(view.seconds_left));
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

MovingLine::MovingLine(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}

MovingLine::~MovingLine() {
  clear();
}

void MovingLine::clear() {
  if (shown_) overwrite_line("");
  shown_ = false;
}

void MovingLine::line(const std::string& text) {
  if (quiet_) return;
  clear();
  write_stderr(visible(text) + "\n");
}

void MovingLine::moving(const std::string& text, bool now) {
  if (quiet_ || !terminal_) return;
  const double time = seconds_now();
  if (!now && time - last_ < kInterval) return;
  last_ = time;
  overwrite_line(cut(visible(text), terminal_width() - 1));
  shown_ = true;
}

bool is_step_line(std::string_view line) {
  return line.starts_with("epoch ") && line.find(kStep) != std::string_view::npos;
}

void Progress::started(const runtime::RunFacts& facts) {
  const auto counted = [](std::int64_t count, const char* name) {
    return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
  };
  const bool ends_early = facts.steps < facts.epochs * facts.steps_per_epoch;
  line_.line(fmt::format("{} weights, {} + {} images, {} of {}{}", facts.weights, facts.train_images,
                         facts.test_images, counted(facts.epochs, "epoch"),
                         counted(facts.steps_per_epoch, "step"),
                         ends_early ? fmt::format(", until step {}", facts.steps) : ""));
  line_.line(facts.position.step == 0 ? fmt::format("training in {}", facts.run)
                                      : fmt::format("going on in {} after step {} (epoch {})", facts.run,
                                                    facts.position.step, facts.position.epoch + 1));
}

void Progress::compiling(const std::string& program) {
  line_.moving(fmt::format("compiling {}", program), true);
}

void Progress::stepped(const runtime::TrainView& view) {
  line_.moving(step_text(view), false);
}

void Progress::logged(const runtime::TrainView& view) {
  if (!line_.moves()) line_.line(step_text(view));
}

void Progress::evaluating(std::int64_t done, std::int64_t batches) {
  line_.moving(fmt::format("evaluating  batch {}/{}", done, batches), false);
}

void Progress::epoch_done(const runtime::EpochReport& report) {
  std::string text = fmt::format("epoch {}/{}  {}", report.epoch + 1, report.epochs,
                                 runtime::metrics_text(report.metrics, 2, "  "));
  if (report.evaluation)
    text += fmt::format("  |  test {}", runtime::metrics_text(report.evaluation->metrics, 2, "  "));
  line_.line(text + "  |  " + clock_text(report.seconds));
}

void Progress::replaying(const std::string& program) {
  line_.line(fmt::format("{} gave a number that is not finite; looking for the first such tensor", program));
}

}  // namespace rewire::cli
