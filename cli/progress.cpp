#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/streams.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/process.h"

namespace rewire::cli {
namespace {

constexpr std::string_view kStep = "  step ";
constexpr double kInterval = 0.2;  // seconds between two updates of the moving line

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t terminal_width() {
  struct winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// Returns the first `columns` characters. Each is one column wide.
std::string cut_columns(const std::string& text, std::size_t columns) {
  std::string_view rest = text;
  for (; columns > 0 && !rest.empty(); --columns) rest.remove_prefix(first_character(rest).bytes.size());
  return text.substr(0, text.size() - rest.size());
}

std::string epoch_and_step(const runtime::TrainView& view) {
  return fmt::format("epoch {}/{}{}{}/{}  {}", view.position.epoch + 1, view.epochs, kStep,
                     view.position.step_in_epoch, view.steps_per_epoch,
                     runtime::metrics_text(view.metrics, 1, "  "));
}

std::string rate(const runtime::TrainView& view) {
  return fmt::format("  {:.0f} samples/s", view.samples_per_second);
}

std::string left(const runtime::TrainView& view) {
  return fmt::format("  {} left", clock_text(view.seconds_left));
}

/// Returns the peak memory of the device if it has its own, else of the process.
std::int64_t peak_memory() {
  const std::int64_t device = runtime::cuda::device_memory_peak();
  return device > 0 ? device : runtime::peak_memory_bytes();
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

MovingLine::MovingLine(bool quiet, bool plain)
    : quiet_(quiet), terminal_(!plain && ::isatty(STDERR_FILENO) == 1) {}

MovingLine::~MovingLine() {
  clear();
}

void MovingLine::clear() {
  clear_line();
}

void MovingLine::line(const std::string& text) {
  if (quiet_) return;
  clear();
  write_stderr(visible(text) + "\n");
}

bool MovingLine::is_due() const {
  return !quiet_ && terminal_ && seconds_now() - last_ >= kInterval;
}

std::size_t MovingLine::width() const {
  return terminal_width() - 1;
}

void MovingLine::moving(const std::string& text, bool now) {
  if (quiet_ || !terminal_) return;
  const double time = seconds_now();
  if (!now && time - last_ < kInterval) return;
  last_ = time;
  overwrite_line(cut_columns(visible(text), width()));
}

bool is_step_line(std::string_view line) {
  return line.starts_with("epoch ") && line.find(kStep) != std::string_view::npos;
}

std::string step_line(const runtime::TrainView& view, std::int64_t memory, const LossCurve& curve,
                      std::size_t width, bool utf8) {
  constexpr std::size_t kLeast = 8, kMost = 32;  // columns of the curve
  const std::string begin = epoch_and_step(view), end = left(view);
  const std::string of_memory = fmt::format("  {:.0f} MB", static_cast<double>(memory) / 1e6);
  std::string line = begin + rate(view) + of_memory + end;
  if (line.size() > width) line = begin + rate(view) + end;
  if (line.size() > width) line = begin + end;
  if (line.size() + 2 + kLeast > width) return line;
  const std::string text = curve.text(std::min(kMost, width - line.size() - 2), utf8);
  return text.empty() ? line : line + "  " + text;
}

void Progress::started(const runtime::RunFacts& facts) {
  const auto counted = [](std::int64_t count, const char* name) {
    return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
  };
  const bool ends_early = facts.steps < facts.epochs * facts.steps_per_epoch;
  const std::string dropped =
      facts.dropped == 0 ? "" : fmt::format(", each without its last {}", counted(facts.dropped, "sample"));
  line_.line(fmt::format("{} weights, {} + {} samples, {} of {}{}{}", facts.weights, facts.train_samples,
                         facts.test_samples, counted(facts.epochs, "epoch"),
                         counted(facts.steps_per_epoch, "step"), dropped,
                         ends_early ? fmt::format(", until step {}", facts.steps) : ""));
  line_.line(facts.position.step == 0 ? fmt::format("training in {}", facts.run)
                                      : fmt::format("continuing in {} after step {} (epoch {})", facts.run,
                                                    facts.position.step, facts.position.epoch + 1));
}

void Progress::compiling(const std::string& program) {
  line_.moving(fmt::format("compiling {}", program), true);
}

void Progress::stepped(const runtime::TrainView& view) {
  if (!view.metrics.empty()) curve_.add(view.metrics.front().value);
  if (line_.is_due()) line_.moving(step_line(view, peak_memory(), curve_, line_.width(), utf8_), false);
}

void Progress::logged(const runtime::TrainView& view) {
  if (!line_.moves()) line_.line(epoch_and_step(view) + rate(view) + left(view));
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
