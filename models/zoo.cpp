// The built-in model families. Each family has a file of its own and a row here.
#include <memory>

#include "ir/error.h"
#include "models/model.h"
#include "models/public_names.h"

namespace rewire::models {

extern const Family kDetr;
extern const Family kDino;
extern const Family kGpt2;
extern const Family kLlama;
extern const Family kMae;
extern const Family kOruVit;
extern const Family kPvt;
extern const Family kResNet;
extern const Family kResNetV2;
extern const Family kSit;
extern const Family kT2tVit;
extern const Family kVit;

namespace {

class Zoo {
 public:
  Zoo() {
    for (const Family* family : {&kVit, &kOruVit, &kPvt, &kT2tVit, &kResNetV2, &kResNet, &kMae, &kDino, &kSit,
                                 &kGpt2, &kLlama, &kDetr})
      add(*family);
  }

  void add(const Family& family) {
    add({std::string(family.name), family.doc, &family, family.schema, {}});
    for (const Variant& variant : family.variants) {
      Model model{std::string(variant.name), family.doc, &family, family.schema, variant.values};
      for (ir::ParameterSpec& spec : model.schema) {
        if (const ir::Attribute* value = variant.values.find(spec.name)) {
          spec.default_value = spec.accept(*value, variant.name);
          spec.default_text = ir::value_text(spec.default_value);
        }
      }
      add(std::move(model));
    }
  }

  std::span<const Model* const> rows() const { return rows_; }

 private:
  void add(Model model) {
    rows_.push_back(models_.emplace_back(std::make_unique<Model>(std::move(model))).get());
  }

  std::vector<std::unique_ptr<Model>> models_;
  std::vector<const Model*> rows_;
};

Zoo& zoo() {
  static Zoo zoo;
  return zoo;
}

constexpr std::int64_t kMostImages = 1'000'000;  // far from an overflow of any product of extents

}  // namespace

std::span<const Model* const> models() {
  return zoo().rows();
}

void add_family(const Family& family) {
  zoo().add(family);
}

const Model& find_model(std::string_view name) {
  for (const Model* model : models()) {
    if (model->name == name) return *model;
  }
  if (const std::string same = zoo_network_of(name); !same.empty())
    user_error("unknown model '{}': that network is called {} here; `rewire models` lists the zoo", name,
               same);
  user_error("unknown model '{}'{}; `rewire models` lists the zoo", name,
             did_you_mean(name, ir::row_names(models())));
}

ir::Attributes options_of(const ir::Selection& selection) {
  return ir::settle(find_model(selection.name).schema, selection.values, "model");
}

ir::Selection backbone_of(const ir::Selection& selection) {
  const Family& family = *find_model(selection.name).family;
  if (family.backbone.empty())
    user_error("the model {} has no form without a head: the family {} does not define one", selection.name,
               family.name);
  ir::Selection backbone = selection;
  for (const auto& [name, value] : family.backbone) backbone.values.set(name, value);
  return backbone;
}

ir::Module build(const ir::Selection& selection, std::int64_t batch) {
  const Model& model = find_model(selection.name);
  if (batch < 1 || batch > kMostImages)
    user_error("the batch is {}; it must be from 1 to {}", batch, kMostImages);
  const ir::Attributes options = options_of(selection);
  ir::Module module =
      forward_module(model.name, [&](Layers& layers) { model.family->build(layers, options, batch); });
  module.attributes = options;
  module.attributes.set("batch", batch);
  return module;
}

}  // namespace rewire::models
