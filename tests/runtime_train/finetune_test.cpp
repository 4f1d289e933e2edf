// What fine-tuning takes, against timm (tests/reference/finetune.py): which rate and decay each parameter has, and
// position embeddings for another grid.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/text.h"
#include "models/model.h"
#include "programs/optimizer.h"
#include "programs/programs.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/position_grid.h"
#include "runtime/network/weights.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

SafetensorsFile golden() {
  return read_safetensors(std::string(REWIRE_GOLDENS) + "/finetune.safetensors");
}

ir::Selection vit(std::int64_t depth, std::int64_t patches = 2, const std::string& pool = "token") {
  ir::Selection model{"vit"};
  model.set("dim", 16).set("heads", 2).set("classes", 5).set("channels", 1).set("pool", pool);
  return model.set("depth", depth).set("patch", 4).set("image", 4 * patches);
}

TEST_CASE("Layers and decay of a ViT's parameters are those of timm's param_groups_layer_decay") {
  const SafetensorsFile file = golden();
  const auto told = nlohmann::json::parse(file.metadata.at("case"));
  const auto depth = told.at("depth").get<std::int64_t>();
  const bool averages = GENERATE(false, true);
  ir::Selection model = vit(depth, 2, averages ? "avg" : "token");
  if (averages) model.set("class_token", std::string("true")).set("fc_norm", true);
  for (const auto& [decay, groups] : told.at(averages ? "fc_norm_groups" : "groups").items()) {
    ir::Module module = models::build(model, 1);
    programs::TrainOptions options;
    options.optimizer.set("layer_decay", std::stod(decay)).set("weight_decay", 0.05);
    programs::add_step_program(module, options);
    const ir::Attributes values = programs::ChosenOptimizer(options.optimizer).values;
    std::size_t trained = 0;
    for (const ir::Parameter& parameter : module.parameters) {
      if (!parameter.trainable) continue;
      CAPTURE(decay, parameter.name);
      ++trained;
      const auto& group = groups.at(parameter.name);
      const programs::WeightSettings settings = programs::settings_of(parameter, values);
      CHECK(settings.lr_scale == Approx(group.at(0).get<double>()).epsilon(1e-14));
      CHECK(settings.weight_decay == (group.at(1).get<bool>() ? 0.05 : 0.0));
    }
    CHECK(trained == groups.size());
  }
}

TEST_CASE(
    "Layers stand in a module's text: the stem's 0, each block's, the norm's with the last, the head's") {
  const ir::Module module = ir::parse(ir::print(models::build(vit(2), 1)), "vit.rir");
  for (const auto& [name, layer] : {std::pair{"cls_token", 0},
                                    {"pos_embed", 0},
                                    {"patch_embed.proj.bias", 0},
                                    {"blocks.0.norm1.weight", 1},
                                    {"blocks.1.mlp.fc2.bias", 2},
                                    {"norm.weight", 2},
                                    {"head.weight", 3}}) {
    CAPTURE(name);
    CHECK(module.find_parameter(name)->layer == layer);
  }
}

TEST_CASE("A step moves each layer by its own rate") {
  // SGD without momentum moves a weight by its rate times its gradient: half the scale, half the way.
  const auto moved = [](double layer_decay) {
    ir::Module module = models::build(vit(2), 1);
    programs::TrainOptions options;
    options.optimizer = {"sgd"};
    options.optimizer.set("lr", 1e-3).set("momentum", 0.0).set("weight_decay", 0.0);
    options.optimizer.set("layer_decay", layer_decay);
    programs::add_step_program(module, options);
    std::map<std::string, std::vector<double>> weights;
    int k = 0;
    for (const ir::Parameter& parameter : module.parameters) {
      if (parameter.trainable)
        weights[parameter.name] = numbers(static_cast<std::size_t>(parameter.type.elements()), ++k);
    }
    ir::EvalState state = start(module, weights);
    call(module, "step", {numbers(64, 90), {3}}, state);
    std::map<std::string, double> lengths;
    for (const auto& [name, before] : weights) {
      for (std::size_t i = 0; i < before.size(); ++i)
        lengths[name] += std::abs(state.tensors.at(name).data[i] - before[i]);
    }
    return lengths;
  };
  const auto alike = moved(1), halved = moved(0.5);
  for (const auto& [name, scale] : {std::pair{"pos_embed", 0.125},
                                    {"patch_embed.proj.weight", 0.125},
                                    {"blocks.0.attn.proj.weight", 0.25},
                                    {"blocks.1.mlp.fc1.weight", 0.5},
                                    {"norm.bias", 0.5},
                                    {"head.weight", 1.0}}) {
    CAPTURE(name);
    REQUIRE(alike.at(name) > 0);
    CHECK(halved.at(name) / alike.at(name) == Approx(scale).epsilon(1e-6));
  }
}

