#include "runtime/sweep/runner.h"

#include <fmt/format.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/recipe/recipe.h"
#include "runtime/run/mixed_data.h"
#include "runtime/sweep/child.h"
#include "runtime/sweep/lock.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int kSignalled = 128;  // exit codes above it: stopped by the signal code - 128

/// "lr = 0.001" and "lr = 0.002": the first line in which two recipes differ.
std::string difference(std::string_view was, std::string_view is) {
  const auto line_at = [](std::string_view text, std::size_t at) {
    const std::size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    std::string_view line = text.substr(before == std::string_view::npos ? 0 : before + 1);
    line = line.substr(0, line.find('\n'));
    return std::string(line.empty() ? "nothing" : line);
  };
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(was, is).in1 - was.begin());
  return fmt::format("{} then, {} now", line_at(was, at), line_at(is, at));
}

/// "gain 1.2.3 (0123456789ab then, ba9876543210 now)": the first plugin that is not the same library.
std::string other_build(const std::vector<PluginBuild>& was, const std::vector<PluginBuild>& is) {
  constexpr std::size_t kDigits = 12;
  const auto [then, now] = std::ranges::mismatch(was, is);
  if (then == was.end() || now == is.end() || then->name != now->name) return "other plugins";
  return fmt::format("{} {} ({} then, {} now)", now->name, now->version, then->sha256.substr(0, kDigits),
                     now->sha256.substr(0, kDigits));
}

void move_if_there(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(from, error))) return;
  fs::rename(from, to, error);
  if (error) user_error("cannot move {} to {}: {}", from, to, error.message());
}

/// Returns a recipe in today's form, so that equal recipes have equal text. Keys that an earlier version did
/// not know get their defaults, keys without effect are left out, and a plugin's values are sorted.
std::string as_written_today(const std::string& recipe, const std::string& file) {
  return to_toml(parse_recipe(recipe, file, {}, RecipeOf::run));
}

class Runner {
 public:
  Runner(const std::vector<SweepJob>& jobs, const std::string& folder, const SweepOptions& options,
         const std::function<int()>& stop_signal, SweepObserver& observer)
      : jobs_(jobs), folder_(folder), options_(options), stop_signal_(stop_signal), observer_(observer) {
    for (const SweepJob& job : jobs) runs_.push_back(job.run);
    for (const char* part : {"runs", "records"}) make_folder(FilePlace::below(folder, part));
  }

