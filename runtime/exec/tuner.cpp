#include "runtime/exec/tuner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/passes/choose_lowerings.h"
#include "runtime/exec/benchmark.h"
#include "runtime/log.h"

namespace rewire::runtime {
namespace {

constexpr int kWarmUp = 2, kRounds = 9, kFewestRounds = 3;
/// A candidate that takes so much longer than another while both warm up is out of the race.
constexpr double kHopeless = 3;
/// And so much longer in its first run: it has no second one, and takes no time from the others.
constexpr double kOutAtOnce = 20;
/// What a candidate must gain over the cost model's, for chance not to choose between equals.
constexpr double kGain = 0.97;

struct Racer {
  std::string candidate;
  std::unique_ptr<Engine> engine;
  double seconds = std::numeric_limits<double>::infinity();  // of its best run
};

/// Interleaved, and the best run of each counts, so that what else the machine does meanwhile decides
/// nothing. False if time ran out before a few rounds were whole.
bool race(std::vector<Racer>& racers, const TensorMap& inputs, const std::function<double()>& clock,
          const std::function<double(Engine&, const TensorMap&)>& measure, double budget) {
  double deadline = clock() + budget, fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    for (Racer& racer : racers) {
      if (clock() > deadline) return round >= kWarmUp + kFewestRounds;
      if (round > 0 && round < kWarmUp && racer.seconds > kOutAtOnce * fastest) continue;
      const double seconds = measure(*racer.engine, inputs);
      racer.seconds = std::min(racer.seconds, seconds);
      fastest = std::min(fastest, seconds);
      if (round == 0 && seconds > kOutAtOnce * fastest) deadline += seconds;
    }
    if (round + 1 != kWarmUp) continue;
    std::erase_if(racers, [&](const Racer& racer) { return racer.seconds > kHopeless * fastest; });
    for (Racer& racer : racers) racer.seconds = std::numeric_limits<double>::infinity();
  }
  return true;
}

}  // namespace

Tuner::Tuner(TunerOptions options)
    : options_(std::move(options)), cache_(options_.time ? options_.cache_directory : "", options_.place) {}

double Tuner::now() const {
  if (options_.clock) return options_.clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Tuner::choose(const ir::Choice& choice) {
  if (const MadeChoice* made = record_.find(choice.key)) return made->taken;
  MadeChoice made = make(choice);
  if (std::ranges::find(choice.candidates, made.taken) == choice.candidates.end()) {
    user_error("the recorded choice of '{}' is '{}', which cannot be here: it is one of {}", choice.key,
               made.taken, fmt::join(choice.candidates, ", "));
  }
  record_.add(made);
  return made.taken;
}

MadeChoice Tuner::make(const ir::Choice& choice) {
  if (const MadeChoice* given = options_.given.find(choice.key)) return *given;
  const MadeChoice modelled{choice.key, choice.candidates.front(), std::string(kByModel), {}};
  if (!options_.time) return modelled;
  if (std::optional<MadeChoice> kept = cache_.load(choice.key)) return *kept;
  const std::unique_ptr<ChoiceCache::Lock> lock = cache_.lock();
  if (lock == nullptr) return modelled;
  if (std::optional<MadeChoice> kept = cache_.load(choice.key)) return *kept;  // by whom we waited for
  MadeChoice made = time(choice);
  // An answer that cannot be kept would be another one the next time.
  return cache_.store(made) ? made : modelled;
}

MadeChoice Tuner::time(const ir::Choice& choice) {
  ++timed_;
  MadeChoice made{choice.key, choice.candidates.front(), std::string(kByModel), {}};
  std::vector<Racer> racers;
  TensorMap inputs;
  for (const std::string& candidate : choice.candidates) {
    const ir::Module trial = choice.trial(candidate);
    if (racers.empty()) inputs = random_inputs(trial.functions.front(), 1);
    racers.push_back({candidate, options_.make_engine(trial)});
    racers.back().engine->prepare("trial");
  }
  const auto clock = [this] { return now(); };
  const auto around = [&clock](Engine& engine, const TensorMap& trial_inputs) {
    const double start = clock();
    engine.run("trial", trial_inputs);
    return clock() - start;
  };
  const auto measure = options_.measure ? options_.measure : around;
  if (!race(racers, inputs, clock, measure, options_.budget_seconds)) return made;
  made.by = kByTiming;
  for (const Racer& racer : racers) made.seconds.emplace_back(racer.candidate, racer.seconds);
  const auto& [fastest, least] =
      *std::ranges::min_element(made.seconds, {}, &std::pair<std::string, double>::second);
  const auto& [first, seconds] = made.seconds.front();
  const bool as_modelled = first == made.taken && least > kGain * seconds;
  if (!as_modelled) made.taken = fastest;
  write_log(LogLevel::debug, fmt::format("{}: {} by timing, {:.3f} ms", made.key, made.taken, least * 1e3));
  return made;
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
}

}  // namespace rewire::runtime
