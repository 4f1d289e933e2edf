// An observer that counts: what was compiled, and which step a run has done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"

namespace rewire::runtime {

class StepWatch : public TrainObserver {
 public:
  void started(const RunFacts&) override {}
  void compiling(const std::string& program) override { compiled.push_back(program); }
  void stepped(const TrainView& view) override { step = view.position.step; }
  void logged(const TrainView&) override {}
  void evaluating(std::int64_t, std::int64_t) override {}
  void epoch_done(const EpochReport&) override {}
  void replaying(const std::string&) override {}

  std::vector<std::string> compiled;
  std::int64_t step = 0;
};

}  // namespace rewire::runtime