  /// If an exception ends it: all that train save at the same time.
  ~Runner() {
    for (const auto& child : children_) child->pass_on(SIGTERM);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  SweepResult finish() {
    {
      const Others others = without_others();
      read_records();
      write_tables();
    }
    std::vector<std::size_t> places;  // that are free, the first one last
    for (std::size_t place = options_.places.size(); place-- > 0;) places.push_back(place);
    std::size_t next = 0;
    while (true) {
      for (; next < jobs_.size() && !places.empty() && result_.stopped_by == 0; ++next) {
        if (!is_to_train(next)) continue;
        result_.stopped_by = stop_signal_();
        if (result_.stopped_by != 0) break;
        begin(next, places.back());
        places.pop_back();
      }
      if (children_.empty()) {
        if (failed_tables_) throw UserError(*failed_tables_);
        return std::move(result_);
      }
      Child::read(children_);
      const int stopped_by = stop_signal_();
      for (std::size_t i = children_.size(); i-- > 0;) {
        if (stopped_by != 0) children_[i]->pass_on(stopped_by);
        if (!children_[i]->is_silent()) continue;
        const Training ended = trainings_[i];
        end(ended, children_[i]->outcome());
        children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
        trainings_.erase(trainings_.begin() + static_cast<std::ptrdiff_t>(i));
        places.push_back(ended.place);
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Others = std::optional<SweepLock>;

  /// A run that is being trained.
  struct Training {
    std::size_t job, place;
    Clock::time_point start;
  };

  /// With one run alone, keeps others away from the records and tables.
  Others without_others() const {
    return options_.only ? Others(SweepLock::of_tables(folder_)) : std::nullopt;
  }
  bool is_ours(std::size_t i) const { return !options_.only || *options_.only == i; }
  bool is_to_train(std::size_t i) const {
    const std::optional<RunRecord>& record = result_.records[i];
    return is_ours(i) && !(record && record->status == RunRecord::Status::finished);
  }

  std::string record_file(std::size_t i) const {
    return fmt::format("{}/records/{}.json", folder_, jobs_[i].run.name);
  }
  FilePlace place_of_record(std::size_t i) const {
    return FilePlace::below(folder_, fmt::format("records/{}.json", jobs_[i].run.name));
  }
  std::string run_folder(std::size_t i) const {
    return fmt::format("{}/runs/{}", folder_, jobs_[i].run.name);
  }

  /// Renames a run that an earlier Rewire trained under a name with more digits.
  void take_former_name(const SweepRun& run) {
    if (run.former_name == run.name) return;
    const auto run_of = [&](const std::string& name) { return fmt::format("{}/runs/{}", folder_, name); };
    const auto record_of = [&](const std::string& name) {
      return fmt::format("{}/records/{}.json", folder_, name);
    };
    std::error_code error;
    if (!fs::exists(record_of(run.former_name), error)) return;
    if (fs::exists(record_of(run.name), error)) {
      user_error(
          "{} holds this run twice, as {} and under its former name {}: remove one of the two, with its "
          "folder in runs",
          folder_, record_of(run.name), record_of(run.former_name));
    }
    // The record moves last. Until then, a later call finds it and repeats the move.
    move_if_there(run_of(run.former_name), run_of(run.name));
    move_if_there(record_of(run.former_name), record_of(run.name));
    write_log(LogLevel::info,
              fmt::format("{} was {}: numbers are now written with as few digits as they need",
                          run_of(run.name), run.former_name));
  }

  void read_records() {
    for (std::size_t i = 0; i < jobs_.size(); ++i)
      if (is_ours(i)) take_former_name(runs_[i]);
    result_.records.clear();
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      result_.records.push_back(read_record(place_of_record(i)));
      const std::optional<RunRecord>& record = result_.records.back();
      if (!record) continue;
      const std::string then = as_written_today(record->recipe, record_file(i));
      const std::string now = as_written_today(jobs_[i].recipe, "it");
      if (then != now) {
        user_error("{} holds a run of another recipe ({}): choose another --out, or remove {} and {}",
                   folder_, difference(then, now), record_file(i), run_folder(i));
      }
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const std::optional<RunRecord>& record = result_.records[i];
      if (!record || !record->plugins || *record->plugins == jobs_[i].plugins) continue;
      if (is_ours(i))
        set_aside(i);
      else
        result_.records[i].reset();  // its own process will set it aside
    }
  }

  /// Sets aside, but keeps, a run with another build of a plugin: numbers of two builds are not one sample.
  void set_aside(std::size_t i) {
    const std::string why = other_build(*result_.records[i]->plugins, jobs_[i].plugins);
    const std::string& name = jobs_[i].run.name;
    std::string kept;
    for (int number = 1; kept.empty() || fs::exists(folder_ + "/records/" + kept + ".json") ||
                         fs::exists(folder_ + "/runs/" + kept);
         ++number) {
      kept = fmt::format("{}.stale-{}", name, number);
    }
    // The record moves last. Until then, a later call finds it and repeats the move.
    move_if_there(run_folder(i), fmt::format("{}/runs/{}", folder_, kept));
    move_if_there(record_file(i), fmt::format("{}/records/{}.json", folder_, kept));
    result_.records[i].reset();
    observer_.set_aside(jobs_[i], why, kept);
  }

  void write_tables() {
    result_.rows = sweep_rows(runs_, result_.records);
    std::vector<std::string> finished;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const std::optional<RunRecord>& record = result_.records[i];
      if (record && record->status == RunRecord::Status::finished && fs::is_directory(run_folder(i)))
        finished.push_back(run_folder(i));
    }
    result_.mixed_data = mixed_data(finished);
    std::string notes;
    for (const std::string& line : result_.mixed_data) notes += fmt::format("\nData: {}.\n", line);
    write_file_atomically(FilePlace::below(folder_, "runs.csv"), csv_runs(runs_, result_.records));
    write_file_atomically(FilePlace::below(folder_, "table.csv"), csv_table(result_.rows));
    write_file_atomically(FilePlace::below(folder_, "table.md"), markdown_table(result_.rows) + notes);
    write_file_atomically(FilePlace::below(folder_, "table.tex"), latex_table(result_.rows));
  }

  void begin(std::size_t i, std::size_t place) {
    const SweepJob& job = jobs_[i];
    const std::string folder = run_folder(i);
    const bool resumes = is_file(FilePlace::below(folder, "recipe.toml"));
    // A start may have ended before it wrote its recipe.
    if (!resumes) remove_tree(FilePlace::below(folder_, "runs/" + job.run.name));

    std::vector<std::string> words = {"train"};
    if (resumes) {
      words.insert(words.end(), {"--resume", folder});
    } else {
      words.insert(words.end(), job.network.begin(), job.network.end());
      words.insert(words.end(), {"--out", folder});
    }
    words.insert(words.end(), job.options.begin(), job.options.end());
    words.emplace_back("--json");

    RunRecord record = result_.records[i].value_or(RunRecord{});
    record.recipe = job.recipe;
    record.plugins = job.plugins;
    record.status = RunRecord::Status::begun;
    write_record(place_of_record(i), record);
    result_.records[i] = std::move(record);
    observer_.begins(job, i + 1, jobs_.size(), resumes);
    children_.push_back(std::make_unique<Child>(
        words, options_.places[place], [this, &job](std::string_view text) { observer_.says(job, text); }));
    trainings_.push_back({.job = i, .place = place, .start = Clock::now()});
  }

  void end(const Training& training, const ChildOutcome& outcome) {
    const std::size_t i = training.job;
    RunRecord record = *result_.records[i];
    record.wall_seconds += std::chrono::duration<double>(Clock::now() - training.start).count();
    judge(record, outcome);
    write_record(place_of_record(i), record);
    result_.records[i] = record;
    try {
      const Others others = without_others();
      if (others) read_records();  // what they have trained meanwhile
      write_tables();
    } catch (const UserError& error) {
      if (!failed_tables_) failed_tables_ = error;  // the runs under way go on
    }
    if (record.status != RunRecord::Status::begun) observer_.ended(jobs_[i], record);
  }

  /// A run stopped by our signal stays `begun`. A run that ended in any other way has failed.
  void judge(RunRecord& record, const ChildOutcome& outcome) {
    const int stopped_by = stop_signal_();
    if (outcome.code == 0) {
      take_output(record, outcome.out);
    } else if (stopped_by != 0 && outcome.code == kSignalled + stopped_by) {
      result_.stopped_by = stopped_by;
    } else {
      record.status = RunRecord::Status::failed;
      record.error = !outcome.complaint.empty() ? outcome.complaint
                     : outcome.code > kSignalled
                         ? fmt::format("ended by signal {}", outcome.code - kSignalled)
                         : fmt::format("exit code {} and no message", outcome.code);
    }
  }

  /// Output that cannot be parsed (a loss that is no number, a truncated line)
  /// fails this run, not the sweep.
  static void take_output(RunRecord& record, const std::string& out) {
    try {
      read_train_output(record, out);
      record.status = RunRecord::Status::finished;
    } catch (const UserError& error) {
      record.status = RunRecord::Status::failed;
      record.error = error.what();
    }
  }

  const std::vector<SweepJob>& jobs_;
  const std::string& folder_;
  const SweepOptions& options_;
  const std::function<int()>& stop_signal_;
  SweepObserver& observer_;
  std::vector<SweepRun> runs_;
  SweepResult result_;
  std::vector<std::unique_ptr<Child>> children_;
  std::vector<Training> trainings_;  // as the children
  std::optional<UserError> failed_tables_;
};

}  // namespace

SweepResult run_sweep(const std::vector<SweepJob>& jobs, const std::string& folder,
                      const SweepOptions& options, const std::function<int()>& stop_signal,
                      SweepObserver& observer) {
  make_folder(folder);
  const SweepLock lock =
      options.only ? SweepLock::of_run(folder, jobs[*options.only].run.name) : SweepLock::whole(folder);
  return Runner(jobs, folder, options, stop_signal, observer).finish();
}

}  // namespace rewire::runtime
