// Recipes: what is read is what is written, overrides, and the message of each fault.
#include "runtime/recipe/recipe.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "models/model.h"
#include "programs/optimizer.h"
#include "runtime/recipe/keys.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kWhole = R"(
seed = 7

[model]
name = "vit_tiny_28"
dim = 96
mlp_ratio = 3
pool = "avg"

[[plugin]]
name = "first"
layers = [0, 1]
strength = 0.5
on = true

[[plugin]]
name = "./second.so"

[data]
path = "/data"

[transforms]
crop_padding = 2
horizontal_flip = true
mean = [0.5, 0]
std = [0.25, 1]

[optimizer]
name = "sgd"
lr = 0.1
nesterov = true

[schedule]
name = "multistep"
warmup_epochs = 0.5
milestones = [2, 3.5]

[train]
batch = 32
epochs = 4
clip_norm = 1
accumulate = 2

[eval]
batch = 100
)";

std::string fault(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return test::message_of<UserError>([&] { parse_recipe(text, "r.toml", overrides); });
}

TEST_CASE("A recipe's values arrive in their fields, and what it leaves out keeps its default") {
  const Recipe recipe = parse_recipe(kWhole, "r.toml");
  CHECK(recipe.seed == 7);
  CHECK(recipe.model.name == "vit_tiny_28");
  CHECK(recipe.model.values.get_int("dim") == 96);
  CHECK(recipe.model.values.get_double("mlp_ratio") == 3.0);
  CHECK(recipe.model.values.get_string("pool") == "avg");
  CHECK_FALSE(recipe.model.values.has("depth"));
  CHECK(recipe.source.name == "idx");
  CHECK(recipe.source.values.get_string("path") == "/data");
  CHECK(recipe.transforms.get_int("crop_padding") == 2);
  CHECK(recipe.transforms.get_bool("horizontal_flip"));
  CHECK(recipe.transforms.get<ir::Doubles>("mean") == ir::Doubles{0.5, 0});
  CHECK(recipe.transforms.get<ir::Doubles>("std") == ir::Doubles{0.25, 1});
  CHECK(recipe.optimizer.name == "sgd");
  CHECK(recipe.optimizer.values.get_double("lr") == 0.1);
  CHECK_FALSE(recipe.optimizer.values.has("momentum"));
  CHECK(recipe.optimizer.values.get_bool("nesterov"));
  CHECK(recipe.train.batch == 32);
  CHECK(recipe.eval.batch == 100);
}

TEST_CASE("A recipe's plugins keep their order, and their values become plugin text") {
  const Recipe recipe = parse_recipe(kWhole, "r.toml");
  REQUIRE(recipe.plugins.size() == 2);
  CHECK(recipe.plugins[0].name == "first");
  const std::vector<std::pair<std::string, std::string>> values = {
      {"layers", "0+1"}, {"on", "true"}, {"strength", "0.5"}};
  CHECK(recipe.plugins[0].values == values);
  CHECK(recipe.plugins[1].name == "./second.so");
  CHECK(recipe.plugins[1].values.empty());
}

TEST_CASE("A recipe that is written and read again is the same") {
  Recipe recipe = parse_recipe(kWhole, "r.toml", {"optimizer.lr=1e-300", "transforms.mean=[0.1, 3]"});
  recipe.source.set("path", std::string("a \"quoted\" \\ folder\n\x01\x7f é"));
  const std::string text = to_toml(recipe);
  const Recipe again = parse_recipe(text, "again.toml");
  CHECK(to_toml(again) == text);
  CHECK(again.source.values == recipe.source.values);
  CHECK(again.optimizer.values.get_double("lr") == 1e-300);
  CHECK(again.transforms.get<ir::Doubles>("mean") == ir::Doubles{0.1, 3});
  CHECK(again.plugins.size() == 2);
  CHECK(again.plugins[0].values == recipe.plugins[0].values);
}

