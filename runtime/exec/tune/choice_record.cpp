#include "runtime/exec/tune/choice_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "codegen/cuda/schedule.h"
#include "codegen/library/cublas_lt.h"
#include "codegen/library/cudnn.h"
#include "ir/error.h"
#include "ir/passes/choose_lowerings.h"
#include "runtime/exec/tune/tune_keys.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

void check(const MadeChoice& choice, const std::string& where) {
  const std::string kind = choice.key.substr(0, choice.key.find(' '));
  if (kind == kGemmChoice) {
    if (!codegen::is_algorithm_text(choice.taken))
      user_error("{}: '{}' is not a cuBLASLt algorithm, as '{}' needs", where, printable(choice.taken),
                 printable(choice.key));
    return;
  }
  if (kind == kFourierChoice) {
    if (!is_fourier_answer(choice.taken))
      user_error("{}: '{}' is neither product nor cuFFT and its version, as '{}' needs", where,
                 printable(choice.taken), printable(choice.key));
    return;
  }
  if (kind == kTileChoice) {
    if (!codegen::cuda::parse_schedule(choice.taken))
      user_error("{}: '{}' is not a kernel's schedule, as '{}' needs", where, printable(choice.taken),
                 printable(choice.key));
    return;
  }
  if (kind == kAttentionChoice) {
    if (choice.taken != kOwnKernels && !codegen::is_engine_text(choice.taken))
      user_error("{}: '{}' is neither '{}' nor a cuDNN engine, as '{}' needs", where, printable(choice.taken),
                 kOwnKernels, printable(choice.key));
    return;
  }
  if (kind == kConvolutionChoice) {
    if (!codegen::is_engine_text(choice.taken))
      user_error("{}: '{}' is not a cuDNN engine, as '{}' needs", where, printable(choice.taken),
                 printable(choice.key));
    return;
  }
  if (kind == kEpilogueChoice || kind == kProductChoice) {
    const std::string_view library = kind == kEpilogueChoice ? kCublasLtAnswer : kOneDnnAnswer;
    if (choice.taken != kOwnKernels && choice.taken != library)
      user_error("{}: '{}' is neither '{}' nor '{}', as '{}' needs", where, printable(choice.taken), library,
                 kOwnKernels, printable(choice.key));
    return;
  }
  if (kind == kTuneChoice) {
    parse_tune(
        fmt::format("{}={}", choice.key.substr(std::min(kind.size() + 1, choice.key.size())), choice.taken),
        where + ": tune");
    return;
  }
  const std::vector<std::string> candidates = ir::choice_candidates(kind);
  if (candidates.empty()) {
    std::vector<std::string> kinds = ir::choice_kinds();
    kinds.emplace_back(kGemmChoice);
    kinds.emplace_back(kFourierChoice);
    kinds.emplace_back(kTileChoice);
    kinds.emplace_back(kAttentionChoice);
    kinds.emplace_back(kConvolutionChoice);
    kinds.emplace_back(kEpilogueChoice);
    kinds.emplace_back(kProductChoice);
    kinds.emplace_back(kTuneChoice);
    user_error("{}: this Rewire has no choice '{}'{}", where, printable(choice.key),
               did_you_mean(kind, kinds));
  }
  if (std::ranges::find(candidates, choice.taken) == candidates.end()) {
    user_error("{}: '{}' is not one of {}, as '{}' needs{}", where, printable(choice.taken),
               fmt::join(candidates, ", "), printable(choice.key), did_you_mean(choice.taken, candidates));
  }
}

constexpr double kMostMilliseconds = 1e9;

MadeChoice choice_from_json(const JsonView& json) {
  json.only({"key", "taken", "by", "ms"});
  MadeChoice choice;
  choice.key = json.at("key").text();
  choice.taken = json.at("taken").text();
  const auto by = json.find("by");
  choice.by = by ? by->text() : std::string(kByModel);
  if (choice.by != kByTiming && choice.by != kByModel && choice.by != kByRequest)
    by->refuse(fmt::format("is none of {}, {} and {}", kByTiming, kByModel, kByRequest));
  if (const auto times = json.find("ms")) {
    for (const auto& [candidate, milliseconds] : times->members()) {
      const double time = milliseconds.number();
      if (time < 0 || time > kMostMilliseconds) milliseconds.refuse("is not a valid time of a candidate");
      choice.seconds.emplace_back(candidate, std::round(time * 1e6) / 1e9);
    }
  }
  return choice;
}

}  // namespace

bool is_fourier_answer(std::string_view text) {
  return text == kConstantsAnswer || text.starts_with(kCufftAnswer);
}

const MadeChoice* ChoiceRecord::find(std::string_view key) const {
  const auto it = std::ranges::find(made_, key, &MadeChoice::key);
  return it == made_.end() ? nullptr : &*it;
}

void ChoiceRecord::add(MadeChoice choice) {
  if (find(choice.key) == nullptr) made_.push_back(std::move(choice));
}

void ChoiceRecord::add(const ChoiceRecord& other) {
  for (const MadeChoice& choice : other.made_) add(choice);
}

Json to_json(const ChoiceRecord& record) {
  Json list = Json::array();
  for (const MadeChoice& choice : record.made()) {
    Json item = {{"key", choice.key}, {"taken", choice.taken}, {"by", choice.by}};
    for (const auto& [candidate, seconds] : choice.seconds)
      item["ms"][candidate] = std::round(seconds * 1e9) / 1e6;
    list.push_back(std::move(item));
  }
  return list;
}

ChoiceRecord record_from_json(const JsonView& list) {
  ChoiceRecord record;
  for (const JsonView& item : list.items()) {
    MadeChoice choice = choice_from_json(item);
    check(choice, list.file());
    if (record.find(choice.key) != nullptr)
      user_error("{}: '{}' appears twice", list.file(), printable(choice.key));
    record.add(std::move(choice));
  }
  return record;
}

ChoiceRecord read_choice_file(const std::string& file) {
  const Json json = read_json(FilePlace::of_user(file));
  const JsonView view(json, file);
  if (!view.is_object()) return record_from_json(view);
  const auto choices = view.find("choices");
  if (!choices)
    user_error("{} has no \"choices\": a run of `rewire train` writes them into its choices.json", file);
  return record_from_json(*choices);
}

}  // namespace rewire::runtime
