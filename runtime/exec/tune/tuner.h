// Makes choices, in this order: as recorded; as in this machine's cache; by timing the candidates now, each
// in a program of its own, forward and gradients; or, if timing is not allowed, by the cost model. Its
// answers are in its record.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/choice.h"
#include "runtime/exec/tune/choice_cache.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/exec/tune/race.h"

namespace rewire::runtime {

class Tuner;

/// The most seconds that candidates of all of a network's choices may run together.
inline constexpr double kTuningSeconds = 20;

/// A program that is ready to run.
struct Trial {
  std::function<double()> run;         // runs it once and returns the seconds
  std::function<bool()> repeats = {};  // as Racer::repeats
};
/// Makes the trial of a module's function "trial", with the record's choices in it.
using MakeTrial = std::function<Trial(const ir::Module&, const ChoiceRecord&)>;

struct TunerOptions {
  ChoiceRecord given;           // made before, taken as they are
  bool time = true;             // false: the cost model decides what is not given
  std::string cache_directory;  // "": nothing can be kept, so nothing is timed
  std::string place;            // what a timing depends on besides the key
  MakeTrial make_trial;         // for the candidates of an ir::Choice
  /// The time to run the candidates of one choice, without compiling them. If it is too short, the cost
  /// model decides.
  double budget_seconds = 2;
  /// The time to run the candidates of all choices.
  double total_seconds = kTuningSeconds;
  /// Returns the time in seconds; empty: the steady clock.
  std::function<double()> clock = {};
  /// Makes the choices that programs leave once their ops are lowered; empty: none.
  std::function<void(const ir::Module&, const std::vector<std::string>& functions, Tuner&)> late_choices = {};
};

/// A choice, and a way to time its candidates. A library's algorithms are one: only the library lists them,
/// and it may refuse what was recorded elsewhere.
struct TimedChoice {
  std::string key;
  std::vector<std::string> candidates;  // one or more, the fastest by the cost model first
  std::vector<std::string> labels;      // names of the candidates in the record of their times
  /// Returns true if an earlier answer can still be taken. If not, the choice is made anew.
  std::function<bool(const std::string& answer)> accepts;
  std::function<std::vector<Racer>()> racers;
  double budget_seconds = 0;  // to run them; 0: nothing is timed
  /// True if the cost model's answer, when time ran out, is this machine's for good. If not, it is this
  /// process's, and the next one asks again.
  bool keep_untimed = true;
  /// Appends candidates and labels of a library that is opened for nothing else; called only before timing.
  /// If it adds none, the first candidate is taken.
  std::function<void(std::vector<std::string>& candidates, std::vector<std::string>& labels)> more = {};
  RaceLimits limits = {};  // besides the budget
};

/// Makes a choice whose candidates are timed in one module, with each in turn recorded as the answer.
/// `make_module` is called only if they are timed.
TimedChoice choice_by_trials(const std::string& key, const std::vector<std::string>& candidates,
                             const std::function<ir::Module()>& make_module, const MakeTrial& make_trial,
                             double budget_seconds);

class Tuner final : public ir::Chooser {
 public:
  explicit Tuner(TunerOptions options);

  /// Makes a choice. Throws UserError if a recorded answer is not a candidate.
  std::string choose(const ir::Choice& choice) override;
  std::string choose(const TimedChoice& choice);

  /// Returns true if the choice would be timed: timing is allowed, answers can be kept, and no answer that
  /// can be taken was recorded, given or kept.
  bool must_time(const TimedChoice& choice) const;
  /// True if an answer of an earlier run was given.
  bool is_given(std::string_view key) const { return options_.given.find(key) != nullptr; }
  /// True if an answer was given to any choice of a kind, the first word of its key.
  bool is_any_given(std::string_view kind) const;

  /// The given choices of the kind "tune", then the choices that were asked for, in order.
  const ChoiceRecord& record() const { return record_; }
  /// The number of choices whose candidates were run, here and now.
  int timed() const { return timed_; }
  /// The number of choices that the cost model decided for lack of time, before or after candidates were
  /// run; and the seconds of running candidates, without making them.
  int out_of_time() const { return out_of_time_; }
  double seconds() const { return seconds_; }
  /// Returns the limit that ended the timing of choices which have `own_seconds` together, for a message:
  /// "10 s", or "20 s for all choices".
  std::string limit_text(double own_seconds) const;
  /// The number of recorded answers that were not accepted.
  int refused() const { return refused_; }

  /// Makes the late choices of the options.
  void choose_late(const ir::Module& module, const std::vector<std::string>& functions);

 private:
  std::vector<Racer> racers(const ir::Choice& choice) const;
  MadeChoice make(const TimedChoice& choice);
  std::optional<MadeChoice> kept(const TimedChoice& choice) const;
  MadeChoice time(TimedChoice choice);
  void take_winner(const TimedChoice& choice, std::vector<Racer>& racing, MadeChoice& made) const;
  double now() const;

  TunerOptions options_;
  ChoiceCache cache_;
  ChoiceRecord record_;
  int timed_ = 0, out_of_time_ = 0, refused_ = 0;
  double seconds_ = 0;
};

/// Makes every choice in the programs of `module` and writes it there. Programs that are not in `functions`
/// are left to the cost model. Then makes the tuner's late choices, which are in its record alone: an engine
/// takes them from there.
void make_choices(ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner);

}  // namespace rewire::runtime
