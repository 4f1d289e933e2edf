// What the names in a file of weights mean, and what a refusal names: prefixes of wrappers, names of other code, options.
#include "runtime/network/weights_names.h"

#include <fstream>

#include "ir/error.h"
#include "models/model.h"
#include "runtime/device/log.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/weights.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

ir::Selection named_vit() {
  ir::Selection model{"vit"};
  model.set("dim", std::int64_t{16}).set("heads", std::int64_t{2}).set("depth", std::int64_t{2});
  return model.set("image", std::int64_t{12}).set("classes", std::int64_t{5});
}

ir::Selection named_dino() {
  ir::Selection model{"dino_vit_tiny_28"};
  return model.set("dim", std::int64_t{16}).set("heads", std::int64_t{2}).set("depth", std::int64_t{2});
}

TensorMap prefixed(const TensorMap& tensors, const std::string& prefix) {
  TensorMap made;
  for (const auto& [name, tensor] : tensors) made.emplace(prefix + name, tensor.clone());
  return made;
}

struct Written {
  explicit Written(const TensorMap& tensors) { write_safetensors(path, tensors); }
  test::TemporaryFolder folder;
  std::string path = folder.file("w.safetensors");
};

/// What a refusal says behind its last semicolon.
std::string refusal(const ir::Module& module, const TensorMap& tensors, bool trains = true) {
  const Written file(tensors);
  const WeightsFit how{.required = trains ? &module : nullptr};
  const std::string message = test::message_of<UserError>([&] { read_weights(module, file.path, how); });
  const std::size_t at = message.rfind("; ");
  return at == std::string::npos ? message : message.substr(at);
}

TensorMap weights_of_model(const ir::Selection& model) {
  return fresh_weights(models::build(model, 1), {}, 3);
}

TEST_CASE("Words that wrappers put in front of all names are taken off, whichever they are") {
  const ir::Module module = models::build(named_vit(), 1);
  const TensorMap plain = weights_of_model(named_vit());
  for (const std::string prefix : {"module.", "model.", "backbone.", "student.", "teacher.", "_orig_mod.",
                                   "module.model.", "student.module.backbone."}) {
    CAPTURE(prefix);
    const Written file(prefixed(plain, prefix));
    const TensorMap read = read_weights(module, file.path);
    REQUIRE(read.size() == plain.size());
    for (const auto& [name, tensor] : read) CHECK(std::ranges::equal(tensor.bytes(), plain.at(name).bytes()));
  }
  // No word of these, and a file that has the names as they are, too.
  CHECK_THAT(refusal(module, prefixed(plain, "net.")), REWIRE_CATCH_CONTAINS("it lacks 'cls_token'"));
  TensorMap both = prefixed(plain, "module.");
  both.merge(prefixed(plain, ""));
  CHECK_THAT(refusal(module, both), REWIRE_CATCH_CONTAINS("train.extra_weights=ignore"));
}

TEST_CASE("A head of its own beside a backbone's prefix is taken with it, and two that fit are refused") {
  const ir::Module module = models::build(named_vit(), 1);
  TensorMap tensors;
  for (const auto& [name, tensor] : weights_of_model(named_vit()))
    tensors.emplace((name.starts_with("head.") ? "" : "backbone.") + name, tensor.clone());
  CHECK(read_weights(module, Written(tensors).path).size() == tensors.size());
  TensorMap pair = prefixed(weights_of_model(named_vit()), "student.module.");
  pair.merge(prefixed(weights_of_model(named_vit()), "teacher."));
  const Written file(pair);
  CHECK(test::message_of<UserError>([&] { read_weights(module, file.path); }) ==
        file.path +
            ": it has the network's weights under student.module. and teacher.; choose one, such as "
            "train.weights_prefix=teacher.");
  CHECK(read_weights(module, file.path, {.prefix = "teacher.", .further = true}).size() == pair.size() / 2);
}

TEST_CASE("A network whose own names have the word takes a file without it") {
  ir::Selection dino = named_dino();
  dino.set("head", false);
  const ir::Module module = models::build(dino, 1);
  TensorMap bare;
  for (const auto& [name, tensor] : weights_of_model(dino))
    bare.emplace(name.substr(std::string("backbone.").size()), tensor.clone());
  for (const std::string prefix : {"", "module.", "module.backbone."}) {
    CAPTURE(prefix);
    CHECK(read_weights(module, Written(prefixed(bare, prefix)).path).size() == bare.size());
  }
}

