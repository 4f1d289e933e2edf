// The models by name. A model is a name and options; build() turns them into a module with one function,
//   forward(image: f32[batch, channels, height, width]) -> (logits: f32[batch, classes])
// whose residual joins are explicit and whose parameters carry timm's names, layouts and initialisation. A
// family of models is its file and a row of zoo.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/registry.h"
#include "models/layers.h"

namespace rewire::models {

/// A network of the family under a name of its own.
struct Variant {
  std::string_view name;
  ir::Attributes values;  // that it gives the family's parameters
};

/// How a position embedding of another grid is interpolated, by the code that fine-tunes such networks:
/// runtime/network/position_grid.h has the equations.
enum class PositionRule : std::uint8_t { timm, deit, pvt };

struct Family {
  std::string_view name, doc;                 // `name` is a model too: all of it by its parameters
  std::string_view objective = "supervised";  // what a recipe that tells none trains it for
  ir::Schema schema;
  /// `options` are settled. Argument and results included. UserError where options do not go together.
  void (*build)(Layers& layers, const ir::Attributes& options, std::int64_t batch);
  /// The options by which a network becomes a backbone: it takes `image` alone and gives `features` [batch, width], and
  /// what it shares with the whole network has the same names. None: the family has no such form.
  ir::Attributes backbone = {};
  PositionRule positions = PositionRule::timm;
  /// Our name of a weight that files of other public code, with settled `options`, call `name`; `name` itself where it is
  /// none of theirs. None: there is no such code.
  std::string (*name_here)(const std::string& name, const ir::Attributes& options) = nullptr;
  std::vector<Variant> variants;
};

/// A family or one of its variants: what `model.name` selects.
struct Model {
  std::string name;
  std::string_view doc;
  const Family* family;
  ir::Schema schema;      // the family's, with the variant's values as defaults
  ir::Attributes values;  // the variant's; none of a family
};

/// Each family, then its variants.
std::span<const Model* const> models();
/// For a family that is no resident, as tests have; it must outlive the process.
void add_family(const Family& family);

/// UserError with the nearest match for an unknown name.
const Model& find_model(std::string_view name);

/// What the selection comes to: all options of the model. UserError where one is out of range.
ir::Attributes options_of(const ir::Selection& model);

/// The same model as a backbone (Family::backbone). UserError where its family has no such form.
ir::Selection backbone_of(const ir::Selection& model);

/// UserError where an option is out of range or does not fit another (dim % heads, image % patch).
ir::Module build(const ir::Selection& model, std::int64_t batch);

}  // namespace rewire::models
