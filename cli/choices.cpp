#include "cli/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/exec/tune/tune_keys.h"

namespace rewire::cli {

void declare_choices(ChoiceRequest& request, Options& options) {
  options.text("--choices", request.file, "a run's choices.json: use its choices instead of timing them")
      .takes(Values::file, {".json"});
  options.flag("--no-autotune", request.no_autotune, "time nothing: use the cost model's choices");
}

void declare_tune(std::vector<std::string>& tune, Options& options) {
  std::string keys;
  for (const runtime::TuneKey& key : runtime::tune_keys())
    keys += fmt::format("{}{}: {}", keys.empty() ? "" : "; ", key.name, key.doc);
  options
      .list("--tune", tune,
            "KEY=VALUE: a number of the compiler, to compare variants; " + keys + "; repeatable")
      .takes([] {
        std::vector<Offer> offers;
        for (const runtime::TuneKey& key : runtime::tune_keys())
          offers.push_back({fmt::format("{}=", key.name), std::string(key.doc)});
        return offers;
      });
}

runtime::ChoiceOptions choice_options(const ChoiceRequest& request) {
  runtime::ChoiceOptions options;
  for (auto text = request.tune.rbegin(); text != request.tune.rend(); ++text)
    options.given.add(runtime::parse_tune(*text, "--tune"));
  if (!request.file.empty()) options.given.add(runtime::read_choice_file(request.file));
  options.autotune = !request.no_autotune;
  return options;
}

namespace {

/// Describes the choice for a product: the algorithm in words, without its bytes, and what it gained.
std::string describe_gemm(const runtime::MadeChoice& choice) {
  std::string text =
      fmt::format("{}: {}, by {}", choice.key, choice.taken.substr(0, choice.taken.rfind(": ")), choice.by);
  if (choice.seconds.empty()) return text;
  const auto& [label, least] =
      *std::ranges::min_element(choice.seconds, {}, &std::pair<std::string, double>::second);
  return text + fmt::format(" (the fastest of {} is {}, {:.4f} ms; {}: {:.4f} ms)", choice.seconds.size(),
                            label.substr(0, label.find(':')), least * 1e3,
                            choice.seconds[0].first.substr(0, choice.seconds[0].first.find(':')),
                            choice.seconds[0].second * 1e3);
}

/// Describes the choice of a kernel's schedule: the times of all schedules, the chosen one first.
std::string describe_schedule(const runtime::MadeChoice& choice) {
  std::string text = fmt::format("{}: {}, by {}", choice.key, choice.taken, choice.by);
  for (const auto& [schedule, seconds] : choice.seconds)
    text += fmt::format("\n{:9}   {:.4f} ms {}", "", seconds * 1e3, schedule);
  return text;
}

}  // namespace

std::string describe(const runtime::MadeChoice& choice) {
  if (choice.key.starts_with(runtime::kGemmChoice)) return describe_gemm(choice);
  if (choice.key.starts_with(runtime::kTileChoice)) return describe_schedule(choice);
  std::string text = fmt::format("{}: {}, by {}", choice.key, choice.taken, choice.by);
  for (std::size_t i = 0; i < choice.seconds.size(); ++i) {
    const auto& [candidate, seconds] = choice.seconds[i];
    text += fmt::format("{}{} {:.2f} ms", i == 0 ? " (" : ", ", candidate, seconds * 1e3);
  }
  return text + (choice.seconds.empty() ? "" : ")");
}

}  // namespace rewire::cli
