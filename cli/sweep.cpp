// rewire sweep: trains a recipe with every combination of plugins, settings and seeds, and prints a table of
// the results.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/json.h"
#include "cli/log.h"
#include "cli/network.h"
#include "cli/progress.h"
#include "cli/slurm.h"
#include "cli/stop.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "ir/text_error.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/sweep/runner.h"

namespace rewire::cli {
namespace {

constexpr const char* kStoppingSweep = "rewire: stopping: what trains is saved; repeat to end at once\n";

struct SweepRequest {
  std::string sweep, out, only, slurm;
  std::int64_t jobs = 1;
  EngineRequest engine;
  std::vector<std::string> plugin_path;
  bool trust = false, json = false, plain = false;
};

void declare(SweepRequest& request, Options& options) {
  options
      .text("SWEEP", request.sweep, "the sweep (.toml): recipe, plugins, seeds, [settings]",
            Options::Need::required)
      .takes(Values::file, {".toml"});
  options.text("--out", request.out, "the folder of runs and tables, also to continue in (sweeps/SWEEP)")
      .takes(Values::folder);
  options.integer(
      "--jobs", request.jobs, 1,
      "how many runs train at once (1): each gets its share of the cores, and with --device cuda a GPU in "
      "turn");
  options.text("--only", request.only,
               "train only this run (NAME of runs/NAME), while other processes train others of the sweep");
  options
      .text("--slurm", request.slurm,
            "train nothing, but write a script for sbatch: a job array, one task a run")
      .takes(Values::file, {".sh"});
  declare_plugin_path(request.plugin_path, options);
  declare_trust(request.trust, options);
  declare_engine(request.engine, options);
  options.flag("--plain", request.plain, "print no moving line, even on a terminal");
  options.flag("--json", request.json, "print an object");
  options.example("rewire sweep examples/sweeps/fashion_strategies.toml",
                  "train what the sweep lists; the same command continues after a stop");
  options.example("rewire sweep examples/sweeps/tiny.toml --jobs 2",
                  "train two runs at a time, each on half of the cores");
  options.example("rewire sweep sweep.toml --slurm sweep.sh",
                  "write a job array; sbatch sweep.sh trains the runs");
  options.example("rewire sweep sweep.toml --out sweeps/second --json",
                  "use another folder and print the table as an object");
}

/// Returns words for a command line, with the option before each value.
std::vector<std::string> repeated(const std::string& option, const std::vector<std::string>& values) {
  std::vector<std::string> words;
  for (const std::string& value : values) words.insert(words.end(), {option, value});
  return words;
}

/// Resolves the run as `rewire train` will, so that every error appears before the first run begins.
runtime::SweepJob make_job(const SweepRequest& request, const runtime::Sweep& sweep, runtime::SweepRun run) {
  const runtime::NetworkRequest asked{sweep.recipe.text,   run.settings,  run.plugins->flags,
                                      request.plugin_path, request.trust, true};
  const auto resolved = [&](const runtime::NetworkRequest& network, const std::string& place) {
    try {
      runtime::Network result = runtime::resolve_network(network);
      runtime::rewritten_module(result, 1);
      runtime::check_reached(result.plugins, result.recipe.train.epochs);
      return result;
    } catch (const ir::TextError& error) {
      throw ir::TextError(fmt::format("{}: {}: {}", visible(place), visible(run.name), error.what()));
    } catch (const UserError& error) {
      user_error("{}: {}: {}", place, run.name, error.what());
    }
  };
  runtime::NetworkRequest plain = asked;  // an error that occurs without plugins is not caused by them
  plain.plugins = {"none"};
  resolved(plain, sweep.recipe.place);
  runtime::SweepJob job;
  const runtime::Network network =
      resolved(asked, run.plugins->flags.empty() ? sweep.recipe.place : run.plugins->place);
  job.recipe = runtime::to_toml(network.recipe);
  job.plugins = runtime::builds_of(network.plugins);
  job.network = {asked.model};
  for (const auto& words : {repeated("--set", asked.settings), repeated("--plugin", asked.plugins)})
    job.network.insert(job.network.end(), words.begin(), words.end());
  job.options = repeated("--plugin-path", asked.plugin_path);
  if (!request.engine.device.empty())
    job.options.insert(job.options.end(), {"--device", request.engine.device});
  if (!request.engine.engine.empty())
    job.options.insert(job.options.end(), {"--engine", request.engine.engine});
  if (request.trust) job.options.emplace_back("--trust");
  if (!logs_info()) job.options.emplace_back("--quiet");
  job.run = std::move(run);
  return job;
}

/// Prints the messages and results of the runs. On a
/// terminal, a moving line shows their steps, as in training.
class Report final : public runtime::SweepObserver {
 public:
  /// `several`: runs train at once, and each line says whose it is.
  Report(bool plain, bool several) : line_(!logs_info(), plain), several_(several) {}
  void begins(const runtime::SweepJob& job, std::size_t number, std::size_t count, bool resumes) override {
    if (several_) marks_[job.run.name] = fmt::format("[{}/{}] ", number, count);
    line_.line(fmt::format("[{}/{}] {}{}", number, count, job.run.name,
                           resumes ? ", from its last checkpoint" : ""));
  }
  void set_aside(const runtime::SweepJob& job, std::string_view why, std::string_view kept) override {
    line_.line(fmt::format("{} was made with another build of {}: kept as {}, trained again", job.run.name,
                           why, kept));
  }
  void says(const runtime::SweepJob& job, std::string_view text) override {
    const std::string& mark = marks_[job.run.name];
    while (!text.empty()) {
      const std::string_view one = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), one.size() + 1));
      if (line_.moves() && is_step_line(one)) {
        line_.moving(mark + std::string(one), true);
      } else {
        line_.line(mark + std::string(one));
      }
    }
  }
  void ended(const runtime::SweepJob& job, const runtime::RunRecord& record) override {
    if (record.status == runtime::RunRecord::Status::failed) {
      line_.line(fmt::format("{} failed: {}", job.run.name, record.error));
    } else {
      const std::string metrics = runtime::metrics_text(record.metrics);
      line_.line(fmt::format("{}: {}{}{}", job.run.name, metrics, metrics.empty() ? "" : ", ",
                             clock_text(record.wall_seconds)));
    }
  }

 private:
  MovingLine line_;
  bool several_;
  std::map<std::string, std::string> marks_;  // by the run's name
};

