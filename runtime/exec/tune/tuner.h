// Makes choices, in this order: as they were recorded; as this machine's cache has them; by timing the
// candidates now, each in a program of its own, forward and gradients; or, where the clock may not decide, by
// the cost model. What it answered stands in its record.
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

/// A program that is ready to run: each call runs it once, and says the seconds that took.
using Trial = std::function<double()>;
/// Of a module's function "trial", with what the record chooses in it.
using MakeTrial = std::function<Trial(const ir::Module&, const ChoiceRecord&)>;

struct TunerOptions {
  ChoiceRecord given;           // made before: taken as they are
  bool time = true;             // false: what is not given is the cost model's
  std::string cache_directory;  // "": nothing can be kept, so that nothing is timed
  std::string place;            // what a timing depends on beside the key
  MakeTrial make_trial;         // of the candidates of an ir::Choice
  /// Of running the candidates of one choice; compiling them comes before. With too little of it the cost
  /// model decides.
  double budget_seconds = 2;
  /// Seconds that pass; empty: the steady clock.
  std::function<double()> clock = {};
  /// Asks whatever programs leave to choose once their ops are lowered; empty: nothing.
  std::function<void(const ir::Module&, const std::vector<std::string>& functions, Tuner&)> late_choices = {};
};

/// A choice, and how its candidates are timed. A library's algorithms are one: no list of them stands
/// anywhere but in the library, which may refuse what was recorded elsewhere.
struct TimedChoice {
  std::string key;
  std::vector<std::string> candidates;  // one or more, the fastest by the cost model first
  std::vector<std::string> labels;      // of the candidates, for the record of their times
  /// Whether an answer that was made before can still be taken. If not, the choice is made anew.
  std::function<bool(const std::string& answer)> accepts;
  std::function<std::vector<Racer>()> racers;
  double budget_seconds = 0;  // of running them; nothing is timed without
  /// Whether the cost model's answer, where the time was over, is this machine's for good. If not, it is this
  /// process's, and the next one asks again.
  bool keep_untimed = true;
  /// Appends candidates and labels, before the clock decides and not otherwise: those of a library that is
  /// opened for nothing else. Where it has none to add, the first candidate is taken.
  std::function<void(std::vector<std::string>& candidates, std::vector<std::string>& labels)> more = {};
};

/// The candidates of `key` timed in one and the same module, each recorded in it in turn. `make_module` is
/// called where they are timed, and not otherwise.
TimedChoice choice_by_trials(const std::string& key, const std::vector<std::string>& candidates,
                             const std::function<ir::Module()>& make_module, const MakeTrial& make_trial,
                             double budget_seconds);

class Tuner final : public ir::Chooser {
 public:
  explicit Tuner(TunerOptions options);

  /// UserError if a recorded answer is none of the candidates.
  std::string choose(const ir::Choice& choice) override;
  std::string choose(const TimedChoice& choice);

  /// Whether the clock would be asked: it is allowed to, answers can be kept, and none that can be taken was
  /// recorded, given or kept.
  bool must_time(const TimedChoice& choice) const;
  /// Whether an answer of an earlier run was given.
  bool is_given(std::string_view key) const { return options_.given.find(key) != nullptr; }
  /// To any question of a kind, the first word of its key.
  bool is_any_given(std::string_view kind) const;

  /// What was asked, in order.
  const ChoiceRecord& record() const { return record_; }
  /// For how many of them candidates were run, here and now.
  int timed() const { return timed_; }
  /// How many the cost model decided for want of time, before or after candidates were run; and the seconds
  /// that running candidates took: making them comes beside.
  int out_of_time() const { return out_of_time_; }
  double seconds() const { return seconds_; }
  /// How many recorded answers were not accepted.
  int refused() const { return refused_; }

  /// Asks the options' late choices.
  void choose_late(const ir::Module& module, const std::vector<std::string>& functions);

 private:
  std::vector<Racer> racers(const ir::Choice& choice) const;
  MadeChoice make(const TimedChoice& choice);
  std::optional<MadeChoice> kept(const TimedChoice& choice) const;
  MadeChoice time(TimedChoice choice);
  double now() const;

  TunerOptions options_;
  ChoiceCache cache_;
  ChoiceRecord record_;
  int timed_ = 0, out_of_time_ = 0, refused_ = 0;
  double seconds_ = 0;
};

/// Every choice in the programs of `module`, put into it: no engine then has one left to make. The cost
/// model's for programs that are not in `functions`. Then the tuner's late choices, which stand in its record
/// alone: an engine takes them from there.
void make_choices(ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner);

}  // namespace rewire::runtime
