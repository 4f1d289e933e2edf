#include "tests/hostile/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/hostile/good.h"
#include "tests/hostile/judge.h"
#include "tests/hostile/steps.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// metrics.jsonl without what depends on the clock.
std::string timeless_metrics(const std::string& run) {
  std::istringstream text(read_bytes(run + "/metrics.jsonl"));
  std::string timeless;
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line, nullptr, false);
    if (json.is_object()) {
      json.erase("samples_per_s");
      json.erase("seconds");
    }
    timeless += json.is_discarded() ? "no JSON: " + line : json.dump();
    timeless += "\n";
  }
  return timeless;
}

std::string compare_run(const std::string& run, const std::string& other) {
  for (const std::string name : {"weights.safetensors", "checkpoints/0002-00000006/weights.safetensors",
                                 "checkpoints/0002-00000006/state.safetensors"}) {
    if (read_bytes(run + "/" + name) != read_bytes(other + "/" + name) ||
        read_bytes(run + "/" + name).empty())
      return name + " is another";
  }
  if (timeless_metrics(run) != timeless_metrics(other)) return "metrics.jsonl is another";
  return "";
}

std::string compare_training(const std::string& folder, const std::string& undisturbed) {
  return compare_run(folder + "/run", undisturbed + "/run");
}

std::string compare_sweep(const std::string& folder, const std::string& undisturbed) {
  for (const std::string run : {"none-s0", "none-s1"}) {
    const std::string path = "/out/runs/" + run + "/weights.safetensors";
    if (read_bytes(folder + path) != read_bytes(undisturbed + path)) return run + " has other weights";
    const Json record = Json::parse(read_bytes(folder + "/out/records/" + run + ".json"), nullptr, false);
    const Json sound = Json::parse(read_bytes(undisturbed + "/out/records/" + run + ".json"));
    if (!record.is_object()) return "the record of " + run + " is no JSON";
    for (const char* key : {"status", "top1", "test_loss"})
      if (record.value(key, Json()) != sound.at(key)) return fmt::format("the {} of {} is another", key, run);
  }
  return "";
}

std::string compare_output(const std::string& folder, const std::string& undisturbed) {
  return read_bytes(folder + "/out.npy") == read_bytes(undisturbed + "/out.npy") ? "" : "out.npy is another";
}

std::string compare_choices(const std::string& folder, const std::string&) {
  const Json json = Json::parse(read_bytes(folder + "/run/choices.json"), nullptr, false);
  std::size_t circulant = 0;  // a CPU may have other choices beside these
  if (json.is_object() && json.contains("choices"))
    for (const Json& choice : json["choices"])
      circulant += choice.at("key").get<std::string>().starts_with("circulant_matmul") ? 1 : 0;
  return circulant == 2 ? "" : "choices.json lacks the choices";
}

bool has_entry(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (!entry.path().filename().string().starts_with('.')) return true;
  return false;
}

/// A run of one epoch, to be gone on with for another.
std::string first_epoch() {
  static const TemporaryFolder folder;
  static const std::string made = [] {
    const Ended ended =
        run_process(Words{REWIRE_BINARY, "train"} + kModel + kTraining +
                        Words{"--set", "train.epochs=1", "--out", folder.file("run")},
                    {"XDG_CACHE_HOME=" + good().file("cache"), "XDG_DATA_HOME=" + good().file("home")},
                    folder.path().string(), {.seconds = 120});
    if (ended.code != 0) throw std::runtime_error(ended.err);
    return folder.path().string();
  }();
  return made;
}

/// A folder that holds a copy of `from` as cache/.
std::string with_cache(const TemporaryFolder& folder, const std::string& from, const std::string& without) {
  fs::copy(from, folder.file("cache"), fs::copy_options::recursive);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.file("cache/rewire")))
    if (entry.path().extension() == without) fs::remove(entry.path());
  return folder.path().string();
}

}  // namespace

