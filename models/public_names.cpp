#include "models/public_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/model.h"

namespace rewire::models {
namespace {

struct Size {
  std::string_view name;
  std::int64_t dim, depth, heads;
};
constexpr Size kSizes[] = {{"tiny", 192, 12, 3},  {"small", 384, 12, 6},   {"medium", 512, 12, 8},
                           {"base", 768, 12, 12}, {"large", 1024, 24, 16}, {"huge", 1280, 32, 16}};

struct OtherName {
  std::string_view theirs, ours;
};
constexpr OtherName kOtherNames[] = {{"mae_vit_base_patch16", "mae_vit_b16"},
                                     {"dino_vits16", "dino_vit_s16"},
                                     {"dino_vits8", "dino_vit_s8"},
                                     {"dino_vitb16", "dino_vit_b16"},
                                     {"dino_vitb8", "dino_vit_b8"}};

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('_'), name.size());
    words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

/// Returns the number after `prefix`, if it is the rest of the word.
std::optional<std::int64_t> number_behind(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return std::nullopt;
  word.remove_prefix(prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 1) return std::nullopt;
  return number;
}

/// Sets the options that a word after the size means in
/// timm's names. Returns false if the word is not known.
bool take_word(std::string_view word, ir::Attributes& options) {
  if (const auto patch = number_behind(word, "patch")) {
    options.set("patch", *patch);
  } else if (const auto image = number_behind(word, "")) {
    options.set("image", *image);
  } else if (word == "distilled") {
    options.set("distilled", true);
  } else if (word == "clip") {
    options.set("pre_norm", true);
    options.set("norm_eps", 1e-5);
  } else if (word == "quickgelu") {
    options.set("act_layer", std::string("quick_gelu"));
  } else if (word == "dinov2") {
    options.set("init_values", 1e-5);
    options.set("image", std::int64_t{518});
  } else {
    return false;
  }
  return true;
}

/// Returns the options of the family vit, or nothing if a word of the name is not known.
std::optional<ir::Attributes> timm_vit(const std::vector<std::string_view>& words) {
  if (words.size() < 3 || (words[0] != "vit" && words[0] != "deit" && words[0] != "deit3"))
    return std::nullopt;
  const auto* size = std::ranges::find(kSizes, words[1], &Size::name);
  if (size == std::end(kSizes)) return std::nullopt;
  ir::Attributes options = {{"dim", size->dim},           {"depth", size->depth},
                            {"heads", size->heads},       {"channels", std::int64_t{3}},
                            {"image", std::int64_t{224}}, {"classes", std::int64_t{1000}}};
  if (words[0] == "deit3") {
    options.set("init_values", 1e-6);
    options.set("no_embed_class", true);
  }
  for (std::size_t i = 2; i < words.size(); ++i)
    if (!take_word(words[i], options)) return std::nullopt;
  if (!options.has("patch")) return std::nullopt;
  return options;
}

/// Returns the settings that make `model` a network of its family with these options.
std::vector<std::string> settings_from(const Model& model, const ir::Attributes& options) {
  std::vector<std::string> settings;
  for (const ir::ParameterSpec& option : model.schema) {
    const ir::Attribute* wanted = options.find(option.name);
    const ir::ParameterSpec* of_family = ir::find_parameter(model.family->schema, option.name);
    const ir::Attribute& value = wanted != nullptr ? *wanted : of_family->default_value;
    if (option.default_value != value)
      settings.push_back(fmt::format("--set model.{}={}", option.name, ir::value_text(value)));
  }
  return settings;
}

}  // namespace

std::string zoo_network_of(std::string_view name) {
  name = name.substr(0, name.find('.'));
  const auto* other = std::ranges::find(kOtherNames, name, &OtherName::theirs);
  if (other != std::end(kOtherNames)) return std::string(other->ours);
  const std::vector<std::string_view> words = words_of(name);
  const std::optional<ir::Attributes> options = timm_vit(words);
  if (!options) return "";
  const Model* closest = nullptr;
  std::vector<std::string> fewest;
  for (const Model* model : models()) {
    if (model->family->name != "vit") continue;
    std::vector<std::string> settings = settings_from(*model, *options);
    // Among equally close models, the name that begins with the same word wins.
    const bool is_named_so = model->name.starts_with(words[0]);
    if (closest == nullptr || settings.size() < fewest.size() ||
        (settings.size() == fewest.size() && is_named_so && !closest->name.starts_with(words[0]))) {
      closest = model;
      fewest = std::move(settings);
    }
  }
  return fewest.empty() ? closest->name : fmt::format("{} with {}", closest->name, fmt::join(fewest, " "));
}

}  // namespace rewire::models