TEST_CASE("A choice of auto, true and false takes a boolean; another does not") {
  const auto class_token = [](const Recipe& recipe) {
    return ir::settle(models::find_model("vit").schema, recipe.model.values, "model")
        .get_string("class_token");
  };
  const Recipe recipe = parse_recipe("[model]\nclass_token = true\n", "r.toml");
  CHECK(class_token(recipe) == "true");
  CHECK(class_token(parse_recipe(to_toml(recipe), "again.toml")) == "true");
  for (const char* word : {"auto", "true", "false"})
    CHECK(class_token(parse_recipe("", "r.toml", {std::string("model.class_token=") + word})) == word);
  CHECK_THAT(fault("[model]\nclass_token = 1"),
             REWIRE_CATCH_CONTAINS("r.toml:2: model.class_token takes one of auto|true|false, not "));
  CHECK_THAT(fault("[model]\npool = true"),
             REWIRE_CATCH_CONTAINS("r.toml:2: model.pool takes one of token|avg, not "));
}

TEST_CASE("A preset's values stand where the recipe says nothing, and are written out") {
  const Recipe recipe = parse_recipe(R"(
[transforms]
scale = [0.5, 1.0]
preset = "dino"
)",
                                     "r.toml", {"transforms.grayscale_prob=0.4"});
  const ir::Attributes values = transform_values(recipe);
  CHECK(recipe.preset == "dino");
  CHECK(values.get<ir::Doubles>("scale") == ir::Doubles{0.5, 1});
  CHECK(values.get_double("grayscale_prob") == 0.4);
  CHECK(values.get_double("color_jitter_prob") == 0.8);
  CHECK(values.get_string("resize") == "bicubic");
  REQUIRE(views(recipe).size() == 3);
  CHECK(views(recipe)[2].name == "local");
  CHECK(views(recipe)[2].count == 8);
  CHECK(views(recipe)[2].size == 96);
  const std::string text = to_toml(recipe);
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("preset = \"none\"\n"));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("color_jitter_prob = 0.8\n"));
  const Recipe again = parse_recipe(text, "again.toml");
  CHECK(to_toml(again) == text);
  CHECK(again.views == views(recipe));
  CHECK(transform_values(again).get_double("grayscale_prob") == 0.4);
  // A preset over a recipe that says all of it itself.
  CHECK(test::message_of<UserError>([&] {
          parse_recipe(text, "run/recipe.toml", {"transforms.preset=mae"}, RecipeOf::run);
        }) == "transforms.preset=mae: the recipe sets all of its keys itself: remove the preset or the keys");
  // Another preset over a recipe that is silent.
  CHECK(transform_values(parse_recipe("", "r.toml", {"transforms.preset=mae"})).get<ir::Doubles>("scale") ==
        ir::Doubles{0.2, 1});
  CHECK(fault("[transforms]\npreset = \"deyt\"") ==
        "r.toml:2: transforms.preset=deyt is unknown: it takes one of none|deit|cifar_crop|dino|mae (did you "
        "mean "
        "'deit'?)");
}

TEST_CASE("A preset has values that its keys take") {
  for (const TransformPreset* preset : transform_presets()) {
    CAPTURE(preset->name);
    Recipe recipe = parse_recipe("", "r.toml", {"transforms.preset=" + std::string(preset->name)});
    const std::string text = to_toml(recipe);
    for (const auto& [name, value] : preset->values)
      CHECK_THAT(text, REWIRE_CATCH_CONTAINS("\n" + name + " = "));
    CHECK(to_toml(parse_recipe(text, "again.toml")) == text);
    CHECK(parse_recipe(text, "again.toml").views == preset->views);  // each key of a view is one
  }
}