TEST_CASE("A weight's hint and its layer's share multiply, and a weight of no layer keeps its rate") {
  ir::Module module = linear_model(2, 2, 2);
  const ir::Attributes values =
      programs::ChosenOptimizer(ir::Selection{"adamw"}.set("layer_decay", 0.5)).values;
  CHECK_THROWS_WITH(programs::apply_layer_decay(module, values),
                    REWIRE_CATCH_CONTAINS(
                        "optimizer.layer_decay=0.5: the parameters of the network 'linear' have no layer"));
  module.find_parameter("w")->layer = 0;
  module.find_parameter("w")->hint.lr_scale = 10;
  ir::Parameter last = *module.find_parameter("b");
  last.name = "last";
  last.layer = 2;
  module.add_parameter(last);
  programs::apply_layer_decay(module, values);
  CHECK(module.find_parameter("w")->hint.lr_scale == 2.5);
  CHECK(module.find_parameter("last")->hint.lr_scale == 1.0);
  CHECK_FALSE(module.find_parameter("b")->hint.lr_scale.has_value());
}

TEST_CASE(
    "A position embedding for another grid is what timm's resample_abs_pos_embed, DeiT's fine-tuning, or "
    "PVT's forward makes") {
  using Row = std::pair<models::PositionRule, std::string>;
  const auto [rule, ending] =
      GENERATE(Row{models::PositionRule::timm, ".to"}, Row{models::PositionRule::deit, ".deit"},
               Row{models::PositionRule::pvt, ".pvt"});
  const SafetensorsFile file = golden();
  const auto told = nlohmann::json::parse(file.metadata.at("case"));
  std::size_t k = 0;
  for (const auto& grid : told.at("grids")) {
    const std::string name = "grid." + std::to_string(k++);
    CAPTURE(grid.dump());
    const auto layout = [&](const char* which) {
      const auto sides = grid.at(which).get<std::vector<std::int64_t>>();
      return PositionGrid{grid.at("prefix").get<std::int64_t>(), sides.at(0), sides.at(1)};
    };
    const HostTensor made =
        resample_positions(file.tensors.at(name + ".from"), layout("from"), layout("to"), rule);
    const HostTensor& expected = file.tensors.at(name + ending);
    REQUIRE(made.type() == expected.type());
    for (std::size_t i = 0; i < made.as<double>().size(); ++i)
      CHECK(made.as<double>()[i] == Approx(expected.as<double>()[i]).epsilon(1e-13).margin(1e-15));
  }
  CHECK(k == 9);
}

TEST_CASE("A square position embedding is resampled to the shape of a detection transformer's images") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  ir::Selection detr{"detr"};
  detr.set("backbone_dims", ir::Doubles{12}).set("backbone_depths", ir::Doubles{1});
  detr.set("dim", 8).set("heads", 2).set("encoder_depth", 1).set("decoder_depth", 1).set("mlp_hidden", 4);
  const ir::Module square = models::build(detr.set("image_height", 48).set("image_width", 48), 1);
  const ir::Module wide = models::build(detr.set("image_height", 32).set("image_width", 80), 1);
  const TensorMap weights = fresh_weights(square, {}, 5);
  write_safetensors(path, weights);
  const std::string name = "backbone.0.body.pos_embed";
  const std::string refusal = test::message_of<UserError>([&] { read_weights(wide, path); });
  CHECK(refusal.find("'" + name + "' has 3 x 3 patches, but the model has 2 x 5") != std::string::npos);
  const TensorMap read = read_weights(wide, path, {.positions = models::PositionRule::deit});
  const HostTensor expected =
      resample_positions(weights.at(name), {1, 3, 3}, {1, 2, 5}, models::PositionRule::deit);
  REQUIRE(read.at(name).type() == expected.type());
  CHECK(std::ranges::equal(read.at(name).as<float>(), expected.as<float>()));
  // A rectangle of as many patches as the square may be of this network, or not: the key says so.
  const ir::Module even = models::build(detr.set("image_height", 64).set("image_width", 64), 1);
  const ir::Module flat = models::build(detr.set("image_height", 32).set("image_width", 128), 1);
  const TensorMap sixteen = fresh_weights(even, {}, 5);
  write_safetensors(path, sixteen);
  const TensorMap kept = read_weights(flat, path);
  CHECK(std::ranges::equal(kept.at(name).as<float>(), sixteen.at(name).as<float>()));
  const TensorMap moved = read_weights(flat, path, {.positions = models::PositionRule::deit});
  const HostTensor flattened =
      resample_positions(sixteen.at(name), {1, 4, 4}, {1, 2, 8}, models::PositionRule::deit);
  CHECK(std::ranges::equal(moved.at(name).as<float>(), flattened.as<float>()));
}

