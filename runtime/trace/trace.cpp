#include "runtime/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>

#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"
#include "runtime/measure/non_finite.h"
#include "runtime/network/weights.h"
#include "runtime/verify/engine_check.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTraceProgram = "trace";
/// A tensor smaller than this, relative to the largest of its kind, is compared by absolute error.
constexpr double kTraceFloor = 1e-6;
/// Largest relative remainder at which a difference is reported as a multiple of another tensor.
constexpr double kCollinear = 1e-3;

struct TracedResult {
  std::string row, op, result;  // names of the row and of the program's result
  bool is_gradient = false;
};

std::vector<TracedResult> results_of(const std::vector<TracedTensor>& tensors, const ir::Function& program) {
  std::vector<TracedResult> results;
  for (const TracedTensor& tensor : tensors)
    results.push_back({tensor.name, tensor.op, std::string(programs::kTracePrefix) + tensor.full});
  results.push_back({"loss", "loss", "loss"});
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    std::string result =
        fmt::format("{}{}{}", programs::kGradientPrefix, programs::kTracePrefix, tensor->full);
    if (program.result(result))
      results.push_back({tensor->name + ".grad", "gradient", std::move(result), true});
  }
  return results;
}

double trace_norm(const HostTensor& tensor) {
  double square = 0;
  for (const double value : to_double(tensor).data) {
    if (std::isfinite(value)) square += value * value;
  }
  return std::sqrt(square);
}

/// Returns the c for which c x is nearest to y; nullopt if it is not near or the element counts differ.
std::optional<double> multiple_of(const std::vector<double>& y, const std::vector<double>& x) {
  if (x.size() != y.size()) return std::nullopt;
  double xx = 0, xy = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += x[i] * x[i];
    xy += x[i] * y[i];
    yy += y[i] * y[i];
  }
  if (!(xx > 0) || !(yy > 0) || !std::isfinite(xx) || !std::isfinite(yy)) return std::nullopt;
  const double left = std::max(0.0, yy - xy * xy / xx);
  if (std::sqrt(left / yy) > kCollinear) return std::nullopt;
  return xy / xx;
}

}  // namespace

TraceStatistics trace_statistics(const HostTensor& tensor) {
  const std::vector<double> values = to_double(tensor).data;
  TraceStatistics s;
  double sum = 0, count = 0, zeros = 0;
  s.minimum = std::numeric_limits<double>::infinity();
  s.maximum = -s.minimum;
  for (const double value : values) {
    if (value == 0) ++zeros;
    if (!std::isfinite(value)) continue;
    ++count;
    sum += value;
    s.minimum = std::min(s.minimum, value);
    s.maximum = std::max(s.maximum, value);
  }
  s.mean = sum / count;
  double square = 0;
  for (const double value : values) {
    if (std::isfinite(value)) square += (value - s.mean) * (value - s.mean);
  }
  s.deviation = std::sqrt(square / count);
  const auto all = static_cast<double>(std::max<std::size_t>(values.size(), 1));
  s.zeros = zeros / all;
  s.non_finite = (static_cast<double>(values.size()) - count) / all;
  if (count == 0) s.minimum = s.maximum = std::numeric_limits<double>::quiet_NaN();
  return s;
}

ir::Module trace_module(const TraceJob& job, const std::vector<TracedTensor>& tensors, bool backward) {
  ir::Module module = job.network;
  ir::Function& forward = module.function("forward");
  for (const TracedTensor& tensor : tensors)
    forward.results.push_back({std::string(programs::kTracePrefix) + tensor.full, tensor.value});
  programs::add_trace_program(module, job.options, backward);
  ir::verify(module);
  return module;
}

Trace trace_tensors(const TraceJob& job, const std::vector<TracedTensor>& tensors, bool backward) {
  const ir::Module module = trace_module(job, tensors, backward);
  const TensorMap state = first_state(module, job.weights, job.seed);
  const std::unique_ptr<Engine> engine = job.engine(module);
  std::unique_ptr<Engine> reference;
  std::optional<EngineComparison> comparison;
  ProgramRuns runs;
  TensorMap inputs;
  for (const auto& [name, tensor] : job.inputs) inputs.emplace(name, tensor.clone());
  if (!job.reference) {
    for (const auto& [name, tensor] : state) engine->write_state(name, tensor);
    runs.actual = engine->run(kTraceProgram, inputs);
    runs.inputs = std::move(inputs);
  } else {
    reference = job.reference(module);
    comparison.emplace(*engine, *reference, module, state);
    runs = comparison->run(kTraceProgram, std::move(inputs));
  }

  Trace trace;
  const std::vector<TracedResult> results = results_of(tensors, module.function(kTraceProgram));
  double largest[2] = {0, 0};  // norms, forward and backward
  for (const TracedResult& result : results) {
    double& norm = largest[result.is_gradient ? 1 : 0];
    if (comparison) norm = std::max(norm, trace_norm(runs.expected.at(result.result)));
  }
  for (const TracedResult& result : results) {
    const HostTensor& actual = runs.actual.at(result.result);
    TraceRow row{result.row, result.op, actual.type(), trace_statistics(actual)};
    if (comparison) {
      const double floor = kTraceFloor * largest[result.is_gradient ? 1 : 0];
      const double fixed = result.is_gradient ? kEngineGradientTolerance : kEngineOutputTolerance;
      const EngineCheckRow checked = comparison->compare(result.result, runs, floor, fixed, true);
      row.difference = {checked.error, checked.tolerance};
    }
    trace.rows.push_back(std::move(row));
  }
  if (std::ranges::any_of(trace.rows, [](const TraceRow& row) { return row.statistics.non_finite > 0; }))
    trace.non_finite = first_non_finite(module, kTraceProgram, *engine, runs.inputs);
  for (const TracedResult& result : results) {
    trace.values.emplace(result.row, std::move(runs.actual.at(result.result)));
    if (comparison) trace.expected.emplace(result.row, std::move(runs.expected.at(result.result)));
  }
  return trace;
}