nlohmann::ordered_json to_json(const runtime::Statistic& statistic) {
  if (statistic.count == 0) return nullptr;
  nlohmann::ordered_json object = {{"mean", statistic.mean}};
  if (statistic.count > 1) object["std"] = statistic.deviation;
  return object;
}

nlohmann::ordered_json to_json(const runtime::Difference& difference) {
  nlohmann::ordered_json object = {{"pairs", difference.pairs}, {"mean", difference.mean}};
  if (difference.pairs > 1) object.update({{"low", difference.low}, {"high", difference.high}});
  return object;
}

void print_object(const std::string& folder, const runtime::SweepResult& result) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const runtime::SweepRow& row : result.rows) {
    nlohmann::ordered_json object = {{"plugins", row.label},
                                     {"settings", row.varied},
                                     {"finished", row.finished},
                                     {"failed", row.failed},
                                     {"left", row.left}};
    for (const auto& [name, statistic] : row.metrics) object[name] = to_json(statistic);
    object["test_loss"] = to_json(row.test_loss);
    object["train_loss"] = to_json(row.train_loss);
    object["samples_per_s"] = to_json(row.samples_per_s);
    object["peak_mb"] = to_json(row.peak_mb);
    object["wall_seconds"] = to_json(row.wall_seconds);
    if (!row.differences.empty()) {
      object["against"] = row.against;
      for (const auto& [name, difference] : row.differences)
        object["differences"][name] = to_json(difference);
    }
    rows.push_back(std::move(object));
  }
  const bool complete =
      std::ranges::all_of(result.rows, [](const runtime::SweepRow& row) { return row.left == 0; });
  print_json({{"sweep", folder},
              {"complete", complete},
              {"rows", std::move(rows)},
              {"mixed_data", result.mixed_data}});
}

/// Throws RuntimeFailure if a run of this process failed: with their number, and the first one's name and error.
void require_success(const std::vector<runtime::SweepJob>& jobs, const runtime::SweepResult& result,
                     const std::string& folder, std::optional<std::size_t> only) {
  std::vector<std::string> failed;
  std::string error;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::optional<runtime::RunRecord>& record = result.records[i];
    if ((only && *only != i) || !record || record->status != runtime::RunRecord::Status::failed) continue;
    if (failed.empty()) error = record->error;
    failed.push_back(jobs[i].run.name);
  }
  if (failed.empty()) return;
  throw RuntimeFailure(fmt::format("{} of {} runs failed; {}: {} ({}/runs.csv lists all)", failed.size(),
                                   only ? 1 : jobs.size(), failed.front(), error, folder));
}