TEST_CASE("Views are read and written, and refused by their lines") {
  const Recipe recipe = parse_recipe(R"(
[[view]]
name = "big"
count = 2
scale = [0.4, 1]
[[view]]
name = "small"
size = 96
horizontal_flip = true
)",
                                     "r.toml");
  const std::vector<ViewSpec> expected = {{"big", 2, 0, {{"scale", ir::Doubles{0.4, 1}}}},
                                          {"small", 1, 96, {{"horizontal_flip", true}}}};
  CHECK(recipe.views == expected);
  CHECK(views(recipe) == expected);
  CHECK(parse_recipe(to_toml(recipe), "again.toml").views == expected);
  CHECK(fault("[view]\nname = \"a\"") == "r.toml:1: views are a list: write [[view]]");
  CHECK(fault("[[view]]\ncount = 2") ==
        "r.toml:1: this [[view]] needs a name: lower-case letters, digits and _");
  CHECK(fault("[[view]]\nname = \"label\"") ==
        "r.toml:1: a batch already has a tensor 'label': give the view another name");
  CHECK(fault("[[view]]\nname = \"a\"\n[[view]]\nname = \"a\"") == "r.toml:3: there is already a view 'a'");
  CHECK(fault("[[view]]\nname = \"a\"\nsise = 4") ==
        "r.toml:3: unknown key view.sise (did you mean 'size'?)");
  CHECK_THAT(fault("[[view]]\nname = \"a\"\nmixup = 0.8"),
             REWIRE_CATCH_CONTAINS("r.toml:3: unknown key view.mixup"));
  CHECK(fault("[[view]]\nname = \"a\"\ncount = 0") ==
        "r.toml:3: view.count=0 is out of range: it takes an int 1 to 1000");
  CHECK(fault("", {"view.count=3"}) ==
        "--set view.count=3: views can only be set in the recipe's file: [[view]]");
}

TEST_CASE("--set overrides the file in order, and text that is no TOML is a string") {
  const Recipe recipe = parse_recipe(kWhole, "r.toml",
                                     {"seed=9", "model.dim=64", "model.dim=128", "optimizer.name=sgd",
                                      "data.path=/other/folder", "data.format=\"idx\"", "optimizer.lr=1",
                                      "transforms.horizontal_flip=false", "train.weights=2024-01-01"});
  CHECK(recipe.seed == 9);
  CHECK(recipe.model.values.get_int("dim") == 128);
  CHECK(recipe.optimizer.name == "sgd");
  CHECK(recipe.source.values.get_string("path") == "/other/folder");
  CHECK(recipe.source.name == "idx");
  CHECK(recipe.optimizer.values.get_double("lr") == 1.0);
  CHECK_FALSE(recipe.transforms.get_bool("horizontal_flip"));
  CHECK(recipe.train.weights == "2024-01-01");
}