TEST_CASE("Files of the code on decayed identity shortcuts are read by its names") {
  ir::Selection mae{"mae_vit_tiny_28"};
  mae.set("dim", std::int64_t{16}).set("heads", std::int64_t{2}).set("depth", std::int64_t{4});
  mae.set("decoder_dim", std::int64_t{8})
      .set("decoder_heads", std::int64_t{2})
      .set("skips", std::string("unet"));
  const TensorMap ours = weights_of_model(mae);
  TensorMap theirs;
  for (const auto& [name, tensor] : ours) {
    std::string other = name;
    for (const auto& [from, to] :
         {std::pair{"decoder_skips.", "skip."}, {".fc1.", ".fc.0."}, {".fc2.", ".fc.2."}}) {
      const bool of_skip = name.starts_with("decoder_skips.");
      if (const std::size_t at = other.find(from); of_skip && at != std::string::npos)
        other.replace(at, std::string(from).size(), to);
    }
    theirs.emplace(other, tensor.clone());
  }
  REQUIRE(theirs.contains("skip.1.fc.0.weight"));
  REQUIRE(theirs.contains("skip.1.mask_token"));
  const TensorMap read = read_weights(models::build(mae, 1), Written(theirs).path);
  REQUIRE(read.size() == ours.size());
  for (const auto& [name, tensor] : read) CHECK(std::ranges::equal(tensor.bytes(), ours.at(name).bytes()));

  ir::Selection sit{"sit_tiny_28"};
  sit.set("dim", std::int64_t{16}).set("heads", std::int64_t{2}).set("skips", std::string("unet"));
  const TensorMap blocks = weights_of_model(sit);
  TensorMap halves;
  for (const auto& [name, tensor] : blocks) {
    std::string other = name;
    if (name.starts_with("blocks.")) {
      const int block = name[std::string("blocks.").size()] - '0';  // of six
      other =
          (block < 3 ? "enc_blocks." + std::to_string(block) : "dec_blocks." + std::to_string(block - 3)) +
          name.substr(std::string("blocks.0").size());
    }
    halves.emplace(other, tensor.clone());
  }
  REQUIRE(halves.contains("dec_blocks.2.skip.weight"));
  const TensorMap joined = read_weights(models::build(sit, 1), Written(halves).path);
  REQUIRE(joined.size() == blocks.size());
  for (const auto& [name, tensor] : joined)
    CHECK(std::ranges::equal(tensor.bytes(), blocks.at(name).bytes()));
}

TEST_CASE("A refusal names the options of the model, and the keys, that the weights are for") {
  struct Row {
    ir::Attributes options;
    std::string told;
  };
  const std::vector<Row> rows = {
      {{{"init_values", 0.1}}, "; model.init_values=1e-05 matches its weights"},
      {{{"reg_tokens", std::int64_t{3}}}, "; model.reg_tokens=3 matches its weights"},
      {{{"reg_tokens", std::int64_t{3}}, {"no_embed_class", true}},
       "; model.reg_tokens=3, model.no_embed_class=true matches its weights"},
      {{{"pre_norm", true}}, "; model.pre_norm=true matches its weights"},
      {{{"qkv_bias", false}}, "; model.qkv_bias=false matches its weights"},
      {{{"distilled", true}}, "; model.distilled=true matches its weights"},
      {{{"pool", std::string("avg")}}, "; model.pool=avg matches its weights"},
      {{{"pool", std::string("avg")}, {"class_token", std::string("true")}, {"fc_norm", true}},
       "; model.pool=avg, model.fc_norm=true, model.class_token=true matches its weights"},
      {{{"classes", std::int64_t{0}}}, "; train.new_head=true starts a new head"}};
  const ir::Module module = models::build(named_vit(), 1);
  for (const Row& row : rows) {
    ir::Selection other = named_vit();
    for (const auto& [name, value] : row.options) other.values.set(name, value);
    CHECK(refusal(module, weights_of_model(other)) == row.told);
  }
  ir::Selection averages = named_vit();
  averages.set("pool", std::string("avg")).set("class_token", std::string("true")).set("fc_norm", true);
  ir::Selection encoder = named_vit();
  TensorMap pretrained = weights_of_model(encoder.set("classes", std::int64_t{0}));
  pretrained.emplace("mask_token", HostTensor({ir::DType::f32, {1, 1, 8}}));
  CHECK(refusal(models::build(averages, 1), pretrained) ==
        "; train.new_head=true, train.extra_weights=ignore loads the part that the network has");
}

TEST_CASE("Names of libraries whose files are not read say whose they are") {
  const ir::Module module = models::build(named_vit(), 1);
  const auto of = [&](const std::string& name) {
    TensorMap tensors;
    tensors.emplace(name, HostTensor({ir::DType::f32, {4}}));
    return refusal(module, tensors);
  };
  CHECK_THAT(of("vit.encoder.layer.0.attention.attention.query.bias"),
             REWIRE_CATCH_CONTAINS("of Hugging Face's ViT (model.norm_eps=1e-12)"));
  CHECK_THAT(of("visual.transformer.resblocks.0.ln_1.bias"),
             REWIRE_CATCH_CONTAINS("of OpenAI's CLIP (model.norm_eps=1e-5, model.act_layer=quick_gelu)"));
}

