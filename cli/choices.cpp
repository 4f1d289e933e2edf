#include "cli/choices.h"

#include <fmt/format.h>

namespace rewire::cli {

void declare_choices(ChoiceRequest& request, Options& options) {
  options.text("--choices", request.file,
               "a run's choices.json: what it names is taken from it instead of being timed");
  options.flag("--no-autotune", request.no_autotune,
               "time nothing: where there are several ways, the cost model's");
}

runtime::ChoiceOptions choice_options(const ChoiceRequest& request) {
  runtime::ChoiceOptions options;
  if (!request.file.empty()) options.given = runtime::read_choice_file(request.file);
  options.autotune = !request.no_autotune;
  return options;
}

std::string describe(const runtime::MadeChoice& choice) {
  std::string text = fmt::format("{}: {}, by {}", choice.key, choice.taken, choice.by);
  for (std::size_t i = 0; i < choice.seconds.size(); ++i) {
    const auto& [candidate, seconds] = choice.seconds[i];
    text += fmt::format("{}{} {:.2f} ms", i == 0 ? " (" : ", ", candidate, seconds * 1e3);
  }
  return text + (choice.seconds.empty() ? "" : ")");
}

}  // namespace rewire::cli
