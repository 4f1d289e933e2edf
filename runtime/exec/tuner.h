// Makes choices, in this order: as they were recorded; as this machine's cache has them; by timing the
// candidates now, on an engine of their own, forward and gradients; or, where the clock may not decide, by
// the cost model. What it answered stands in its record.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ir/choice.h"
#include "runtime/exec/choice_cache.h"
#include "runtime/exec/choice_record.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

struct TunerOptions {
  ChoiceRecord given;           // made before: taken as they are
  bool time = true;             // false: what is not given is the cost model's
  std::string cache_directory;  // "": nothing can be kept, so that nothing is timed
  std::string place;            // what a timing depends on beside the key
  std::function<std::unique_ptr<Engine>(const ir::Module&)> make_engine;
  /// Of running the candidates of one choice; compiling them comes before. With too little of it the cost
  /// model decides.
  double budget_seconds = 2;
  /// Seconds that pass; empty: the steady clock.
  std::function<double()> clock = {};
  /// Runs function "trial" and says what it took; empty: the clock before and after. For a device, whose runs
  /// spend more on copies to and from the host than on the candidate.
  std::function<double(Engine&, const TensorMap& inputs)> measure = {};
};

class Tuner final : public ir::Chooser {
 public:
  explicit Tuner(TunerOptions options);

  /// UserError if a recorded answer is none of the candidates.
  std::string choose(const ir::Choice& choice) override;

  /// What was asked, in order.
  const ChoiceRecord& record() const { return record_; }
  /// How many of them the clock decided, here and now.
  int timed() const { return timed_; }

 private:
  MadeChoice make(const ir::Choice& choice);
  MadeChoice time(const ir::Choice& choice);
  double now() const;

  TunerOptions options_;
  ChoiceCache cache_;
  ChoiceRecord record_;
  int timed_ = 0;
};

/// Every choice in the programs of `module`, put into it: no engine then has one left to make. The cost
/// model's for programs that are not in `functions`.
void make_choices(ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner);

}  // namespace rewire::runtime
