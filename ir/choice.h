// What only a clock can tell: which of a few equivalent ways is the fastest here. The IR (and whoever stands
// above it) asks; whoever owns a machine answers. Asked nobody, the cost model's favourite is taken, so that
// a program without a machine is a function of its text alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

struct Choice {
  /// What is chosen, in one line: the kind, then sizes and dtypes. Equal keys are one choice.
  std::string key;
  std::vector<std::string> candidates;  // two or more, by the cost model, the fastest first
  /// A module with the one function `trial`, in which this choice is made as given: what is to be timed.
  std::function<Module(const std::string& candidate)> trial;
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  /// One of the candidates; the same for the same key.
  virtual std::string choose(const Choice& choice) = 0;
};

}  // namespace rewire::ir