std::size_t job_named(const std::string& name, const std::vector<runtime::SweepJob>& jobs) {
  std::vector<std::string> names;
  for (const runtime::SweepJob& job : jobs) names.push_back(job.run.name);
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    user_error("--only {}: the sweep has no such run{}", name, did_you_mean(name, names));
  return static_cast<std::size_t>(found - names.begin());
}

void write_slurm(const SweepRequest& request, const std::vector<runtime::SweepJob>& jobs,
                 const std::string& folder) {
  if (std::filesystem::exists(request.slurm)) user_error("--slurm {}: this file exists", request.slurm);
  SlurmArray array;
  array.sweep = request.sweep;
  std::filesystem::path place = std::filesystem::absolute(folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // DIR/
  array.name = place.filename().string();
  array.folder = place.string();
  for (const runtime::SweepJob& job : jobs) array.runs.push_back(job.run.name);
  array.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "sweep", request.sweep, "--out",
                   folder};
  for (const auto& words : {jobs.front().options, std::vector<std::string>{"--plain"}})
    array.command.insert(array.command.end(), words.begin(), words.end());
  runtime::make_folder(folder);  // sbatch writes there, and does not make it
  runtime::write_file_atomically(runtime::FilePlace::of_user(request.slurm), slurm_script(array));
  print("{}: a job array of {} runs; sbatch {} trains them in {}\n", request.slurm, jobs.size(),
        request.slurm, folder);
}

void run(const SweepRequest& request) {
  const bool writes_script = !request.slurm.empty();
  if (writes_script && (!request.only.empty() || request.jobs > 1 || request.json))
    user_error("--slurm only writes a script: drop --only, --jobs and --json");
  if (request.jobs > 1 && !request.engine.one_gpu().empty())
    user_error(
        "--device {}: of --jobs {} each takes a GPU in turn; write --device cuda, and choose the GPUs by "
        "CUDA_VISIBLE_DEVICES",
        request.engine.device, request.jobs);
  const std::string engine = writes_script ? engine_named(request.engine) : engine_of(request.engine);
  if (!request.only.empty() && request.jobs > 1) user_error("--only trains one run: drop it or --jobs");
  const runtime::Sweep sweep = runtime::read_sweep(request.sweep);
  std::vector<runtime::SweepJob> jobs;
  for (runtime::SweepRun& one : runtime::sweep_runs(sweep))
    jobs.push_back(make_job(request, sweep, std::move(one)));
  const std::string folder =
      request.out.empty() ? "sweeps/" + std::filesystem::path(request.sweep).stem().string() : request.out;
  if (writes_script) return write_slurm(request, jobs, folder);
  runtime::SweepOptions options;
  if (!request.only.empty()) options.only = job_named(request.only, jobs);
  const auto at_once = std::min<std::size_t>(static_cast<std::size_t>(request.jobs), jobs.size());
  options.places = runtime::divided_places(static_cast<int>(at_once), engine == runtime::kCudaEngine);
  listen_for_stop(logs_info() ? kStoppingSweep : nullptr);
  const runtime::SweepResult result = [&] {
    Report report(request.plain, at_once > 1);
    return runtime::run_sweep(jobs, folder, options, stop_signal, report);
  }();
  if (request.json) {
    print_object(folder, result);
  } else {
    write_stdout(runtime::text_table(result.rows));
    for (const std::string& line : result.mixed_data) print("data: {}\n", line);
    print("runs, tables as CSV, Markdown and LaTeX: {}\n", folder);
  }
  if (result.stopped_by != 0) {
    throw Stopped(result.stopped_by,
                  fmt::format("stopped by signal {}; the same command continues", result.stopped_by));
  }
  require_success(jobs, result, folder, options.only);
}

}  // namespace

Command sweep_command() {
  return make_command<SweepRequest>("sweep", "train all combinations of plugins, settings and seeds", declare,
                                    run);
}

}  // namespace rewire::cli
