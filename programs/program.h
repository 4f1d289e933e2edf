// A program that is being built from a network's functions, as programs.cpp and step_program.cpp do. Each one inlines a copy of
// `forward`, so that passes specialise it alone (is_training, dead code) and the runtime launches one straight line.
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

/// A program under construction. The function joins the module when it is done, for growing
/// Module::functions moves the others.
struct Program {
  ir::Module& module;
  ir::Function function;
  ir::Builder b;
  std::map<std::string, ir::Value, std::less<>> read;  // the one value that each parameter has here
  std::vector<ir::Argument> network_results;           // of the first call, as values of this program
  std::vector<ir::Argument> next;  // of weights and states that do not train, by their names

  Program(ir::Module& target, std::string name)
      : module(target), function{std::move(name), {}, {}, {}, {}}, b(module, function) {}

  /// The value of a parameter of the module, read once.
  ir::Value param(std::string_view name);
  /// Writes a parameter, where `predicate` is given only if that is true.
  void update(std::string_view name, ir::Value value, ir::Value predicate = {});
  /// Adds the function to the module; `training`: and to its attribute of that name.
  void finish(bool training);
};

/// How a function is copied into a program.
struct Inlining {
  bool trains = true;           // else is_training is false in it, whatever the program does
  std::string own_stream = {};  // behind the names of its random streams
};

/// Copies an op of `forward` to the end of the program; `renamed` has the values of its operands by their ids
/// in forward, and gets those of its results.
void inline_op(Program& program, const ir::Function& forward, const ir::Op& op,
               std::vector<ir::Value>& renamed, const Inlining& how = {});

/// averaged_parameters(), to look names up in.
std::set<std::string, std::less<>> averaged_names(const ir::Module& module);
/// Reads the average of a weight, which is added to the module where it has not got it.
ir::Value read_average(Program& program, const std::string& weight);
/// What reads a weight in this program has its average.
void read_averages(Program& program);

/// The network's functions, copied into the program.
class InlinedNetwork : public Network {
 public:
  /// `has_averages`: whether a call may read them.
  InlinedNetwork(Program& program, const Timeline& timeline, bool has_averages)
      : program_(program), timeline_(timeline), has_averages_(has_averages) {}

  /// Every `param` reads through Program::param, so that a weight has one value however often it is read.
  NamedValues call(std::string_view name, const NamedValues& arguments, Reads reads) override;
  ir::Value updates() override;
  const Timeline& timeline() const override { return timeline_; }

 private:
  Program& program_;
  const Timeline timeline_;
  const bool has_averages_;
  int calls_ = 0;
};

/// The results of the inlined forward whose names begin so; the whole names stay.
std::vector<ir::Argument> side_values(const Program& program, std::string_view prefix);

/// The inputs as arguments of the program.
NamedValues feed(Program& program, const Inputs& wanted);

/// Names the results that the metrics need, each once and as f32.
Metrics report(Program& program, const std::vector<Measured>& measured);

/// What the objective remembers, added to the module where it has not got it.
void add_states(ir::Module& module, const Objective& objective);

struct Gradients {
  ir::Value loss;
  Metrics metrics;
  std::vector<Trainable> trainables;
  std::vector<ir::Argument> further;  // the names of `by`, each with the gradient
};
/// The loss of the batch, its gradient by each of trained_parameters(module), and the results that tell of
/// the batch. Further gradients: by each float result of forward whose name begins with `by`, unless that is "".
Gradients differentiate_loss(Program& program, const TrainOptions& options, bool reports,
                             std::string_view by = "");

}  // namespace rewire::programs
