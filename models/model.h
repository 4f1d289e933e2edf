// The models by name. A model is a name and options. build() turns them into a module with one function,
//   forward(image: f32[batch, channels, height, width]) -> (logits: f32[batch, classes])
//   forward(tokens: i32[batch, context]) -> (logits: f32[batch, context, vocab])  of a language model
// Its residual joins are explicit, and its parameters have timm's names, layouts and initialisation. Each
// family of models has a file of its own and a row in zoo.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/registry.h"
#include "models/layers.h"

namespace rewire::models {

/// A named network of a family.
struct Variant {
  std::string_view name;
  ir::Attributes values;  // its values of the family's parameters
};

/// The code whose rule interpolates a position embedding to another grid; runtime/network/position_grid.h
/// has the equations.
enum class PositionRule : std::uint8_t { timm, deit, pvt };

/// What files of other public code have besides other names.
struct FileForms {
  /// Ends of the names of matrices that some code stores transposed. The first is not square, so its shape shows it.
  std::vector<std::string_view> transposed = {};
  /// Ends of the names of tensors that are no weights, such as masks.
  std::vector<std::string_view> constants = {};
  /// Ends of the names of tables of positions, of which a network with a shorter context takes the first.
  std::vector<std::string_view> positions = {};
  /// A second name of a weight, and the weight.
  std::vector<std::pair<std::string_view, std::string_view>> copies = {};
};

struct Family {
  std::string_view name, doc;                 // `name` is also the name of a model
  std::string_view objective = "supervised";  // the objective of a recipe that names none
  ir::Schema schema;
  /// Builds argument, ops and results. `options` are settled. Throws UserError if options conflict.
  void (*build)(Layers& layers, const ir::Attributes& options, std::int64_t batch);
  /// Options that make a network a backbone, which maps `image` alone to `features` [batch, width]. Weights
  /// shared with the whole network keep their names. Empty: the family has no backbone.
  ir::Attributes backbone = {};
  PositionRule positions = PositionRule::timm;
  /// Maps a weight's name in other public code, with settled `options`, to ours; returns `name` if that code
  /// does not use it. Null: there is no such code.
  std::string (*name_here)(const std::string& name, const ir::Attributes& options) = nullptr;
  FileForms files = {};
  std::vector<Variant> variants;
};

/// A family or one of its variants, as `model.name` selects it.
struct Model {
  std::string name;
  std::string_view doc;
  const Family* family;
  ir::Schema schema;      // the family's, with the variant's values as defaults
  ir::Attributes values;  // the variant's; empty for a family
};

/// Returns all models: each family, then its variants.
std::span<const Model* const> models();
/// Adds a family that is not a resident, for tests. It must outlive the process.
void add_family(const Family& family);

/// Returns the model of that name. Throws UserError with the nearest match if there is none.
const Model& find_model(std::string_view name);

/// Returns all options of the selected model. Throws UserError if one is out of range.
ir::Attributes options_of(const ir::Selection& model);

/// Returns the model's backbone (Family::backbone). Throws UserError if its family has none.
ir::Selection backbone_of(const ir::Selection& model);

/// Builds the model. Throws UserError if an option is out of range or does not fit another (dim % heads,
/// image % patch).
ir::Module build(const ir::Selection& model, std::int64_t batch);

}  // namespace rewire::models