TEST_CASE("Weights of another resolution are taken where that is asked for, and refused elsewhere") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  for (const std::string pool : {"token", "avg"}) {
    CAPTURE(pool);
    const ir::Module small = models::build(vit(1, 2, pool), 1), large = models::build(vit(1, 3, pool), 1);
    const TensorMap weights = fresh_weights(small, {}, 5);
    write_safetensors(path, weights);
    const std::string refusal = test::message_of<UserError>([&] { read_weights(large, path); });
    CHECK(refusal == path +
                         ": 'pos_embed' has 2 x 2 patches, but the model has 3 x 3; "
                         "train.resample_positions=true resamples it, in `rewire train` and `rewire init`");
    const TensorMap read = read_weights(large, path, {.positions = models::PositionRule::timm});
    const std::int64_t prefix = pool == "token" ? 1 : 0;
    CHECK(read.at("pos_embed").type() == ir::TensorType{ir::DType::f32, {1, prefix + 9, 16}});
    const auto before = weights.at("pos_embed").as<float>(), after = read.at("pos_embed").as<float>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(prefix) * 16; ++i) CHECK(after[i] == before[i]);
    // The middle of nine is as far from each of the four.
    const auto first = static_cast<std::size_t>(prefix) * 16, middle = first + std::size_t{4} * 16;
    for (std::size_t c = 0; c < 16; ++c) {
      const float mean =
          (before[first + c] + before[first + 16 + c] + before[first + 32 + c] + before[first + 48 + c]) / 4;
      CHECK(after[middle + c] == Approx(mean).margin(1e-7));
    }
    CHECK(read.at("head.weight").bytes().size() == weights.at("head.weight").bytes().size());
  }
}

TEST_CASE(
    "A grid stands behind the class token and registers, the class token, or nothing, as the network has "
    "it") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  struct Row {
    std::string model;
    ir::Attributes options;
    std::int64_t prefix;
  };
  const std::vector<Row> rows = {{"vit", {{"reg_tokens", std::int64_t{4}}}, 5},
                                 {"vit", {{"reg_tokens", std::int64_t{4}}, {"no_embed_class", true}}, 0},
                                 {"vit", {{"reg_tokens", std::int64_t{2}}, {"pool", std::string("avg")}}, 2},
                                 {"oru_vit", {}, 0}};
  for (const Row& row : rows) {
    const auto sized = [&](std::int64_t side) {
      ir::Selection model{row.model, row.options};
      model.set("dim", 16).set("heads", 2).set("depth", 1).set("patch", 4).set("channels", 1);
      return models::build(model.set("image", 4 * side), 1);
    };
    CAPTURE(row.model, row.prefix);
    const ir::Module small = sized(3), large = sized(4);
    write_safetensors(path, fresh_weights(small, {}, 5));
    const TensorMap read = read_weights(large, path, {.positions = models::PositionRule::timm});
    CHECK(read.at("pos_embed").type().shape == ir::Shape{1, row.prefix + 16, 16});
  }
  // Each stage of a pyramid has its own, and the last a class token.
  const auto pyramid = [](std::int64_t image) {
    ir::Selection model{"pvt"};
    model.set("image", image).set("embed_dims", ir::Doubles{8, 16}).set("depths", ir::Doubles{1, 1});
    model.set("num_heads", ir::Doubles{1, 2}).set("mlp_ratios", ir::Doubles{2, 2});
    model.set("patch_sizes", ir::Doubles{4, 2}).set("sr_ratios", ir::Doubles{1, 1});
    return models::build(model, 1);
  };
  write_safetensors(path, fresh_weights(pyramid(16), {}, 5));
  const TensorMap read = read_weights(pyramid(24), path, {.positions = models::PositionRule::deit});
  CHECK(read.at("pos_embed1").type().shape == ir::Shape{1, 36, 8});
  CHECK(read.at("pos_embed2").type().shape == ir::Shape{1, 10, 16});
}

TEST_CASE("A new head leaves that of the file out, whatever its classes, and takes all else") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  ir::Selection other = vit(1);
  const ir::Module given = models::build(vit(1), 1), wanted = models::build(other.set("classes", 7), 1);
  write_safetensors(path, fresh_weights(given, {}, 5));
  CHECK(test::message_of<UserError>([&] { read_weights(wanted, path); }) ==
        path +
            ": 'head.weight' has the shape [5,16], but the model's has [7,16]; train.new_head=true starts a "
            "new head");
  const TensorMap read = read_weights(wanted, path, {.new_head = true});
  CHECK_FALSE(read.contains("head.weight"));
  CHECK_FALSE(read.contains("head.bias"));
  CHECK(read.size() + 2 == fresh_weights(given, {}, 5).size());
  CHECK_FALSE(
      read_weights(given, path, {.new_head = true}).contains("head.weight"));  // also of as many classes
}

