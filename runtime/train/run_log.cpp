#include "runtime/train/run_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/measure/metrics.h"

namespace rewire::runtime {
namespace {

std::string_view level_word(LogLevel level) {
  constexpr std::string_view kWords[] = {"debug", "info", "warning"};
  return kWords[static_cast<std::size_t>(level)];
}

}  // namespace

RunLog::RunLog(TrainObserver& observer)
    : observer_(observer), listener_([this](LogLevel level, std::string_view message) {
        if (level != LogLevel::debug) append(fmt::format("{}: {}", level_word(level), message));
      }) {}

void RunLog::stands_in(const RunFolder& folder) {
  place_ = folder.place("log.txt");
}

void RunLog::open() {
  const auto begin = [this] {
    const std::optional<struct stat> status = status_of(place_.value());
    file_ = std::make_unique<AppendedFile>(*place_, status ? status->st_size : 0, "the run's log goes there");
    file_->append(std::exchange(early_, ""));
  };
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(opened_, true)) attempt(begin);
  }
  warn_of_refusal();
}

void RunLog::attempt(const std::function<void()>& write) {
  try {
    write();
  } catch (const UserError& why) {
    file_.reset();
    refusal_ = why.what();
  }
}

void RunLog::warn_of_refusal() {
  std::unique_lock lock(mutex_);
  const std::string refusal = std::exchange(refusal_, "");
  lock.unlock();
  if (!refusal.empty())
    write_log(LogLevel::warning, fmt::format("the run continues without its log: {}", refusal));
}

void RunLog::line(std::string_view text) {
  append(text);
  warn_of_refusal();
}

void RunLog::append(std::string_view text) {
  const std::string stamped =
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {}\n", fmt::gmtime(std::time(nullptr)), visible(text));
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr) {
    attempt([&] { file_->append(stamped); });
  } else if (!opened_) {
    early_ += stamped;
  }
}

void RunLog::stepped(const TrainView& view) {
  open();
  observer_.stepped(view);
}

void RunLog::started(const RunFacts& facts) {
  line(facts.position.step == 0
           ? fmt::format("training in {}: {} weights, {} + {} samples, {} steps{}", facts.run, facts.weights,
                         facts.train_samples, facts.test_samples, facts.steps,
                         facts.dropped == 0
                             ? ""
                             : fmt::format("; {} samples are left over in each epoch", facts.dropped))
           : fmt::format("continuing in {} after step {} of {} (epoch {})", facts.run, facts.position.step,
                         facts.steps, facts.position.epoch + 1));
  observer_.started(facts);
}

void RunLog::epoch_done(const EpochReport& report) {
  std::string text =
      fmt::format("epoch {}/{}: {}", report.epoch + 1, report.epochs, metrics_text(report.metrics));
  if (report.evaluation) text += fmt::format("; test {}", metrics_text(report.evaluation->metrics));
  line(fmt::format("{}; {:.1f} s", text, report.seconds));
  observer_.epoch_done(report);
}

void RunLog::replaying(const std::string& program) {
  open();
  line(fmt::format("{} gave a number that is not finite; looking for the first such tensor", program));
  observer_.replaying(program);
}

void RunLog::ended(const TrainResult& result) {
  open();
  line(result.stopped_by == 0
           ? fmt::format("complete after step {}: {:.0f} samples/s", result.position.step,
                         result.samples_per_second)
           : fmt::format("stopped by signal {} after step {}", result.stopped_by, result.position.step));
}

void RunLog::failed(std::string_view why) {
  line(fmt::format("ended: {}", why));
}

}  // namespace rewire::runtime
