#include "runtime/network/weights_hint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "programs/objective.h"
#include "runtime/network/position_grid.h"

namespace rewire::runtime {
namespace {

/// How a file's weights differ from a module's.
struct Difference {
  std::size_t missing = 0, misshapen = 0, extra = 0;
  std::size_t head = 0;       // weights that train.new_head starts fresh or leaves out
  std::size_t positions = 0;  // position embeddings of another grid

  std::size_t all() const { return missing + misshapen + extra + head + positions; }
  bool only_shapes() const { return missing + extra + head == 0; }
};

bool is_other_grid(const ir::Module& module, const ir::Parameter& parameter, const ir::Shape& given) {
  const ir::Shape& wanted = parameter.type.shape;
  return parameter.role == "pos_embed" && wanted.size() == 3 && given.size() == 3 && given[0] == 1 &&
         given[2] == wanted[2] && position_grids(module, wanted[2], given[1], wanted[1]).has_value();
}

Difference difference(const WeightShapes& shapes, const ir::Module& module) {
  Difference found;
  std::size_t there = 0;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.is_weight() || programs::is_remembered(parameter.name)) continue;
    const auto given = shapes.find(parameter.name);
    if (given == shapes.end()) {
      ++(starts_with_head(module, parameter) ? found.head : found.missing);
      continue;
    }
    ++there;
    const ir::Shape& wanted = parameter.type.shape;
    const bool same_rank = given->second.size() == wanted.size();
    const std::ptrdiff_t begin = is_head(parameter) && !wanted.empty() ? 1 : 0;  // without the class count
    if (!same_rank || !std::equal(wanted.begin() + begin, wanted.end(), given->second.begin() + begin))
      ++(is_other_grid(module, parameter, given->second) ? found.positions : found.misshapen);
  }
  found.extra = shapes.size() - there;
  if (const std::size_t replaced = replaced_norms(module, shapes).size(); replaced > 0 && found.head > 0) {
    found.extra -= replaced;
    found.head += replaced;
  }
  return found;
}

/// A model with options, and the difference that remains.
struct Choice {
  std::vector<std::string> settings;  // "model.form=timm"
  ir::Selection selection;
  std::optional<ir::Module> module;  // none: the options exclude each other
  Difference left;
};

Choice try_choice(Choice base, const WeightShapes& shapes) {
  try {
    base.module = models::build(base.selection, 1);
    base.left = difference(shapes, *base.module);
  } catch (const UserError&) {
    base.module.reset();
  }
  return base;
}

/// Returns other values for an option: another word, the opposite boolean, or, where 0 means none, a number
/// that the file's other tensors suggest.
std::vector<ir::Attribute> other_values(const ir::ParameterSpec& option, const ir::Module& module,
                                        const WeightShapes& shapes) {
  const ir::Attribute* now = module.attributes.find(option.name);
  if (now == nullptr) return {};
  constexpr std::size_t kMostExtents = 8;
  constexpr double kSmall = 1e-5;  // a layer scale's start value, which a file replaces
  std::vector<ir::Attribute> values;
  if (option.kind == ir::ParameterKind::choice) values.assign(option.values.begin(), option.values.end());
  if (option.kind == ir::ParameterKind::boolean) values.emplace_back(*now != ir::Attribute(true));
  if (option.kind == ir::ParameterKind::number && *now == ir::Attribute(0.0)) values.emplace_back(kSmall);
  if (option.kind == ir::ParameterKind::integer && *now == ir::Attribute(std::int64_t{0})) {
    std::set<std::int64_t> extents;
    for (const auto& [name, shape] : shapes) {
      if (module.find_parameter(name) == nullptr) extents.insert(shape.begin(), shape.end());
    }
    for (const std::int64_t extent : extents) {
      if (values.size() < kMostExtents) values.emplace_back(extent);
    }
  }
  std::erase(values, *now);
  return values;
}

/// Whether the weights that train.new_head handles count towards a choice's distance.
enum class Head : std::uint8_t { counts, is_new };

