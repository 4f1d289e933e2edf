// Training objectives. An objective adds to a program the IR that computes the loss of a batch and its
// metrics. Each objective is one file in objectives/ and one row in objectives.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/registry.h"
#include "programs/input.h"
#include "programs/metric.h"
#include "programs/schedule.h"

namespace rewire::programs {

using NamedValues = std::map<std::string, ir::Value, std::less<>>;

/// The weights that a call of the network reads. averages: the moving averages of train.ema. Such a call is
/// an evaluation: it has no dropout, no updates of statistics and no gradient.
enum class Reads : std::uint8_t { weights, averages };

/// The network, which an objective calls while it builds a program.
class Network {
 public:
  virtual ~Network() = default;
  /// Copies a function of the module to the end of the program, with arguments bound by name, and returns
  /// its results by name. Side results (ir/side_results.h) of the first call take effect. Each call draws
  /// its own random numbers. Throws UserError if an argument is not bound. Reads::averages requires
  /// reads_averages().
  virtual NamedValues call(std::string_view function, const NamedValues& arguments,
                           Reads reads = Reads::weights) = 0;
  /// Returns the number of updates that the run has done, i64[].
  virtual ir::Value updates() = 0;
  /// Returns the run's timeline. Outside a run it has no end.
  virtual const Timeline& timeline() const = 0;
};

struct Measured {
  Metric metric;
  ir::Value numerator;         // scalar
  ir::Value denominator = {};  // scalar; none: the constant Metric::count
};

struct Trained {
  /// The loss, a scalar: the mean over the batch. The terms that plugins add are added to it before
  /// differentiation. It is also the metric "loss".
  ir::Value loss;
  std::vector<Measured> metrics;  // the other metrics
  NamedValues next = {};          // the next values of the states(), by name
  /// f32[]: of how many terms the loss is the mean, if batches differ in that; else invalid. The batches of a step then
  /// count by it, so that they equal one batch of all their samples.
  ir::Value count = {};
};

/// A state that an objective keeps between steps, as the run's weight "objective.<name>".
struct Remembered {
  std::string name;
  ir::TensorType type;
  ir::Init init = {};
};

/// A weight that is kept fixed, with its optimizer states, in the first epochs of a run.
struct FrozenWeight {
  std::string weight;
  double epochs;
};

/// Images to show to the user, one per sample: f32[batch, channels, height, width], normalised as the
/// network's input is.
struct Picture {
  std::string name;
  ir::Value images;
};

/// The state of generated samples at a time between 0 (noise) and 1 (images).
struct SampleState {
  ir::Value image, time, label;  // f32[batch, …], f32[], i64[batch]
  /// Guidance scale, f32[]: v = v(none) + guidance (v(label) - v(none)), where v(none) is the velocity
  /// without a class. The network then takes twice the batch. If invalid, v = v(label).
  ir::Value guidance = {};
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// Returns the inputs of evaluation. Throws UserError if the network does not suit the objective.
  virtual Inputs inputs(const ir::Module& module) const = 0;
  /// Returns the network functions that train() calls, `forward` first. Evaluation calls only `forward`,
  /// with one image per sample.
  virtual std::vector<NetworkFunction> forms() const { return {{}}; }
  /// Returns the inputs of training. `module` has all functions of forms().
  virtual Inputs training_inputs(const ir::Module& module) const { return inputs(module); }
  /// Returns the states that the objective keeps. `module` has `forward`.
  virtual std::vector<Remembered> states(const ir::Module&) const { return {}; }
  /// Returns the weights that are kept fixed in the first epochs.
  virtual std::vector<FrozenWeight> frozen_weights(const ir::Module&) const { return {}; }
  /// Returns whether train() reads the averages of the weights. If so, they start equal to the weights, and
  /// the first update moves them as every later one does.
  virtual bool reads_averages() const { return false; }
  /// Adds the loss and the metrics of training to the program, from inputs by name.
  virtual Trained train(ir::Builder& builder, Network& network, const NamedValues& inputs) const = 0;
  /// Adds the metrics of evaluation to the program and returns them, the loss first. `weight` f32[batch] is
  /// 0 for a sample that only pads the batch, else 1.
  virtual std::vector<Measured> evaluate(ir::Builder& builder, Network& network, const NamedValues& inputs,
                                         ir::Value weight) const = 0;
  /// Returns the pictures of an evaluation's first batch, the original first; empty if the objective has
  /// none.
  virtual std::vector<Picture> pictures(ir::Builder&, Network&, const NamedValues& /*inputs*/) const {
    return {};
  }
  /// Returns d image / d time, for an objective whose row says that it samples. Throws UserError if guidance
  /// is requested and the network has no empty class.
  virtual ir::Value velocity(ir::Builder&, Network&, const SampleState& /*at*/) const { return {}; }
};

struct ObjectiveRow {
  std::string_view name, doc;
  /// The metrics of its programs. A name means the same metric in all objectives.
  std::vector<MetricInfo> metrics;
  ir::Schema schema;
  /// Makes the objective. `values` are complete: defaults are filled in. Throws UserError if they conflict.
  std::unique_ptr<Objective> (*make)(const ir::Attributes& values);
  bool has_pictures = false;  // it has pictures(), or draws samples
  bool samples = false;       // it has velocity()
  bool continues = false;     // it trains logits of the next token, so that texts can be drawn (generate.h)
};

std::span<const ObjectiveRow* const> objectives();
/// Adds an objective to the built-in ones, for tests. The row must live as long as the process.
void add_objective(const ObjectiveRow& row);

/// Return the weight's name "objective.<name>", and whether a name has this form.
std::string state_name(const Remembered& state);
bool is_remembered(std::string_view name);

/// Returns the info of the metric of this name, from any objective that has it; the name may have the
/// prefix kOfAverages. A metric of no objective (a plugin's report) has its name as title and is shown only
/// in files.
MetricInfo metric_info(std::string_view name);

/// Makes the selected objective. Throws UserError on an unknown name or a value out of range; the message
/// names the key.
std::unique_ptr<Objective> make_objective(const ir::Selection& selection);

}  // namespace rewire::programs
