#include "tests/parity/mean_squares.h"

#include <memory>

#include "programs/objective.h"
#include "programs/sums.h"

namespace rewire::parity {
namespace {

using ir::Builder;
using ir::Value;
using programs::NamedValues;

class MeanSquares final : public programs::Objective {
 public:
  programs::Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    programs::Inputs inputs;
    for (const ir::Argument& argument : forward.arguments)
      inputs.push_back({argument.name, forward.type(argument.value)});
    return inputs;
  }
  programs::Trained train(Builder& b, programs::Network& network, const NamedValues& inputs) const override {
    Value loss;
    for (const auto& [name, x] : network.call("forward", inputs)) {
      const Value mean = programs::mean_all(b, b.mul(x, x));
      loss = loss ? b.add(loss, mean) : mean;
    }
    return {loss, {}};
  }
  std::vector<programs::Measured> evaluate(Builder&, programs::Network&, const NamedValues&,
                                           Value) const override {
    return {};
  }
};

const programs::ObjectiveRow kMeanSquares{"mean_squares",
                                          "the mean square of each result",
                                          {{"loss", "loss", programs::Shown::number}},
                                          {},
                                          [](const ir::Attributes&) -> std::unique_ptr<programs::Objective> {
                                            return std::make_unique<MeanSquares>();
                                          }};

}  // namespace

ir::Selection mean_squares() {
  static const bool added = [] {
    programs::add_objective(kMeanSquares);
    return true;
  }();
  static_cast<void>(added);
  return {std::string(kMeanSquares.name)};
}

}  // namespace rewire::parity
