// What a network is trained for. An objective makes of it, in IR, the loss of a batch and the numbers that
// tell how good it is. Each is one file under objectives/ and one row of objectives.cpp.
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

/// Which values of the weights a call of the network reads. `averages`: those of train.ema, in a network that does not
/// train: nothing is dropped out, and no gradient goes that way.
enum class Reads : std::uint8_t { weights, averages };

/// The network as a program that is being built may call it.
class Network {
 public:
  virtual ~Network() = default;
  /// Copies a function of the module to the end of the program, its arguments bound by their names: its
  /// results by theirs. What the results of the first call ask of a training step (ir/side_results.h) is done; each
  /// call draws random numbers of its own. UserError where it has an argument that is not bound; averages are there for
  /// who says so by reads_averages().
  virtual NamedValues call(std::string_view function, const NamedValues& arguments,
                           Reads reads = Reads::weights) = 0;
  /// i64[], the updates that the run has done.
  virtual ir::Value updates() = 0;
  /// The run's; without an end where the program is of none.
  virtual const Timeline& timeline() const = 0;
};

struct Measured {
  Metric metric;
  ir::Value numerator;         // scalar
  ir::Value denominator = {};  // scalar; none: Metric::count
};

struct Trained {
  /// Scalar, a mean over the batch: what is differentiated, with the terms that plugins add. It is the metric
  /// "loss" of every objective.
  ir::Value loss;
  std::vector<Measured> metrics;  // the others
  NamedValues next = {};          // of states(), by name
};

/// What an objective remembers between steps, as part of a run's weights: "objective.<name>".
struct Remembered {
  std::string name;
  ir::TensorType type;
  ir::Init init = {};
};

/// A weight that does not move, nor what the optimizer remembers of it, in a run's first epochs.
struct Held {
  std::string weight;
  double epochs;
};

/// Of each sample of a batch an image for people to look at, f32[batch, channels, height, width] in the numbers that
/// the network sees: transforms have normalised them.
struct Picture {
  std::string name;
  ir::Value images;
};

/// Where samples stand on their way from noise, at time 0, to images, at time 1.
struct SampleState {
  ir::Value image, time, label;  // f32[batch, …], f32[], i64[batch]
  /// f32[], how far the velocity of the label goes from that of no class: v = v(none) + guidance (v(label) - v(none)).
  /// The network is then of twice the batch. None: v(label).
  ir::Value guidance = {};
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// What a batch of the module's network holds in evaluation. UserError where the network is none for this objective.
  virtual Inputs inputs(const ir::Module& module) const = 0;
  /// The functions that train() calls, `forward` first; evaluation has that one alone, for one image a sample.
  virtual std::vector<Form> forms() const { return {{}}; }
  /// In training; `module` has forms().
  virtual Inputs training_inputs(const ir::Module& module) const { return inputs(module); }
  /// Of a module that has `forward`.
  virtual std::vector<Remembered> states(const ir::Module&) const { return {}; }
  virtual std::vector<Held> held(const ir::Module&) const { return {}; }
  /// Whether train() reads the weights' averages: they begin as the weights then, and the first update moves them as
  /// every other does.
  virtual bool reads_averages() const { return false; }
  virtual Trained train(ir::Builder& builder, Network& network, const NamedValues& inputs) const = 0;
  /// `weight` f32[batch] is 0 for a sample that only fills up the batch, else 1.
  /// The first is the loss.
  virtual std::vector<Measured> evaluate(ir::Builder& builder, Network& network, const NamedValues& inputs,
                                         ir::Value weight) const = 0;
  /// What an evaluation draws of its first batch, the original first; none: nothing is drawn.
  virtual std::vector<Picture> pictures(ir::Builder&, Network&, const NamedValues& /*inputs*/) const {
    return {};
  }
  /// d image / d time, by an objective whose row says that it samples. UserError where the network has no class
  /// that is none, and guidance is asked for.
  virtual ir::Value velocity(ir::Builder&, Network&, const SampleState& /*at*/) const { return {}; }
};

struct ObjectiveRow {
  std::string_view name, doc;
  /// Of what its programs tell. Objectives that share a name mean the same by it.
  std::vector<MetricInfo> metrics;
  ir::Schema schema;
  /// Of values that are settled. UserError where they do not go together.
  std::unique_ptr<Objective> (*make)(const ir::Attributes& values);
  bool has_pictures = false;  // of pictures(), or of samples
  bool samples = false;       // it has velocity()
};

std::span<const ObjectiveRow* const> objectives();
/// For an objective that is no resident, as tests have; the row must outlive the process.
void add_objective(const ObjectiveRow& row);

/// "objective.<name>"; and whether it is the name of what some objective remembers.
std::string state_name(const Remembered& state);
bool is_remembered(std::string_view name);

/// What some objective calls a metric of this name, or of this name behind kOfAverages; its bare name, for files
/// alone, where none has it: what plugins report.
MetricInfo metric_info(std::string_view name);

/// UserError naming the key: an unknown name, a value out of range.
std::unique_ptr<Objective> make_objective(const ir::Selection& selection);

}  // namespace rewire::programs
