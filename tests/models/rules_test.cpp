// What holds of every family of the zoo: which parameters decay, of which layer they are for rates that differ by layer, and
// how stochastic depth grows.
#include <algorithm>
#include <map>
#include <set>

#include "ir/opcodes.h"
#include "ir/residual.h"
#include "models/model.h"
#include "tests/support/catch.h"

namespace rewire::models {
namespace {

/// Families of other families' layers; and the one that family_test.cpp adds.
const std::set<std::string_view> kOthers = {"mae", "dino", "sit", "detr", "stages"};

/// Of each family with layers of its own, small, and of those with forms each form.
std::vector<ir::Selection> small_families() {
  const std::map<std::string_view, ir::Attribute> small = {
      {"dim", std::int64_t{12}},       {"depth", std::int64_t{3}},   {"heads", std::int64_t{2}},
      {"reg_tokens", std::int64_t{2}}, {"width", std::int64_t{4}},   {"embed_dims", ir::Doubles{8, 16}},
      {"image", std::int64_t{32}},     {"depths", ir::Doubles{2, 1}}};
  std::vector<ir::Selection> families;
  for (const Model* model : models()) {
    if (model->name != model->family->name || kOthers.contains(model->name)) continue;
    ir::Selection family{model->name};
    for (const auto& [name, value] : small) {
      if (ir::find_parameter(model->schema, name) != nullptr) family.set(std::string(name), value);
    }
    families.push_back(family);
    if (ir::find_parameter(model->schema, "form") != nullptr) {
      families.push_back(family.set("form", std::string("timm")).set("block", std::string("bottleneck")));
    }
  }
  return families;
}

TEST_CASE(
    "Matrices and kernels decay; norms, biases, tokens, registers and positions do not, in every family but "
    "that PVT's "
    "positions do") {
  for (const ir::Selection& selection : small_families()) {
    CAPTURE(selection.name);
    std::size_t decaying = 0;
    for (const ir::Parameter& p : build(selection, 2).parameters) {
      if (!p.trainable) continue;
      CAPTURE(p.name);
      const bool is_token = p.name.ends_with("cls_token") || p.name.ends_with("reg_token") ||
                            (p.role == "pos_embed" && selection.name != "pvt");
      CHECK(p.decay == (p.type.rank() > 1 && !is_token));
      decaying += p.decay ? 1 : 0;
    }
    CHECK(decaying > 4);
  }
}

TEST_CASE("Layers count from the stem's 0 over the blocks to the head, in every family") {
  for (const ir::Selection& selection : small_families()) {
    CAPTURE(selection.name);
    const ir::Module module = build(selection, 2);
    std::int32_t blocks = 0, last = 0;
    for (const ir::Parameter& p : module.parameters) {
      if (!p.trainable) continue;
      CAPTURE(p.name);
      REQUIRE(p.layer >= 0);
      last = std::max(last, p.layer);
      if (p.block < 0) continue;
      blocks = std::max(blocks, p.block + 1);
      CHECK(p.layer == p.block + 1);
    }
    CHECK(blocks == 3);
    CHECK(last == blocks + 1);
    for (const ir::Parameter& p : module.parameters) {
      if (p.role == "head") CHECK(p.layer == last);
    }
    CHECK(std::ranges::any_of(module.parameters,
                              [](const ir::Parameter& p) { return p.trainable && p.layer == 0; }));
  }
}

TEST_CASE(
    "Stochastic depth grows from 0 at the first block to its rate at the last, in every family that has it") {
  std::size_t families = 0;
  for (ir::Selection selection : small_families()) {
    CAPTURE(selection.name);
    if (ir::find_parameter(find_model(selection.name).schema, "drop_path") == nullptr) continue;
    ++families;
    const ir::Module module = build(selection.set("drop_path", 0.4), 2);
    const ir::Function& forward = module.function("forward");
    for (const std::size_t at : ir::find_joins(forward)) {
      const ir::Join join = ir::read_join(forward.body[at]);
      CAPTURE(join.describe());
      const auto drops = std::ranges::find_if(forward.body, [&](const ir::Op& op) {
        return op.code == ir::Opcode::drop_path && op.results[0] == join.branch;
      });
      if (join.block == 0) {
        CHECK(drops == forward.body.end());
      } else {
        REQUIRE(drops != forward.body.end());
        CHECK(drops->attributes.get_double("probability") == Approx(0.2 * static_cast<double>(join.block)));
      }
    }
  }
  CHECK(families == 6);
}

}  // namespace
}  // namespace rewire::models