/// Returns the choice closest to the file. Changes at most `rounds` options, each
/// of which must bring it closer.
Choice closest_choice(const models::Model& model, const ir::Selection& base, const WeightShapes& shapes,
                      int rounds, Head head = Head::counts) {
  const auto distance = [&](const Choice& choice) {
    return choice.left.all() - (head == Head::is_new ? choice.left.head : 0);
  };
  Choice best = try_choice({{}, base, std::nullopt, {}}, shapes);
  for (int round = 0; round < rounds && best.module && distance(best) > 0; ++round) {
    Choice closer = best;
    const auto is_set = [&](const std::string& option) {
      return std::ranges::any_of(best.settings, [&](const std::string& setting) {
        return setting.starts_with(fmt::format("model.{}=", option));
      });
    };
    for (const ir::ParameterSpec& option : model.schema) {
      if (is_set(option.name)) continue;
      for (const ir::Attribute& value : other_values(option, *best.module, shapes)) {
        Choice next = best;
        const auto set = [&](const std::string& name, const ir::Attribute& to) {
          next.selection.set(name, to);
          next.settings.push_back(fmt::format("model.{}={}", name, ir::value_text(to)));
        };
        // timm and MAE put a norm after the pooling if they average. Names alone would allow
        // it after a token too.
        if (option.name == "fc_norm" && ir::find_parameter(model.schema, "pool") != nullptr &&
            value == ir::Attribute(true))
          set("pool", std::string("avg"));
        set(option.name, value);
        next = try_choice(std::move(next), shapes);
        if (next.module && distance(next) < distance(closer)) closer = std::move(next);
      }
    }
    if (closer.settings.size() == best.settings.size()) break;
    best = std::move(closer);
  }
  return best;
}

/// Returns the settings, with model.classes if the file's head has another number of classes.
std::vector<std::string> with_classes(Choice choice, const WeightShapes& shapes) {
  const auto head = std::ranges::find_if(choice.module->parameters, is_head);
  if (head != choice.module->parameters.end()) {
    const auto given = shapes.find(head->name);
    if (given != shapes.end() && given->second.at(0) != head->type.shape.at(0))
      choice.settings.push_back(fmt::format("model.classes={}", given->second.at(0)));
  }
  return choice.settings;
}

std::string has_them(const std::string& model, const Choice& choice, const WeightShapes& shapes) {
  const std::vector<std::string> settings = with_classes(choice, shapes);
  const std::string_view with = model.empty() || settings.empty() ? "" : " with ";
  return fmt::format("; {}{}{} matches its weights", model, with, fmt::join(settings, ", "));
}

/// Returns the keys with which the choice's network can load the file's weights; "" if there are none.
std::string keys_that_take(const Choice& choice, const TrainKeys& given) {
  if (choice.left.missing + choice.left.misshapen > 0) return "";
  if (choice.left.extra > 0 && !given.heeded) return "";
  std::vector<std::string> keys = choice.settings;
  if (choice.left.head > 0 && !given.new_head) keys.emplace_back("train.new_head=true");
  if (choice.left.extra > 0 && !given.further) keys.emplace_back("train.extra_weights=ignore");
  if (keys.empty()) return "";
  return fmt::format("; {} {}", fmt::join(keys, ", "),
                     choice.left.extra == 0 && choice.left.head > 0 ? "starts a new head"
                                                                    : "loads the part that the network has");
}

/// Returns a hint at another model of the zoo that matches with at most one changed option; "" if none does.
std::string other_model(const WeightShapes& shapes) {
  for (const models::Model* other : models::models()) {
    if (other->values.empty() && !other->family->variants.empty()) continue;  // its variants are tried
    const Choice choice = closest_choice(*other, {other->name}, shapes, 1);
    if (choice.module && choice.left.all() == 0) return has_them("the model " + other->name, choice, shapes);
  }
  return "";
}

