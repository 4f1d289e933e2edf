// Choices that need a measurement: which of several equivalent implementations is fastest here. The IR and
// the layers above it ask a Chooser, which the owner of a machine provides. Without one the cost model
// decides, so that a program without a machine is a function of its text alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

struct Choice {
  /// The choice in one line: the kind, then sizes and dtypes. Equal keys are one choice.
  std::string key;
  std::vector<std::string> candidates;  // two or more, the fastest first by the cost model
  /// Makes the module to be timed: its one function `trial` takes the given candidate.
  std::function<Module(const std::string& candidate)> trial;
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Returns one of the candidates, always the same for one key.
  virtual std::string choose(const Choice& choice) = 0;
};

}  // namespace rewire::ir
