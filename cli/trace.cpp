// rewire trace: prints values inside the network, forward and backward, to find where numbers go wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "cli/table.h"
#include "ir/error.h"
#include "programs/objective.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/network/data_feed.h"
#include "runtime/run/trained_network.h"
#include "runtime/trace/trace.h"
#include "runtime/verify/perturbed_state.h"

namespace rewire::cli {
namespace {

constexpr double kExpectTolerance = 1e-4;  // relative L2; f32 in another order stays far below

struct TraceRequest {
  runtime::NetworkRequest network;
  ProgramRequest program;
  std::string checkpoint, output, reference, expected;
  std::vector<std::string> patterns;
  std::int64_t batch = 2;
  double tolerance = kExpectTolerance;
  bool data = false, backward = false, json = false;
};

void declare(TraceRequest& request, Options& options) {
  options
      .text("MODEL", request.network.model,
            "a recipe (.toml), a module (.rir), a name of the zoo, or a run folder", Options::Need::required)
      .takes(Values::trained);
  declare_changes(request.network, options);
  options.list("--tensors", request.patterns,
               "a name or pattern: blocks.3.attn, 'blocks.*.attn.qkv', '*.weight'; :OP selects intermediate "
               "values of a place, 'blocks.0.attn:*'; by default the result of each place; repeatable");
  options.flag("--backward", request.backward, "also print the gradient of the loss for each of them");
  options.text("--output", request.output, "a folder to write their values to, as NAME.npy")
      .takes(Values::folder);
  std::vector<std::string> engines = runtime::engine_names();
  engines.emplace_back(runtime::kCudaEngine);
  options.choice(
      "--against", request.reference, engines,
      "the engine to compare with, to find the first that differs; evaluator uses double precision");
  options
      .text("--expect", request.expected,
            "a folder of expected NAME.npy, from --output or NumPy, to find the first that differs")
      .takes(Values::folder);
  options.number("--tolerance", request.tolerance, 0,
                 "for --expect: the largest relative error that is allowed, in the L2 norm");
  options
      .text("--weights", request.program.weights,
            "a safetensors file; by default the run's weights, or fresh ones as training begins with")
      .takes(Values::file, {".safetensors"});
  options
      .text("--checkpoint", request.checkpoint,
            "for a run: best, last or a checkpoint's name; the last by default")
      .takes(Values::checkpoint);
  options
      .list("--input", request.program.inputs,
            ".npy: NAME=FILE for each input of the training step; by default random, from the seed")
      .takes(Values::named_file, {".npy"});
  options
      .text("--labels", request.program.labels, ".npy: classes, i64 [batch]; the same as --input label=FILE")
      .takes(Values::file, {".npy"});
  options.flag("--data", request.data, "use the first batch of the recipe's data that training sees");
  options.integer("--batch", request.batch, 1, "images in a random batch, or in the batch of --data");
  declare_engine(request.program.engine, options);
  options.flag("--json", request.json, "print an object");
  options.example("rewire trace vit_tiny_28 --backward", "print what each place computes, and its gradients");
  options.example("rewire trace vit_tiny_28 --plugin orthogonal --against evaluator",
                  "find the first tensor that differs from double precision");
  options.example("rewire trace vit_tiny_28 --tensors 'blocks.0.attn:*' --output values",
                  "write all values at a place to files");
}

void check(const TraceRequest& request) {
  const bool has_files = !request.program.inputs.empty() || !request.program.labels.empty();
  if (has_files && request.data) user_error("trace: --data and --input cannot be combined: drop one");
  if (!request.reference.empty() && !request.expected.empty())
    user_error("trace: --against and --expect cannot be combined: drop one");
  if (!request.output.empty()) check_output_folder(request.output);
}

/// Returns the first training batch, with `batch` images.
runtime::TensorMap first_batch(const runtime::NetworkSource& source, runtime::Recipe recipe,
                               std::int64_t batch, const ir::Function& program) {
  recipe.train.shards = 1;
  if (runtime::takes_any_batch(source)) recipe.train.batch = batch;
  const runtime::DataFeed data(recipe, runtime::Split::train,
                               runtime::with_views(runtime::training_face(source, recipe.objective), recipe));
  runtime::Batch first;
  data.load()->next(first);
  return runtime::take_inputs(program, first);
}

runtime::TensorMap inputs_of(const TraceRequest& request, const runtime::NetworkSource& source,
                             const runtime::Recipe& recipe, const runtime::GivenInputs& given,
                             const ir::Module& module) {
  const ir::Function& program = module.function("trace");
  if (request.data) return first_batch(source, recipe, request.batch, program);
  if (given.empty())
    return runtime::random_arguments(module, program, static_cast<std::uint64_t>(recipe.seed));
  runtime::TensorMap inputs;
  for (const auto& [name, file] : given) {
    runtime::check_batch(module, program, name, file);
    inputs.emplace(name, file.tensor.clone());
  }
  return inputs;
}

/// The tensors to trace, and the job that computes them.
struct Plan {
  runtime::TraceJob job;
  std::vector<runtime::TracedTensor> all, wanted;
};

Plan make_plan(const TraceRequest& request, runtime::TrainedNetwork& subject) {
  const runtime::Network& network = subject.network;
  const runtime::NetworkSource source = runtime::network_source(network);
  const programs::Inputs wanted = training_inputs(network);
  runtime::GivenInputs given;
  std::int64_t batch = request.batch;
  if (!request.program.inputs.empty() || !request.program.labels.empty()) {
    given = read_inputs(request.program, names_of(wanted));
    batch = batch_of(given, wanted, false);
  }
  const auto objective = programs::make_objective(network.recipe.objective);
  Plan plan;
  runtime::TraceJob& job = plan.job;
  job.network = runtime::computed_forms(source, objective->forms(), batch, subject.epoch);
  job.options = runtime::train_options(network.recipe, 1);
  job.seed = static_cast<std::uint64_t>(network.recipe.seed);
  job.engine = [name = engine_of(request.program.engine)](const ir::Module& module) {
    return runtime::make_engine(name, module);
  };
  if (!request.reference.empty()) {
    runtime::require_engine(request.reference);
    job.reference = [name = request.reference](const ir::Module& module) {
      return runtime::make_engine(name, module);
    };
  }
  plan.all = runtime::traceable_tensors(job.network.function("forward"));
  plan.wanted = runtime::select_tensors(plan.all, request.patterns);
  const ir::Module module = runtime::trace_module(job, {}, false);
  job.inputs = inputs_of(request, source, network.recipe, given, module);
  job.weights = subject.weights.file.empty()
                    ? runtime::fresh_weights(module, network.plugins, job.seed, subject.epoch)
                    : runtime::read_trained_weights(subject, module);
  return plan;
}

std::string number(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.3e}", value);
}

std::string share(double value) {
  return value == 0 ? "-" : value < 0.0005 ? "<0.1 %" : fmt::format("{:.1f} %", 100 * value);
}

void print_rows(const runtime::Trace& trace, bool compares) {
  Table table(3);
  std::vector<std::string> head = {"tensor", "op", "type", "mean", "std", "min", "max", "zero", "not finite"};
  if (compares) head.insert(head.end(), {"error", "allowed", ""});
  table.add(std::move(head));
  for (const runtime::TraceRow& row : trace.rows) {
    const runtime::TraceStatistics& s = row.statistics;
    std::vector<std::string> line = {row.name,
                                     row.op,
                                     to_string(row.type),
                                     number(s.mean),
                                     number(s.deviation),
                                     number(s.minimum),
                                     number(s.maximum),
                                     share(s.zeros),
                                     share(s.non_finite)};
    if (row.difference) {
      line.push_back(fmt::format("{:.1e}", row.difference->error));
      line.push_back(fmt::format("{:.1e}", row.difference->tolerance));
      line.emplace_back(row.difference->differs() ? "WRONG" : "");
    } else if (compares) {
      line.insert(line.end(), {"", "", ""});
    }
    table.add(std::move(line));
  }
  table.print();
}

std::string sentence_of(const runtime::Trace& trace, const runtime::TraceRow& row) {
  const std::string why = runtime::explain_difference(trace, row);
  return fmt::format("the first tensor that differs is {} ({}): error {:.1e}, allowed {:.1e}{}", row.name,
                     row.op, row.difference->error, row.difference->tolerance, why.empty() ? "" : "; " + why);
}

void print_text(const runtime::Trace& trace, const std::optional<runtime::TracedWay>& way) {
  const bool compares = !trace.expected.empty();
  print_rows(trace, compares);
  if (!trace.non_finite.empty()) print("\n{}\n", trace.non_finite);
  if (!compares) return;
  const auto compared = std::ranges::count_if(
      trace.rows, [](const runtime::TraceRow& row) { return row.difference.has_value(); });
  if (runtime::first_difference(trace) == nullptr)
    return print("\nno difference in {} of {} tensors\n", compared, trace.rows.size());
  if (!way) return;
  print("\nops up to the first difference{}:\n", way->after.empty() ? "" : ", after " + way->after);
  print_rows(way->trace, true);
  const runtime::TraceRow* op = runtime::first_difference(way->trace);
  if (op == nullptr || op->op == "loss")
    return print("no op differs when each result is kept: the difference comes from fusion\n");
  print("{}\n", sentence_of(way->trace, *op));
}

nlohmann::ordered_json json_of(const runtime::Trace& trace) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const runtime::TraceRow& row : trace.rows) {
    const runtime::TraceStatistics& s = row.statistics;
    nlohmann::ordered_json object = {{"name", row.name}, {"op", row.op},       {"type", to_string(row.type)},
                                     {"mean", s.mean},   {"std", s.deviation}, {"min", s.minimum},
                                     {"max", s.maximum}, {"zeros", s.zeros},   {"non_finite", s.non_finite}};
    if (row.difference) {
      object["error"] = row.difference->error;
      object["tolerance"] = row.difference->tolerance;
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

void print_object(const runtime::Trace& trace, const std::optional<runtime::TracedWay>& way) {
  nlohmann::ordered_json object = {{"tensors", json_of(trace)}};
  object["first_non_finite"] =
      trace.non_finite.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(trace.non_finite);
  const runtime::TraceRow* wrong = runtime::first_difference(trace);
  object["first_difference"] =
      wrong == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(wrong->name);
  if (wrong != nullptr) object["explanation"] = runtime::explain_difference(trace, *wrong);
  if (way) object["ops"] = json_of(way->trace);
  print_json(object);
}

void run(const TraceRequest& request) {
  check(request);
  runtime::TrainedNetwork subject = runtime::find_trained(
      {request.network, request.program.weights, request.checkpoint}, runtime::Untrained::allowed);
  const Plan plan = make_plan(request, subject);
  runtime::Trace trace = runtime::trace_tensors(plan.job, plan.wanted, request.backward);
  if (!request.expected.empty()) runtime::expect_trace(trace, request.expected, request.tolerance);
  if (!request.output.empty()) runtime::write_trace(trace, request.output);
  const std::optional<runtime::TracedWay> way = runtime::trace_way_to_difference(plan.job, plan.all, trace);
  request.json ? print_object(trace, way) : print_text(trace, way);
  if (const runtime::TraceRow* wrong = runtime::first_difference(trace))
    throw RuntimeFailure(sentence_of(trace, *wrong));
}

}  // namespace

Command trace_command() {
  return make_command<TraceRequest>("trace", "print values inside the network and find the first wrong one",
                                    declare, run, "a smaller --batch, or fewer --tensors");
}

}  // namespace rewire::cli
