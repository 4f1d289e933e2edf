#include "runtime/exec/tune/tune_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr TuneKey kTuneKeys[] = {
    {"group_ops", "the most ops of a kernel", 1, 100000},
    {"parts", "the most parts of a kernel's rows", 1, 65536},
    {"warps", "of a block, for kernels of a GPU that take the form of blocks and fit", 1, 32},
    {"candidates", "algorithms of cuBLASLt that are timed for a matrix product", 1, 256},
};

std::string tune_choice_key(std::string_view name) {
  return fmt::format("{} {}", kTuneChoice, name);
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::span<const TuneKey> tune_keys() {
  return kTuneKeys;
}

MadeChoice parse_tune(std::string_view text, std::string_view place) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto key = std::ranges::find(kTuneKeys, name, &TuneKey::name);
  if (equals == std::string_view::npos)
    user_error("{} {}: it takes KEY=VALUE, as group_ops=300", place, printable(text));
  if (key == std::end(kTuneKeys)) {
    std::vector<std::string> names;
    for (const TuneKey& known : kTuneKeys) names.emplace_back(known.name);
    user_error("{} {}: there is no key '{}'{}; choose from {}", place, printable(text), printable(name),
               did_you_mean(name, names), fmt::join(names, ", "));
  }
  const std::optional<std::int64_t> value = whole_number(text.substr(equals + 1));
  if (!value || *value < key->least || *value > key->most)
    user_error("{} {}: {} takes a whole number from {} to {}", place, printable(text), name, key->least,
               key->most);
  return {tune_choice_key(name), fmt::format("{}", *value), std::string(kByRequest), {}};
}

std::int64_t tuned(const ChoiceRecord& choices, std::string_view key, std::int64_t otherwise) {
  const MadeChoice* choice = choices.find(tune_choice_key(key));
  return choice == nullptr ? otherwise : whole_number(choice->taken).value_or(otherwise);
}

void tune(codegen::WorkGrain& grain, const ChoiceRecord& choices) {
  grain.group_ops = tuned(choices, "group_ops", grain.group_ops);
  grain.max_instances = tuned(choices, "parts", grain.max_instances);
}

std::string tune_text(const ChoiceRecord& choices) {
  std::string text;
  for (const TuneKey& key : kTuneKeys) {
    if (const MadeChoice* choice = choices.find(tune_choice_key(key.name)))
      text += fmt::format(", {}={}", key.name, choice->taken);
  }
  return text;
}

}  // namespace rewire::runtime
