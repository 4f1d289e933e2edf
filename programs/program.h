// A program under construction from a network's functions, for programs.cpp and step_program.cpp. Each
// program inlines its own copy of `forward`. So passes specialise it alone (is_training, dead code), and the
// runtime launches one straight line.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "programs/objective.h"
#include "programs/optimizer.h"
#include "programs/programs.h"

namespace rewire::programs {

/// A program under construction. The function joins the module only when it is done, because growing
/// Module::functions moves the others.
struct ProgramBuilder {
  ir::Module& module;
  ir::Function function;
  ir::Builder b;
  std::map<std::string, ir::Value, std::less<>> read;  // the one value that each parameter has here
  std::vector<ir::Argument> network_results;           // of the first call, as values of this program
  std::vector<ir::Argument> next;                      // next values of weights and states that do not train

  ProgramBuilder(ir::Module& target, std::string name)
      : module(target), function{std::move(name), {}, {}, {}, {}}, b(module, function) {}

  /// Returns the value of a module's parameter, which is read once.
  ir::Value param(std::string_view name);
  /// Writes a parameter; with `predicate` only if that is true.
  void update(std::string_view name, ir::Value value, ir::Value predicate = {});
  /// Adds the function to the module. `trains`: is_training is true in it.
  void finish(bool trains);
};

/// Options of copying a function into a program.
struct Inlining {
  bool trains = true;           // false: is_training is false in the copy
  std::string own_stream = {};  // suffix of the names of its random streams
};

/// Copies an op of `forward` to the end of the program. `renamed` maps value ids of forward to values of the
/// program; it must have the operands and receives the results.
void inline_op(ProgramBuilder& program, const ir::Function& forward, const ir::Op& op,
               std::vector<ir::Value>& renamed, const Inlining& how = {});

/// Returns averaged_parameters() as a set.
std::set<std::string, std::less<>> averaged_names(const ir::Module& module);
/// Reads the average of a weight. Adds the average to the module if it lacks it.
ir::Value read_average(ProgramBuilder& program, const std::string& weight);
/// Makes later reads of a weight in this program return its average.
void read_averages(ProgramBuilder& program);

/// Copies the network's functions into a program.
class InlinedNetwork : public Network {
 public:
  /// `has_averages`: whether a call may read averages.
  InlinedNetwork(ProgramBuilder& program, const Timeline& timeline, bool has_averages)
      : program_(program), timeline_(timeline), has_averages_(has_averages) {}

  /// Reads every `param` by ProgramBuilder::param, so that a weight has one value in the program.
  NamedValues call(std::string_view name, const NamedValues& arguments, Reads reads) override;
  ir::Value updates() override;
  const Timeline& timeline() const override { return timeline_; }

 private:
  ProgramBuilder& program_;
  const Timeline timeline_;
  const bool has_averages_;
  int calls_ = 0;
};

/// Returns the results of the inlined forward whose names begin with `prefix`, under their full names.
std::vector<ir::Argument> side_values(const ProgramBuilder& program, std::string_view prefix);

/// Adds the inputs as arguments of the program.
NamedValues feed(ProgramBuilder& program, const Inputs& wanted);

/// Adds the results that the metrics need, each once and as f32.
Metrics report(ProgramBuilder& program, const std::vector<Measured>& measured);

/// Adds the objective's states to the module, unless it has them.
void add_states(ir::Module& module, const Objective& objective);

struct Gradients {
  ir::Value loss;
  ir::Value count;  // Trained::count
  Metrics metrics;
  std::vector<Trainable> trainables;
  std::vector<ir::Argument> further;  // the results selected by `by`, each with its gradient
};
/// Emits the loss of the batch, its gradient by each of trained_parameters(module), and with `reports` the
/// metrics. If `by` is not empty, `further` has the gradients by each float result of forward whose name
/// begins with it.
Gradients differentiate_loss(ProgramBuilder& program, const TrainOptions& options, bool reports,
                             std::string_view by = "");

}  // namespace rewire::programs