struct Origin {
  std::string_view in_names, told;
};
constexpr Origin kOrigins[] = {
    {"vision_model.encoder.layers.", "of Hugging Face's CLIP (model.norm_eps=1e-5)"},
    {"visual.transformer.resblocks.", "of OpenAI's CLIP (model.norm_eps=1e-5, model.act_layer=quick_gelu)"},
    {"encoder.layers.encoder_layer_", "of torchvision's ViT"},
    {"encoder.layer.0.attention.attention.", "of Hugging Face's ViT (model.norm_eps=1e-12)"}};

std::string foreign_origin(const WeightShapes& shapes) {
  for (const Origin& origin : kOrigins) {
    for (const auto& [name, shape] : shapes) {
      if (name.find(origin.in_names) != std::string::npos)
        return fmt::format("; its names are those {}: use timm's file of this network", origin.told);
    }
  }
  return "";
}

}  // namespace

const models::Model* zoo_model_of(const ir::Module& module) {
  const auto all = models::models();
  const auto model = std::ranges::find(all, module.name, &models::Model::name);
  if (model == all.end()) return nullptr;
  const bool is_whole = std::ranges::all_of(
      (*model)->schema, [&](const ir::ParameterSpec& option) { return module.attributes.has(option.name); });
  return is_whole ? *model : nullptr;
}

bool is_head(const ir::Parameter& parameter) {
  return parameter.role == "head";
}

bool starts_with_head(const ir::Module& module, const ir::Parameter& parameter) {
  if (is_head(parameter)) return true;
  if (parameter.layer < 0 || parameter.block >= 0) return false;
  const auto head = std::ranges::find_if(module.parameters, is_head);
  return head != module.parameters.end() && head->layer == parameter.layer;
}

std::vector<std::string> replaced_norms(const ir::Module& module, const WeightShapes& shapes) {
  const ir::Parameter* behind = module.find_parameter("fc_norm.weight");
  if (behind == nullptr || !starts_with_head(module, *behind)) return {};
  std::vector<std::string> names;
  for (const char* name : {"norm.weight", "norm.bias"}) {
    if (shapes.contains(name) && module.find_parameter(name) == nullptr) names.emplace_back(name);
  }
  return names;
}

std::string weights_hint(const ir::Module& module, const WeightShapes& shapes, const TrainKeys& given) {
  const models::Model* model = zoo_model_of(module);
  if (model == nullptr) return foreign_origin(shapes);
  ir::Selection same{module.name};
  for (const ir::ParameterSpec& option : model->schema)
    same.set(option.name, *module.attributes.find(option.name));
  // What a rewrite has added belongs to no model, so the plain network is compared.
  const Choice as_it_is = closest_choice(*model, same, shapes, 0);
  if (!as_it_is.module || as_it_is.left.all() == 0) return "";
  constexpr int kMostChanges = 4;
  const Choice own = closest_choice(*model, same, shapes, kMostChanges);
  if (own.left.all() == 0) return has_them("", own, shapes);
  const Choice kept = closest_choice(*model, same, shapes, kMostChanges, Head::is_new);
  if (const std::string keys = keys_that_take(kept, given); !keys.empty()) return keys;
  if (const std::string other = other_model(shapes); !other.empty()) return other;
  if (own.left.only_shapes() && !as_it_is.left.only_shapes() && !own.settings.empty())
    return fmt::format("; {} gives weights of these names", fmt::join(own.settings, ", "));
  return foreign_origin(shapes);
}

std::string untold_options(const ir::Module& module) {
  const auto is = [&](std::string_view name, const ir::Attribute& value) {
    const ir::Attribute* now = module.attributes.find(name);
    return now != nullptr && *now == value;
  };
  if (!is("pre_norm", true) || !is("norm_eps", 1e-6)) return "";
  return "norm_pre marks a CLIP network: timm's files of these need model.norm_eps=1e-5, and OpenAI's "
         "weights also model.act_layer=quick_gelu, which the tensors do not show";
}

}  // namespace rewire::runtime