std::vector<Scenario> scenarios() {
  static const TemporaryFolder kernels, choices;
  static const std::string no_kernels = with_cache(kernels, good().file("run_cache"), ".kernel"),
                           no_choices = with_cache(choices, good().file("cache"), ".choice");
  const Words train = Words{"train"} + kModel + kTraining + Words{"--out", "@/run"};
  const Words go_on = {"train", "--resume", "@/run", "--quiet"};
  Scenario training{"training", "", train, go_on, "run/recipe.toml", "run", "run/checkpoints"};
  training.compare = compare_training;
  Scenario resuming{"resuming",
                    first_epoch(),
                    go_on + Words{"--set", "train.epochs=2"},
                    go_on + Words{"--set", "train.epochs=2"},
                    "run/recipe.toml",
                    "run",
                    "run/checkpoints"};
  resuming.compare = compare_training;
  Scenario sweeping{"sweeping", "", {"sweep", good().file("sweep.toml"), "--out", "@/out", "--quiet"}};
  sweeping.compare = compare_sweep;
  sweeping.most_failures = 1;
  Scenario compiling{"caching kernels", no_kernels,
                     Words{"run"} + kModel +
                         Words{"--weights", good().file("w.safetensors"), "--input", good().file("x.npy"),
                               "--output", "@/out.npy", "--quiet"}};
  compiling.compare = compare_output;
  compiling.own_cache = true;
  Scenario choosing{"caching choices",
                    no_choices,
                    {"train", good().file("mixer.rir"), "--set", "data.format=synthetic", "--set",
                     "data.count=48", "--set", "train.epochs=1", "--quiet", "--out", "@/run"},
                    go_on,
                    "run/recipe.toml",
                    "run",
                    "run/checkpoints"};
  choosing.compare = compare_choices;
  choosing.own_cache = true;
  return {training, resuming, sweeping, compiling, choosing};
}

Words environment_in(const Scenario& scenario, const std::string& folder) {
  return {"XDG_CACHE_HOME=" + (scenario.own_cache ? folder + "/cache" : good().file("cache")),
          "XDG_DATA_HOME=" + good().file("home")};
}

Words command_in(const Words& words, const std::string& folder) {
  Words command = {REWIRE_BINARY};
  for (const std::string& word : words) command.push_back(in_folder(word, folder));
  return command;
}

void prepare(const Scenario& scenario, const std::string& folder) {
  if (scenario.prepared.empty()) {
    fs::create_directories(folder);
  } else {
    fs::copy(scenario.prepared, folder, fs::copy_options::recursive);
  }
}

std::string judge_end(const Ended& ended, int most_failures) {
  if (ended.hung) return "it did not end in time";
  if (ended.code == 0) return ended.err.empty() ? "" : "code 0 with the words " + ended.err;
  if (ended.code != 2 && ended.code != most_failures)
    return fmt::format("code {}: {}", ended.code, ended.err);
  if (!ended.err.starts_with("rewire: ") || std::ranges::count(ended.err, '\n') != 1)
    return fmt::format("code {} without one line: {}", ended.code, ended.err);
  return judge_text(std::string_view(ended.err).substr(0, ended.err.size() - 1));
}

std::string recover(const Scenario& scenario, const std::string& folder, const std::string& undisturbed) {
  constexpr int kAttempts = 3;
  std::string last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const bool begun = !scenario.resume.empty() && fs::exists(folder + "/" + scenario.begun);
    const Ended ended = run_process(command_in(begun ? scenario.resume : scenario.begin, folder),
                                    environment_in(scenario, folder), folder, {.seconds = 60});
    if (ended.code == 0) {
      const std::string difference = scenario.compare(folder, undisturbed);
      return difference.empty() ? "" : "gone on with, " + difference;
    }
    if (std::string fault = judge_end(ended, scenario.most_failures); !fault.empty())
      return "gone on with: " + fault;
    last = ended.err;
    if (scenario.worth.empty() || has_entry(folder + "/" + scenario.worth))
      return "not gone on with: " + last;
    fs::remove_all(folder + "/" + scenario.made);
  }
  return "begun anew three times: " + last;
}

bool takes_all() {
  const char* text = std::getenv("HOSTILE_ALL");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace rewire::test