std::optional<TracedWay> trace_way_to_difference(const TraceJob& job, const std::vector<TracedTensor>& all,
                                                 const Trace& trace) {
  const TraceRow* wrong = first_difference(trace);
  if (wrong == nullptr || !job.reference || wrong->op == "gradient" || wrong->op == "loss")
    return std::nullopt;
  TracedWay way;
  for (const TraceRow* row = trace.rows.data(); row != wrong; ++row) {
    if (row->op != "param") way.after = row->name;
  }
  way.trace = trace_tensors(job, tensors_between(all, way.after, wrong->name), false);
  return way;
}

void write_trace(const Trace& trace, const std::string& folder) {
  const auto file = [&](const TraceRow& row) { return (fs::path(folder) / (row.name + ".npy")).string(); };
  for (const TraceRow& row : trace.rows) {
    if (row.name.find('/') != std::string::npos)
      user_error("--output {}: '{}' cannot be a file name: choose other tensors with --tensors", folder,
                 row.name);
    if (fs::exists(file(row)))
      user_error("--output {}: {} already exists: choose another folder", folder, file(row));
  }
  make_folder(folder);
  for (const TraceRow& row : trace.rows) write_npy(file(row), trace.values.at(row.name));
}

void expect_trace(Trace& trace, const std::string& folder, double tolerance) {
  if (!fs::is_directory(folder)) user_error("--expect {}: there is no such folder", folder);
  for (const TraceRow& row : trace.rows) {
    const std::string file = (fs::path(folder) / (row.name + ".npy")).string();
    if (row.name.find('/') == std::string::npos && fs::exists(file))
      trace.expected.emplace(row.name, read_npy(file));
  }
  if (trace.expected.empty()) {
    user_error("--expect {}: it has no file for any of these tensors, such as {}.npy", folder,
               trace.rows.front().name);
  }
  for (TraceRow& row : trace.rows) {
    const auto expected = trace.expected.find(row.name);
    if (expected != trace.expected.end())
      row.difference = {finite_error(trace.values.at(row.name), expected->second, 0), tolerance};
  }
}

const TraceRow* first_difference(const Trace& trace) {
  const auto row = std::ranges::find_if(
      trace.rows, [](const TraceRow& r) { return r.difference && r.difference->differs(); });
  return row == trace.rows.end() ? nullptr : &*row;
}

std::string explain_difference(const Trace& trace, const TraceRow& row) {
  const HostTensor& actual = trace.values.at(row.name);
  const HostTensor& expected = trace.expected.at(row.name);
  if (actual.type().shape != expected.type().shape)
    return fmt::format("it is {}, but {} is expected", to_string(actual.type()), to_string(expected.type()));
  const std::vector<double> x = to_double(actual).data;
  std::vector<double> difference = to_double(expected).data;
  const auto finite_in = [](const std::vector<double>& values) {
    return std::ranges::count_if(values, [](double value) { return std::isfinite(value); });
  };
  if (std::isinf(row.difference->error)) {
    return fmt::format("{} of its {} elements are finite, but {} of the expected ones", finite_in(x),
                       x.size(), finite_in(difference));
  }
  if (x.size() == 1) return {};  // a number is a multiple of any other
  if (const auto factor = multiple_of(x, difference))
    return fmt::format("it is {:.4g} x the expected value", *factor);
  for (std::size_t i = 0; i < x.size(); ++i) difference[i] = x[i] - difference[i];
  const auto at = std::ranges::find(trace.rows, row.name, &TraceRow::name);
  const auto is_of_same_way = [&](const TraceRow& other) {
    return (other.op == "gradient") == (row.op == "gradient");
  };
  // Tries the tensors before it, nearest first, then those after it. An error made in
  // between is a multiple of one.
  std::vector<const TraceRow*> others;
  for (auto other = at; other != trace.rows.begin();) others.push_back(&*--other);
  for (auto other = at + 1; other != trace.rows.end(); ++other) others.push_back(&*other);
  for (const TraceRow* other : others) {
    if (!is_of_same_way(*other) || (other->difference && other->difference->differs())) continue;
    if (other->type.elements() != row.type.elements()) continue;
    if (const auto factor = multiple_of(difference, to_double(trace.values.at(other->name)).data))
      return fmt::format("its difference is {:.4g} x {}", *factor, other->name);
  }
  return {};
}

}  // namespace rewire::runtime