/// "" where the settings are accepted.
std::string fault_of(const std::vector<std::string>& settings) {
  try {
    parse_recipe("", "r.toml", settings);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

/// What to set, so that `key` has an effect, and so that it has none.
struct Effect {
  std::string key, value;
  std::vector<std::string> with, without;
};
const std::vector<Effect> kEffects = {
    {"data.path", "/p", {"data.format=idx"}, {"data.format=synthetic"}},
    {"data.count", "1024", {"data.format=synthetic"}, {}},
    {"optimizer.beta1", "0.9", {}, {"optimizer.name=sgd"}},
    {"optimizer.beta2", "0.999", {}, {"optimizer.name=sgd"}},
    {"optimizer.eps", "1e-8", {}, {"optimizer.name=sgd"}},
    {"optimizer.momentum", "0.9", {"optimizer.name=sgd"}, {}},
    {"optimizer.nesterov", "true", {"optimizer.name=sgd"}, {"optimizer.name=adamw"}},
    {"schedule.min_lr", "0", {"schedule.name=cosine"}, {"schedule.name=multistep"}},
    {"schedule.milestones", "[1]", {"schedule.name=multistep"}, {"schedule.name=cosine"}},
    {"schedule.gamma", "0.1", {"schedule.name=multistep"}, {}},
    {"model.dim", "64", {}, {"model.name=m.rir"}},
    {"model.dropout", "0", {"model.name=vit_tiny_28"}, {"model.name=m.rir"}},
};

TEST_CASE("A setting without effect is refused, whatever it is set to and wherever the choice is made") {
  for (const Effect& effect : kEffects) {
    CAPTURE(effect.key);
    std::vector<std::string> settings = {effect.key + "=" + effect.value};
    const std::string setting = settings.front();
    settings.insert(settings.end(), effect.with.begin(), effect.with.end());
    CHECK_NOTHROW(parse_recipe("", "r.toml", settings));
    settings = effect.without;
    settings.push_back(setting);
    CHECK_THAT(fault("", settings), Catch::Matchers::StartsWith("--set " + setting + ": " + effect.key +
                                                                " has no effect here, it needs "));
  }
  CHECK(fault("", {"optimizer.momentum=0.9"}) ==
        "--set optimizer.momentum=0.9: optimizer.momentum has no effect here, it needs "
        "optimizer.name=lars|muon|sgd: remove it");
}

TEST_CASE("A key of one resident has an effect where that is selected, and is refused elsewhere") {
  Recipe recipe;
  const std::vector<RecipeKey> keys = recipe_keys(recipe);
  for (const RecipeKey& key : keys) {
    if (key.only.holds == nullptr || key.section == "model") continue;
    CAPTURE(key.path());
    const auto chooser = std::ranges::find_if(keys, [&](const RecipeKey& other) {
      return other.section == key.section && !other.spec.values.empty();
    });
    const std::string text = key.spec.default_text.empty() ? "\"\"" : key.spec.default_text;
    std::size_t accepted = 0;
    for (const std::string& choice : chooser->spec.values) {
      const std::vector<std::string> settings = {chooser->path() + "=" + choice, key.path() + "=" + text};
      if (fault_of(settings).empty()) {
        CHECK(key.only.text.find(choice) != std::string::npos);
        ++accepted;
      } else {
        CHECK_THAT(fault_of(settings),
                   REWIRE_CATCH_CONTAINS(" has no effect here, it needs " + key.only.text));
      }
    }
    CHECK(accepted > 0);
    CHECK(accepted < chooser->spec.values.size());
  }
}

TEST_CASE("A key without effect is refused in a file by the file's own choices") {
  const std::string file = "[data]\npath = \"/p\"\n[optimizer]\nbeta1 = 0.8\n";
  CHECK_NOTHROW(parse_recipe(file, "r.toml"));
  // What another choice makes of it is no fault of the file.
  CHECK_NOTHROW(parse_recipe(file, "r.toml", {"data.format=synthetic", "optimizer.name=sgd"}));
  std::vector<std::string_view> with_beta1;
  for (const programs::OptimizerRow* row : programs::optimizers()) {
    if (ir::find_parameter(row->schema, "beta1") != nullptr) with_beta1.push_back(row->name);
  }
  CHECK(fault(file + "name = \"sgd\"\n") ==
        fmt::format("r.toml:4: optimizer.beta1 has no effect here, it needs optimizer.name={}: remove it",
                    fmt::join(with_beta1, "|")));
  // Recipes that were written by earlier versions hold every key, with its default.
  CHECK_NOTHROW(
      parse_recipe("[optimizer]\nname = \"sgd\"\nbeta1 = 0.9\n[schedule]\nmilestones = []\n", "r.toml"));
  // And those of a run with another value than that, where a choice was overridden.
  CHECK(parse_recipe(file + "name = \"sgd\"\n", "r.toml", {}, RecipeOf::run)
            .optimizer.values.get_double("beta1") == 0.8);
}

TEST_CASE("A written recipe holds no key without effect") {
  const std::string text =
      to_toml(parse_recipe("[data]\npath = \"/p\"\n", "r.toml", {"data.format=synthetic"}));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("\ncount = ") && REWIRE_CATCH_CONTAINS("\nbeta1 = ") &&
                       !REWIRE_CATCH_CONTAINS("\npath = ") && !REWIRE_CATCH_CONTAINS("\nmomentum = ") &&
                       !REWIRE_CATCH_CONTAINS("\nmilestones = ") && !REWIRE_CATCH_CONTAINS("\nmin_lr = "));
  CHECK_NOTHROW(parse_recipe(text, "r.toml"));
}

TEST_CASE("train.dtype says how a network is computed, and a stream in bf16 asks for it") {
  CHECK_FALSE(mixed_precision(parse_recipe("", "r.toml")).has_value());
  const auto computed = [](std::vector<std::string> settings) {
    return mixed_precision(parse_recipe("", "r.toml", settings)).value().stream;
  };
  CHECK(computed({"train.dtype=bf16"}) == ir::DType::f32);
  CHECK(computed({"train.dtype=bf16", "train.stream_dtype=bf16"}) == ir::DType::bf16);
  CHECK(test::message_of<UserError>([&] {
          mixed_precision(parse_recipe("", "r.toml", {"train.stream_dtype=bf16"}));
        }) == "train.stream_dtype is bf16 but train.dtype is f32; set train.dtype=bf16 too");
}

TEST_CASE("Diagnostics are words joined by + or a list of strings, each a known one") {
  const auto what = [](std::string_view text, const std::vector<std::string>& overrides = {}) {
    return parse_recipe(text, "r.toml", overrides).diagnose.what;
  };
  CHECK(what("") == programs::default_diagnostics());
  CHECK(what("[diagnose]\nwhat = [\"rank\", \"streams\"]\n") == "rank+streams");
  CHECK(what("[diagnose]\nwhat = \"entropy+conditioning\"\n") == "entropy+conditioning");
  CHECK(what("", {"diagnose.what=rank+gradients"}) == "rank+gradients");
  CHECK(what("", {"diagnose.what=[\"rank\"]"}) == "rank");
  const std::string known =
      "; choose from streams, rank, diversity, similarity, entropy, gradients, parameters, conditioning";
  CHECK(fault("[diagnose]\nevery = 5\nwhat = [\"rank\", \"entropie\"]\n") ==
        "r.toml:3: diagnose.what: unknown diagnostic 'entropie' (did you mean 'entropy'?)" + known);
  CHECK(fault("[diagnose]\nwhat = []\n") == "r.toml:2: diagnose.what: unknown diagnostic ''" + known);
  CHECK(fault("[diagnose]\nwhat = [1]\n") == "r.toml:2: diagnose.what takes text, not the integer 1");
  CHECK(fault("", {"diagnose.what=rank+rank"}) ==
        "--set diagnose.what=rank+rank: diagnose.what: 'rank' appears twice");
  CHECK(fault("", {"diagnose.every=-1"}) ==
        "--set diagnose.every=-1: diagnose.every=-1 is out of range: it takes an int 0 to 1000000000");
  CHECK_THAT(fault("[diagnose]\nimages = -3\n"),
             REWIRE_CATCH_CONTAINS("r.toml:2: diagnose.images=-3 is out of range"));
  CHECK(fault("[diagnose]\nevry = 1\n") == "r.toml:2: unknown key diagnose.evry (did you mean 'every'?)");
}

TEST_CASE("An unknown key is refused with its line and the nearest match") {
  CHECK(fault("[train]\nbatch = 1\nepoch = 3\n") ==
        "r.toml:3: unknown key train.epoch (did you mean 'epochs'?)");
  CHECK(fault("[train]\nlr = 3\n") == "r.toml:2: unknown key train.lr (did you mean 'optimizer.lr'?)");
  CHECK(fault("[train]\nzzzzzzz = 3\n") == "r.toml:2: unknown key train.zzzzzzz");
  CHECK(fault("[optimiser]\n") == "r.toml:1: unknown section [optimiser] (did you mean 'optimizer'?)");
  CHECK(fault("[train]\n\"a\\nb\" = 3\n") == "r.toml:2: unknown key train.a\\x0ab");
  CHECK(fault("sead = 1") == "r.toml:1: unknown key sead (did you mean 'seed'?)");
  CHECK(fault("model = 'vit'") == "r.toml:1: model is a section: write [model]");
  CHECK(fault("", {"train.epoch=1"}) ==
        "--set train.epoch=1: unknown key train.epoch (did you mean 'epochs'?)");
  CHECK(fault("", {"trian.epochs=1"}) ==
        "--set trian.epochs=1: unknown section [trian] (did you mean 'train'?)");
}

std::string optimizer_names() {
  return fmt::format("{}", fmt::join(ir::row_names(programs::optimizers()), "|"));
}

TEST_CASE("A value of the wrong type is refused with the type that is expected") {
  CHECK(fault("[model]\ndim = 'big'") == "r.toml:2: model.dim takes an int 1 to 65536, not the string 'big'");
  CHECK(fault("[model]\ndim = 1.5") == "r.toml:2: model.dim takes an int 1 to 65536, not the number 1.5");
  CHECK(fault("[optimizer]\nlr = true") == "r.toml:2: optimizer.lr takes a float >= 0, not true");
  CHECK(fault("[optimizer]\nname = 3") ==
        fmt::format("r.toml:2: optimizer.name takes one of {}, not the integer 3", optimizer_names()));
  CHECK(fault("[optimizer]\nnesterov = 1") == "r.toml:2: optimizer.nesterov takes a bool, not the integer 1");
  CHECK(fault("[transforms]\nmean = 0.5") ==
        "r.toml:2: transforms.mean takes a list of floats, not the number 0.5");
  CHECK(fault("[transforms]\nmean = [1, 'x']") ==
        "r.toml:2: transforms.mean takes a list of floats; element 1 is the string 'x'");
  CHECK(fault("[train]\nbatch = [3]") == "r.toml:2: train.batch takes an int 1 to 1000000, not a list");
  CHECK(fault("", {"model.dim=big"}) ==
        "--set model.dim=big: model.dim takes an int 1 to 65536, not the string 'big'");
}

TEST_CASE("A value out of range, or none of the choices, is refused") {
  CHECK(fault("[train]\nbatch = 0") ==
        "r.toml:2: train.batch=0 is out of range: it takes an int 1 to 1000000");
  CHECK(fault("[optimizer]\nbeta1 = 1.5") ==
        "r.toml:2: optimizer.beta1=1.5 is out of range: it takes a float >= 0 and < 1");
  CHECK(fault("[transforms]\nstd = [0]") ==
        "r.toml:2: transforms.std=0 is out of range: it takes a list of floats > 0");
  CHECK(fault("[optimizer]\nlr = nan") ==
        "r.toml:2: optimizer.lr=nan is not a finite float: it takes a float >= 0");
  CHECK(fault("[optimizer]\nlr = inf") ==
        "r.toml:2: optimizer.lr=inf is not a finite float: it takes a float >= 0");
  CHECK(fault("[optimizer]\nname = 'adamv'") ==
        fmt::format("r.toml:2: optimizer.name=adamv is unknown: it takes one of {} (did you mean 'adamw'?)",
                    optimizer_names()));
}

TEST_CASE("A plugin of the wrong form is refused") {
  CHECK(fault("[plugin]\nname = 'a'") == "r.toml:1: plugins are a list: write [[plugin]]");
  CHECK(fault("plugin = [1]") == "r.toml:1: plugins are a list of sections: write [[plugin]]");
  CHECK(fault("[[plugin]]\nlayers = 1") == "r.toml:1: this [[plugin]] has no name");
  CHECK(fault("[[plugin]]\nname = 3") == "r.toml:2: plugin.name takes a string, not the integer 3");
  CHECK(fault("[[plugin]]\nname = 'a'\nb = [[1]]") ==
        "r.toml:3: plugin parameter 'b' takes a value or a non-empty list, not a list of lists");
  CHECK(fault("[[plugin]]\nname = 'a'\nb = {c = 1}") ==
        "r.toml:3: plugin parameter 'b' takes a value, not a section");
  CHECK(fault("", {"plugin.name=a"}) == "--set plugin.name=a: plugins are set by --plugin NAME:key=value");
}

TEST_CASE("Text that is no TOML is refused with its line") {
  CHECK(fault("on = tru\nx = 1") == "r.toml:1: Error while parsing boolean: expected 'true', saw 'tru '");
  CHECK_THAT(fault("[model]\ndim = \n"), REWIRE_CATCH_CONTAINS("r.toml:2: "));
  CHECK_THAT(fault("[model]\n[model]\n"), REWIRE_CATCH_CONTAINS("r.toml:2: "));
  CHECK(fault("", {"train.batch"}) == "--set train.batch: it takes the form section.key=value");
  CHECK(fault("", {"=3"}) == "--set =3: it takes the form section.key=value");
  CHECK(fault("", {"train.batch="}) == "--set train.batch=: it takes the form section.key=value");
  CHECK(fault("", {"train.dtype="}) == "--set train.dtype=: it takes the form section.key=value");
  // One override sets one key, whatever its text smuggles in.
  CHECK(fault("", {"train.batch=3\nseed = 5"}) ==
        "--set train.batch=3\\x0aseed = 5: train.batch takes an int 1 to 1000000, not the string '3\\x0aseed "
        "= 5'");
}

TEST_CASE("Deep nesting is refused, and so is a text too large to be a recipe") {
  const auto repeated = [](std::string_view text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  CHECK(fault("x = 1.5\n" + repeated("a.", 32000) + "a = 1\n") == "r.toml:2: a key has more than 16 parts");
  CHECK(fault("[" + repeated("\"a\" . ", 16) + "a]") == "r.toml:1: a key has more than 16 parts");
  // Dots in a string part nothing, behind a byte-order mark as well.
  CHECK(fault("\xEF\xBB\xBF\"" + repeated("a.", 16) + "\" = 1\n").starts_with("r.toml:1: unknown "));
  CHECK(fault(repeated("a.", 15) + "a = 1\n") == "r.toml:1: unknown section [a]");
  // As deep as toml++ and keys of 16 parts allow.
  const std::string key = repeated("a.", 15) + "a = ";
  CHECK(fault(key + repeated("{" + key, 127) + "1" + repeated("}", 127)) == "r.toml:1: unknown section [a]");
  CHECK(fault("[transforms]\nmean = [" + repeated("0.5, ", 1000) + "0.5]\nx = 1").starts_with("r.toml:3: "));
  CHECK(fault("a = " + repeated("[", 60000)).starts_with("r.toml:1: "));
  CHECK(fault("a = " + repeated("{a = ", 12000)).starts_with("r.toml:1: "));
  CHECK(fault(repeated("# text\n", 10000)) ==
        "r.toml: 70000 bytes are too many for a recipe: the maximum is 65536");
  CHECK(fault("", {"model.dim=" + repeated("[", 70000)}).ends_with(": 70010 bytes are too many for a value"));
  CHECK(test::message_of<UserError>([] { read_recipe(FilePlace::of_user("/dev/zero")); }) ==
        "cannot read /dev/zero: it is larger than 65536 bytes");
}

TEST_CASE("Text beyond ASCII may stand wherever TOML has it, and is an error elsewhere") {
  const auto accepted = [](std::string_view text) { return parse_recipe(text, "r.toml").train.weights; };
  CHECK(accepted("\xEF\xBB\xBF# \u03E7\n[train]\nweights = \"/gr\u00F6\u00DFe\" # \u00A7\n") ==
        "/gr\u00F6\u00DFe");
  CHECK(accepted("[train]\nweights = '\u00A7\\' # ok") == "\u00A7\\");
  CHECK(accepted("[train]\nweights = \"\\\"\u00A7\"") == "\"\u00A7");
  CHECK(accepted("[train]\nweights = \"\"\"a\"\"\"\"\" # \u00A7") == "a\"\"");
  CHECK(accepted("[train]\nweights = \"\"\"\\\n \u00A7\u0416\n\U0001F600\"\"\"") ==
        "\u00A7\u0416\n\U0001F600");
  // What an escape spells is kept, also where it is the character that stands for another meanwhile.
  CHECK(accepted("[train]\nweights = \"\u00A7\\ue000\\uE001\uE000\"") == "\u00A7\uE000\uE001\uE000");
  CHECK(parse_recipe("", "r.toml", {"train.weights=\u00A7"}).train.weights == "\u00A7");
  CHECK(fault("[train]\n\"\u03E7\" = 1") == "r.toml:2: unknown key train.\u03E7");
  CHECK(fault("# a\n\u03E7 = 1").starts_with("r.toml:2: "));
  CHECK(fault("seed = 1 \u00A7").starts_with("r.toml:1: "));
  CHECK(fault("a = \"\"\"\\\u00A7\"\"\"").starts_with("r.toml:1: "));
  CHECK(fault("seed = 0\"\u00A7\"").starts_with("r.toml:1: "));
  CHECK(fault("[optimizer]\nlr = 0e400[\"/gr\u00F6\u00DFe").starts_with("r.toml:2: "));
  CHECK(fault("a = \"unclosed\n\u00A7").starts_with("r.toml:"));
  CHECK(fault("a = \"\xC3\xA7\xFF\"").starts_with("r.toml:1: "));
  CHECK(fault("a = \"\xED\xA0\x80\"").starts_with("r.toml:1: "));
}

TEST_CASE("More characters beyond ASCII than can be told apart are refused") {
  std::string text = "# ";
  for (int c = 0x4E00; c < 0x4E00 + 6500; ++c) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
  CHECK(fault(text) == "r.toml: it has too many different characters beyond ASCII, more than 6000");
}

TEST_CASE("A missing recipe is refused by its name") {
  CHECK(test::message_of<UserError>([] { read_recipe("/nowhere/r.toml"); }) ==
        "cannot read /nowhere/r.toml: No such file or directory");
}

TEST_CASE("Epochs become steps") {
  const Recipe recipe = parse_recipe(kWhole, "r.toml");
  const programs::TrainOptions options = train_options(recipe, 937);
  CHECK(options.schedule.name == "multistep");
  const auto steps = [&](double epochs) { return options.timeline.steps(epochs); };
  CHECK(steps(options.schedule.values.get_double("warmup_epochs")) == 469);  // 468.5 rounds away from zero
  CHECK(options.timeline.total_steps == 4 * 937);
  const ir::Doubles& milestones = options.schedule.values.get<ir::Doubles>("milestones");
  CHECK(steps(milestones.at(0)) == 2 * 937);
  CHECK(steps(milestones.at(1)) == 3280);  // 3279.5
  CHECK(options.clip_norm == 1);
  CHECK(options.accumulate == 2);
  CHECK(options.optimizer.name == "sgd");
}

TEST_CASE("No two keys have one path, and those that name files say so") {
  Recipe recipe;
  std::set<std::string> paths, files;
  for (const RecipeKey& key : recipe_keys(recipe)) {
    CAPTURE(key.path());
    CHECK(paths.insert(key.path()).second);
    if (key.spec.is_path) files.insert(key.path());
  }
  CHECK(files == std::set<std::string>{"data.cache", "data.class_map", "data.path", "data.train_list",
                                       "data.validation", "train.weights"});
}

TEST_CASE("--plugin replaces the recipe's plugins, and a lone none clears them") {
  Recipe recipe = parse_recipe(kWhole, "r.toml");
  override_plugins(recipe, {});
  CHECK(recipe.plugins.size() == 2);
  override_plugins(recipe, {"third:mode=b,layers=0+2"});
  REQUIRE(recipe.plugins.size() == 1);
  CHECK(recipe.plugins[0].name == "third");
  const std::vector<std::pair<std::string, std::string>> values = {{"mode", "b"}, {"layers", "0+2"}};
  CHECK(recipe.plugins[0].values == values);
  override_plugins(recipe, {"none"});
  CHECK(recipe.plugins.empty());
  CHECK(test::message_of<UserError>([&] { override_plugins(recipe, {"none", "third"}); }) ==
        "--plugin none clears the list of plugins: it cannot be combined with another --plugin");
}

}  // namespace
}  // namespace rewire::runtime