TEST_CASE("Weights of CLIP's networks say what names do not tell, unless the options have it") {
  ir::Selection clip = named_vit();
  clip.set("pre_norm", true);
  const Written file(weights_of_model(clip));
  const auto told = [&](const ir::Selection& model) {
    std::string all;
    const LogListener listener([&](LogLevel, std::string_view message) { all += message; });
    read_weights(models::build(model, 1), file.path);
    return all;
  };
  CHECK_THAT(told(clip), REWIRE_CATCH_CONTAINS("model.norm_eps=1e-5") &&
                             REWIRE_CATCH_CONTAINS("model.act_layer=quick_gelu"));
  CHECK(told(clip.set("norm_eps", 1e-5)).empty());
}

TEST_CASE("A file of PyTorch's says so, with two lines of Python that convert it") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a \"b\".pth");
  std::string zip("PK\x03\x04", 4);
  const std::string entry = "archive/data.pkl";
  zip.append(22, '\0');
  zip.push_back(static_cast<char>(entry.size()));
  zip.append(3, '\0');
  std::ofstream(path, std::ios::binary) << zip << entry << "...";
  const std::string message = test::message_of<UserError>([&] { read_safetensors(path); });
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS(path + ": this is a PyTorch file") &&
                          REWIRE_CATCH_CONTAINS("\nimport torch; ") &&
                          REWIRE_CATCH_CONTAINS("/a \\\"b\\\".safetensors\")"));
  CHECK(std::ranges::count(message, '\n') == 2);
  // Another archive is no file of PyTorch's.
  std::ofstream(path, std::ios::binary) << zip << "archive/data.npy" << "...";
  CHECK_THAT(test::message_of<UserError>([&] { read_safetensors(path); }),
             REWIRE_CATCH_CONTAINS("not a readable safetensors file"));
}

TEST_CASE("GPT-2's files of Hugging Face are read: matrices by the other axes, masks, copies, names") {
  ir::Selection model{"gpt2_nano"};
  model.set("dim", std::int64_t{12}).set("heads", std::int64_t{2}).set("depth", std::int64_t{1});
  const ir::Module module = models::build(model.set("context", std::int64_t{8}), 1);
  const TensorMap weights = weights_of_model(model);
  const auto is_turned = [](const std::string& name) {
    return name.find(".h.0.") != std::string::npos && name.ends_with("weight") &&
           name.find("ln_") == std::string::npos;
  };
  TensorMap file;
  for (const auto& [name, tensor] : weights) {
    HostTensor stored = tensor.clone();
    if (is_turned(name)) {
      const ir::Shape& shape = tensor.type().shape;
      stored = HostTensor({ir::DType::f32, {shape[1], shape[0]}});
      for (std::int64_t i = 0; i < shape[0]; ++i) {
        for (std::int64_t j = 0; j < shape[1]; ++j)
          stored.as<float>()[static_cast<std::size_t>(j * shape[0] + i)] =
              tensor.as<const float>()[static_cast<std::size_t>(i * shape[1] + j)];
      }
    }
    file.emplace(name.substr(std::string("transformer.").size()), std::move(stored));
  }
  file.emplace("h.0.attn.bias", HostTensor({ir::DType::f32, {1, 1, 8, 8}}));
  file.emplace("h.0.attn.masked_bias", HostTensor({ir::DType::f32, {}}));
  file.emplace("lm_head.weight", file.at("wte.weight").clone());
  const Written written(file);
  const TensorMap read = read_weights(module, written.path);
  REQUIRE(read.size() == weights.size());
  for (const auto& [name, tensor] : weights) {
    CAPTURE(name);
    CHECK(std::ranges::equal(read.at(name).bytes(), tensor.bytes()));
  }
  // A shorter context has the first positions; there are none for a longer one.
  const Written whole(file);
  ir::Selection shorter = model, longer = model;
  const TensorMap cut = read_weights(models::build(shorter.set("context", std::int64_t{5}), 1), whole.path);
  CHECK(std::ranges::equal(cut.at("transformer.wpe.weight").bytes(),
                           weights.at("transformer.wpe.weight").bytes().first(5 * 12 * sizeof(float))));
  const ir::Module beyond = models::build(longer.set("context", std::int64_t{9}), 1);
  CHECK_THAT(
      test::message_of<UserError>([&] { read_weights(beyond, whole.path); }),
      REWIRE_CATCH_CONTAINS("'transformer.wpe.weight' has the shape [8,12], but the model's has [9,12]"));
  file.at("lm_head.weight").as<float>()[3] += 1;
  const Written other(file);
  CHECK_THAT(test::message_of<UserError>([&] { read_weights(module, other.path); }),
             REWIRE_CATCH_CONTAINS("'lm_head.weight' differs from 'transformer.wte.weight'"));
}

}  // namespace
}  // namespace rewire::runtime
