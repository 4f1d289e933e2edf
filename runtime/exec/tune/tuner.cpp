#include "runtime/exec/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/passes/choose_lowerings.h"
#include "runtime/device/log.h"
#include "runtime/exec/tune/tune_keys.h"

namespace rewire::runtime {
namespace {

/// A candidate replaces the cost model's choice only if it takes less than this share of its time. So noise
/// does not decide between equals.
constexpr double kGain = 0.97;

}  // namespace

TimedChoice choice_by_trials(const std::string& key, const std::vector<std::string>& candidates,
                             const std::function<ir::Module()>& make_module, const MakeTrial& make_trial,
                             double budget_seconds) {
  TimedChoice choice;
  choice.key = key;
  choice.candidates = choice.labels = candidates;
  choice.accepts = [candidates](const std::string& answer) {
    return std::ranges::find(candidates, answer) != candidates.end();
  };
  choice.racers = [=] {
    const ir::Module module = make_module();
    std::vector<Racer> racing;
    for (const std::string& candidate : candidates) {
      ChoiceRecord choices;
      choices.add({key, candidate, std::string(kByModel), {}});
      Trial trial = make_trial(module, choices);
      racing.push_back({racing.size(), std::move(trial.run), std::move(trial.repeats)});
    }
    return racing;
  };
  choice.budget_seconds = budget_seconds;
  return choice;
}

Tuner::Tuner(TunerOptions options)
    : options_(std::move(options)), cache_(options_.time ? options_.cache_directory : "", options_.place) {
  for (const MadeChoice& choice : options_.given.made()) {
    if (choice.key.starts_with(fmt::format("{} ", kTuneChoice))) record_.add(choice);
  }
}

double Tuner::now() const {
  if (options_.clock) return options_.clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Tuner::choose(const ir::Choice& choice) {
  const std::string answer = choose(TimedChoice{choice.key, choice.candidates, choice.candidates,
                                                [](const std::string&) { return true; },
                                                [&] { return racers(choice); }, options_.budget_seconds});
  if (std::ranges::find(choice.candidates, answer) == choice.candidates.end()) {
    user_error("the recorded choice of '{}' is '{}', which is not available here; choose from {}", choice.key,
               answer, fmt::join(choice.candidates, ", "));
  }
  return answer;
}

std::string Tuner::choose(const TimedChoice& choice) {
  if (const MadeChoice* made = record_.find(choice.key)) return made->taken;
  MadeChoice made = make(choice);
  record_.add(made);
  return made.taken;
}

MadeChoice Tuner::make(const TimedChoice& choice) {
  if (const MadeChoice* given = options_.given.find(choice.key)) {
    if (choice.accepts(given->taken)) return *given;
    ++refused_;
    write_log(LogLevel::debug,
              fmt::format("the recorded choice of '{}' is '{}', which is refused here: it is chosen again",
                          choice.key, given->taken));
  }
  const MadeChoice modelled{choice.key, choice.candidates.front(), std::string(kByModel), {}};
  if (!options_.time || (choice.candidates.size() == 1 && !choice.more)) return modelled;
  if (const std::optional<MadeChoice> found = kept(choice)) return *found;
  const std::unique_ptr<ChoiceCache::Lock> lock = cache_.lock();
  if (lock == nullptr) return modelled;
  if (const std::optional<MadeChoice> found = kept(choice)) return *found;  // by the last holder of the lock
  MadeChoice made;
  try {
    made = time(choice);
  } catch (const OutOfMemory& failure) {  // all candidates together; a step alone may fit
    write_log(LogLevel::warning,
              fmt::format("{}: not timed, the cost model decides this time: {}", choice.key, failure.what()));
    return modelled;
  }
  if (made.by == kByModel && (!choice.keep_untimed || seconds_ >= options_.total_seconds)) return made;
  // An answer that cannot be stored could be another one the next time.
  return cache_.store(made) ? made : modelled;
}

/// Returns the choice in this machine's cache, if `choice` accepts it.
std::optional<MadeChoice> Tuner::kept(const TimedChoice& choice) const {
  std::optional<MadeChoice> found = cache_.load(choice.key);
  return found && choice.accepts(found->taken) ? found : std::nullopt;
}

bool Tuner::is_any_given(std::string_view kind) const {
  return std::ranges::any_of(options_.given.made(), [&](const MadeChoice& choice) {
    return choice.key.starts_with(fmt::format("{} ", kind));
  });
}

bool Tuner::must_time(const TimedChoice& choice) const {
  if (!options_.time || options_.cache_directory.empty()) return false;
  if (choice.candidates.size() == 1 || record_.find(choice.key) != nullptr) return false;
  const MadeChoice* given = options_.given.find(choice.key);
  return (given == nullptr || !choice.accepts(given->taken)) && !kept(choice);
}

std::vector<Racer> Tuner::racers(const ir::Choice& choice) const {
  std::vector<Racer> list;
  for (const std::string& candidate : choice.candidates) {
    Trial trial = options_.make_trial(choice.trial(candidate), {});
    list.push_back({list.size(), std::move(trial.run), std::move(trial.repeats)});
  }
  return list;
}

MadeChoice Tuner::time(TimedChoice choice) {
  MadeChoice made{choice.key, choice.candidates.front(), std::string(kByModel), {}};
  std::vector<Racer> racing;
  choice.limits.budget_seconds = std::min(choice.budget_seconds, options_.total_seconds - seconds_);
  if (choice.limits.budget_seconds > 0) {
    if (choice.more) choice.more(choice.candidates, choice.labels);
    if (choice.candidates.size() == 1) return made;
    ++timed_;
    racing = choice.racers();
  }
  const double start = now();
  const bool raced = !racing.empty() && race(racing, [this] { return now(); }, choice.limits);
  if (raced) take_winner(choice, racing, made);
  seconds_ += now() - start;
  if (!raced) ++out_of_time_;
  return made;
}

/// Takes the fastest racer whose results repeat.
void Tuner::take_winner(const TimedChoice& choice, std::vector<Racer>& racing, MadeChoice& made) const {
  std::erase_if(racing, [](const Racer& racer) { return std::isinf(racer.seconds); });  // those that failed
  for (const Racer& racer : racing)
    made.seconds.emplace_back(choice.labels[racer.candidate], std::round(racer.seconds * 1e9) / 1e9);
  while (!racing.empty()) {
    auto winner = std::ranges::min_element(racing, {}, &Racer::seconds);
    const Racer& first = racing.front();
    if (first.candidate == 0 && winner->seconds > kGain * first.seconds) winner = racing.begin();
    if (!winner->repeats || winner->repeats()) {
      made.by = kByTiming;
      made.taken = choice.candidates[winner->candidate];
      write_log(LogLevel::debug,
                fmt::format("{}: {} by timing, {:.3f} ms", made.key, made.taken, winner->seconds * 1e3));
      return;
    }
    const bool last = racing.size() == 1;
    write_log(LogLevel::warning,
              fmt::format("{}: {} is struck: two runs on the same numbers do not give the same bits{}",
                          made.key, choice.labels[winner->candidate],
                          last ? "; no other is left, so the first is taken all the same" : ""));
    racing.erase(winner);
  }
}

std::string Tuner::limit_text(double own_seconds) const {
  return seconds_ < options_.total_seconds ? fmt::format("{} s", own_seconds)
                                           : fmt::format("{} s for all choices", options_.total_seconds);
}

void Tuner::choose_late(const ir::Module& module, const std::vector<std::string>& functions) {
  if (options_.late_choices) options_.late_choices(module, functions, *this);
}

void make_choices(ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
  ir::PassContext context;
  context.chooser = &tuner;
  ir::Module asked = module;
  std::erase_if(asked.functions, [&](const ir::Function& function) {
    return std::ranges::find(functions, function.name) == functions.end();
  });
  ir::choose_lowerings(asked, context);
  for (ir::Function& function : asked.functions) module.function(function.name) = std::move(function);
  tuner.choose_late(module, functions);
}

}  // namespace rewire::runtime
