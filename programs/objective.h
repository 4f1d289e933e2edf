// Objectives of training. An objective adds to a program, in IR, the loss of a batch and its metrics. Each
// is one file under objectives/ and one row of objectives.cpp.
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

/// The values of the weights in a call of the network. `averages` are those of train.ema: the call does not
/// train, drops nothing and carries no gradient.
enum class Reads : std::uint8_t { weights, averages };

/// The network, as a program under construction may call it.
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
  /// Returns the run's timeline; one without an end if the program belongs to no run.
  virtual const Timeline& timeline() const = 0;
};

struct Measured {
  Metric metric;
  ir::Value numerator;         // scalar
  ir::Value denominator = {};  // scalar; none: Metric::count
};

struct Trained {
  /// The loss, a scalar and mean over the batch. It is differentiated together with the terms of plugins,
  /// and is the metric "loss" of every objective.
  ir::Value loss;
  std::vector<Measured> metrics;  // the other metrics
  NamedValues next = {};          // next values of states(), by name
};

/// A state that an objective keeps between steps, as the run's weight "objective.<name>".
struct Remembered {
  std::string name;
  ir::TensorType type;
  ir::Init init = {};
};

/// A weight that stays fixed, with its optimizer states, in a run's first epochs.
struct FrozenWeight {
  std::string weight;
  double epochs;
};

/// Images for people to look at, one per sample: f32[batch, channels, height, width], in the normalised
/// numbers that the network reads.
struct Picture {
  std::string name;
  ir::Value images;
};

/// Samples on their way from noise, at time 0, to images, at time 1.
struct SampleState {
  ir::Value image, time, label;  // f32[batch, …], f32[], i64[batch]
  /// Guidance scale, f32[]: v = v(none) + guidance (v(label) - v(none)), where v(none) is the velocity
  /// without a class. The network then has twice the batch. Invalid: v(label).
  ir::Value guidance = {};
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// Returns the inputs of evaluation. Throws UserError if the network does not suit the objective.
  virtual Inputs inputs(const ir::Module& module) const = 0;
  /// Returns the functions that train() calls, `forward` first. Evaluation calls only that one, with one
  /// image per sample.
  virtual std::vector<NetworkFunction> forms() const { return {{}}; }
  /// Returns the inputs of training; `module` has all forms().
  virtual Inputs training_inputs(const ir::Module& module) const { return inputs(module); }
  /// Returns the states of a module that has `forward`.
  virtual std::vector<Remembered> states(const ir::Module&) const { return {}; }
  virtual std::vector<FrozenWeight> frozen_weights(const ir::Module&) const { return {}; }
  /// Returns whether train() reads the weights' averages. They then start as the weights, and the first
  /// update moves them like every other.
  virtual bool reads_averages() const { return false; }
  virtual Trained train(ir::Builder& builder, Network& network, const NamedValues& inputs) const = 0;
  /// Returns the metrics, the loss first. `weight` f32[batch] is 0 for a sample that pads the batch, else 1.
  virtual std::vector<Measured> evaluate(ir::Builder& builder, Network& network, const NamedValues& inputs,
                                         ir::Value weight) const = 0;
  /// Returns the pictures of an evaluation's first batch, the original first; none: it draws nothing.
  virtual std::vector<Picture> pictures(ir::Builder&, Network&, const NamedValues& /*inputs*/) const {
    return {};
  }
  /// Returns d image / d time, for an objective whose row says that it samples. Throws UserError if guidance
  /// is requested and the network has no empty class.
  virtual ir::Value velocity(ir::Builder&, Network&, const SampleState& /*at*/) const { return {}; }
};

struct ObjectiveRow {
  std::string_view name, doc;
  /// The metrics of its programs. Objectives that share a name mean the same metric.
  std::vector<MetricInfo> metrics;
  ir::Schema schema;
  /// Makes the objective of settled values. Throws UserError if they conflict.
  std::unique_ptr<Objective> (*make)(const ir::Attributes& values);
  bool has_pictures = false;  // it has pictures(), or draws samples
  bool samples = false;       // it has velocity()
};

std::span<const ObjectiveRow* const> objectives();
/// Adds an objective that is not a resident, for tests. The row must outlive the process.
void add_objective(const ObjectiveRow& row);

/// "objective.<name>", and whether a name is of that form.
std::string state_name(const Remembered& state);
bool is_remembered(std::string_view name);

/// Returns some objective's info of the metric of this name, also with the prefix kOfAverages. A metric that
/// none has (a plugin's report) keeps its bare name and is shown in files only.
MetricInfo metric_info(std::string_view name);

/// Makes the selected objective. Throws UserError, naming the key, on an unknown name or a value out of
/// range.
std::unique_ptr<Objective> make_objective(const ir::Selection& selection);

}  // namespace rewire::programs