TEST_CASE("A new head has a norm behind the pooling of its own, and leaves out the file's before it") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  ir::Selection averages = vit(1, 2, "avg");
  averages.set("class_token", std::string("true")).set("fc_norm", true);
  const ir::Module wanted = models::build(averages, 1);
  TensorMap given = fresh_weights(models::build(vit(1), 1), {}, 5);
  given.erase("head.weight");
  given.erase("head.bias");
  write_safetensors(path, given);
  CHECK_THAT(test::message_of<UserError>([&] { read_weights(wanted, path, {.required = &wanted}); }),
             REWIRE_CATCH_CONTAINS("it lacks 'fc_norm.weight' f32[16]"));
  const TensorMap read = read_weights(wanted, path, {.new_head = true});
  CHECK(read.size() + 2 == given.size());
  for (const char* name : {"norm.weight", "fc_norm.weight", "head.weight"}) CHECK_FALSE(read.contains(name));
  // One that the file has is taken: of a network that was fine-tuned before.
  given = fresh_weights(wanted, {}, 6);
  write_safetensors(path, given);
  CHECK(read_weights(wanted, path, {.new_head = true}).contains("fc_norm.weight"));
}

TEST_CASE(
    "A vit starts from the encoder of a masked autoencoder where the file may have what the network lacks") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  ir::Selection mae{"mae"};
  mae.set("dim", 16).set("heads", 2).set("channels", 1).set("depth", 1).set("patch", 4).set("image", 16);
  mae.set("decoder_dim", 8).set("decoder_heads", 2).set("decoder_depth", 1);
  const TensorMap written = fresh_weights(models::build(mae, 1), {}, 5);
  write_safetensors(path, written);
  const ir::Module wanted = models::build(vit(1, 4), 1);
  CHECK_THAT(test::message_of<UserError>([&] { read_weights(wanted, path, {.new_head = true}); }),
             REWIRE_CATCH_CONTAINS(path + ": the model has no 'decoder_blocks.0.attn.proj.bias' f32[8]"));
  const TensorMap read = read_weights(wanted, path, {.new_head = true, .further = true});
  CHECK(read.size() == 4 + 12 + 2);  // class token, positions and patches; a block; the norm
  for (const auto& [name, tensor] : read) CHECK(std::ranges::equal(tensor.bytes(), written.at(name).bytes()));
  // What the network needs must be there all the same.
  CHECK_THAT(test::message_of<UserError>([&] { read_weights(wanted, path, {.further = true}); }),
             REWIRE_CATCH_CONTAINS("it lacks 'head.weight' f32[5,16]"));
}

TEST_CASE(
    "Of a file with a prefix the tensors under it are taken, and what an objective remembers is nobody's") {
  const test::TemporaryFolder folder;
  const ir::Module module = models::build(vit(1), 1);
  TensorMap prefixed;
  for (auto& [name, tensor] : fresh_weights(module, {}, 4))
    prefixed.emplace("net." + name, std::move(tensor));
  prefixed.emplace("other.weight", HostTensor(ir::TensorType{ir::DType::f32, {2}}));
  prefixed.emplace("net.objective.center", HostTensor(ir::TensorType{ir::DType::f32, {1, 2}}));
  const std::string path = folder.file("w.safetensors");
  write_safetensors(path, prefixed);
  const TensorMap read = read_weights(module, path, {.prefix = "net."});
  CHECK(read.size() + 2 == prefixed.size());
  for (const auto& [name, tensor] : read)
    CHECK(std::ranges::equal(tensor.bytes(), prefixed.at("net." + name).bytes()));
  CHECK(test::message_of<UserError>([&] { read_weights(module, path, {.prefix = "nett."}); }) ==
        path +
            ": no tensor's name begins with train.weights_prefix 'nett.'; the first is "
            "'net.blocks.0.attn.proj.bias'");
}

TEST_CASE("Positions that are no square grid, and other widths, are refused by shape") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  const ir::Module model = models::build(vit(1), 1);
  for (const ir::Shape& shape : {ir::Shape{1, 7, 16}, {1, 10, 8}, {2, 10, 16}, {1, 1, 16}}) {
    TensorMap weights = fresh_weights(model, {}, 5);
    weights.insert_or_assign("pos_embed", HostTensor({ir::DType::f32, shape}));
    write_safetensors(path, weights);
    CHECK(test::message_of<UserError>(
              [&] { read_weights(model, path, {.positions = models::PositionRule::deit}); }) ==
          path + ": 'pos_embed' has the shape " + ir::to_string(shape) + ", but the model's has [1,5,16]");
  }
}

}  // namespace
}  // namespace rewire::runtime
