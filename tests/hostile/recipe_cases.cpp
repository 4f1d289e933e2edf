// A recipe: each key with values of another type and beyond its bounds, and text that is no TOML.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/recipe/keys.h"
#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

using ir::ParameterKind;

const std::string kFile = "r.toml";

std::string line(const runtime::RecipeKey& key, const std::string& value) {
  return fmt::format("{}{} = {}\n", key.section.empty() ? "" : fmt::format("[{}]\n", key.section),
                     key.spec.name, value);
}

/// Values that no key of this type takes.
std::vector<std::string> of_other_types(const runtime::RecipeKey& key) {
  const ParameterKind kind = key.spec.kind;
  const bool word = kind == ParameterKind::text || kind == ParameterKind::choice;
  const bool takes_true = kind == ParameterKind::boolean || std::ranges::count(key.spec.values, "true") > 0;
  std::vector<std::string> values = {"{ a = 1 }", "2024-01-01", "[[1]]", "[\"a\"]"};
  if (!word) values.emplace_back("\"text\"");
  if (!takes_true) values.emplace_back("true");
  if (kind == ParameterKind::integer) values.emplace_back("1.5");
  if (word || kind == ParameterKind::boolean) values.emplace_back("1");
  if (kind != ParameterKind::numbers) values.emplace_back("[]");
  return values;
}

/// Numbers just beyond the bounds, and those that are none.
std::vector<std::string> beyond(const runtime::RecipeKey& key) {
  const bool list = key.spec.kind == ParameterKind::numbers, whole = key.spec.kind == ParameterKind::integer;
  const auto& [min, max, min_excluded, max_excluded] = key.spec.bounds;
  if (!list && !whole && key.spec.kind != ParameterKind::number) return {};
  std::vector<std::string> values;
  const auto add = [&](const std::string& value) { values.push_back(list ? "[" + value + "]" : value); };
  if (!whole) {
    for (const char* value : {"nan", "inf", "-inf"}) add(value);
  }
  if (std::isfinite(min)) add(fmt::format("{}", min - 1));
  if (min_excluded) add(fmt::format("{}", min));
  if (max_excluded) add(fmt::format("{}", max));
  if (max < 1e18) add(fmt::format("{:.0f}", max + (max < 4e15 ? 1 : 4)));
  if (whole) add("9223372036854775808");  // beyond 64 bits
  return values;
}

void add_keys(Table& table) {
  runtime::Recipe recipe;
  for (const runtime::RecipeKey& key : runtime::recipe_keys(recipe)) {
    const std::string path = key.path();
    const auto refuse = [&](const std::string& value, const std::string& phrase) {
      table.row(fmt::format("{} = {}", path, value), {put(kFile, line(key, value))},
                refused("@/r.toml:", phrase));
    };
    for (const std::string& value : of_other_types(key)) refuse(value, path);
    for (const std::string& value : beyond(key)) refuse(value, value == "9223372036854775808" ? "" : path);
    if (!key.spec.values.empty()) refuse("\"nothing\"", path);
  }
}

/// What only the network can judge: sizes.
void add_sizes(Table& table) {
  for (const char* key : {"dim", "depth", "heads", "patch", "image", "channels", "classes"}) {
    for (const char* value : {"0", "-1", "1000000007", "9223372036854775807"}) {
      const bool headless = std::string_view(key) == "classes" && std::string_view(value) == "0";
      table.row(fmt::format("model.{} = {}, of the network", key, value),
                {put(kFile, fmt::format("[model]\nname = \"vit_tiny_28\"\n{} = {}\n", key, value))},
                headless ? fine() : refused("model.", key));
    }
  }
  for (const char* key : {"drop_path", "dropout"}) {
    for (const char* value : {"-0.1", "1", "1e300"})
      table.row(fmt::format("model.{} = {}, of the network", key, value),
                {put(kFile, fmt::format("[model]\n{} = {}\n", key, value))}, refused("model.", key));
  }
  for (const char* value : {"0", "-1", "1e-9", "1e300"})
    table.row(fmt::format("model.mlp_ratio = {}, of the network", value),
              {put(kFile, fmt::format("[model]\nmlp_ratio = {}\n", value))}, refused("model.mlp_ratio"));
}

void add_text(Table& table) {
  const auto refuse = [&](const std::string& what, std::string text, const std::string& phrase = "") {
    table.row(what, {put(kFile, std::move(text))}, refused("@/r.toml", phrase));
  };
  refuse("no TOML", "what is this", ":1");
  refuse("a key twice", "seed = 1\nseed = 2\n", ":2");
  refuse("a section twice", "[model]\n[train]\n[model]\n", ":3");
  refuse("an unknown key", "sed = 1\n", ":1: unknown key sed");
  refuse("an unknown section", "[mdoel]\ndim = 1\n", "unknown section [mdoel]");
  refuse("a section as a key", "model = 1\n", "model");
  refuse("an open string", "[model]\nname = \"vit\n", ":2");
  refuse("an open section", "[model\n", ":1");
  refuse("no UTF-8", "# \xff\xfe\n", "");
  refuse("a zero", std::string("seed = 1\0\n", 10), "");
  refuse("a path with a zero", "[data]\npath = \"/tmp\\u0000/x\"\n", "data.path");
  refuse("weights with a zero", "[train]\nweights = \"a\\u0000b\"\n", "train.weights");
  for (const char* name : {"vit\\u0000", "\\u001b]0;x\\u0007\\u202e\\u009b"})
    table.row(std::string("the model ") + name,
              {put(kFile, std::string("[model]\nname = \"") + name + "\"\n")}, refused("model"));
  refuse("a key that turns a terminal", "\"\\u001b[2J\\u202e\" = 1\n", "unknown key");
  refuse("a section that turns a terminal", "[\"\\u001b[2J\\u2066\"]\na = 1\n", "unknown section");
  refuse("lists, 20,000 deep", "seed = " + std::string(20'000, '['), ":1");
  refuse(
      "tables, 20,000 deep",
      "seed = " +
          [] {
            std::string open;
            for (int i = 0; i < 20'000; ++i) open += "{a=";
            return open;
          }(),
      ":1");
  refuse(
      "a key of 30,000 parts", "a" + [] {
        std::string parts;
        for (int i = 0; i < 30'000; ++i) parts += ".a";
        return parts;
      }() + " = 1\n");
  refuse("a key of a megabyte", std::string(1 << 20, 'k') + " = 1\n");
  refuse("a string of a megabyte", "[model]\nname = \"" + std::string(1 << 20, 'n') + "\"\n");
  refuse("a gigabyte of blanks", std::string(std::size_t{64} << 20, ' '), "");
  refuse("100,000 plugins", [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += "[[plugin]]\nname = \"a\"\n";
    return text;
  }());
  refuse("a plugin that is a table", "[plugin]\nname = \"gain\"\n", "[[plugin]]");
  refuse("a plugin that is a word", "plugin = \"gain\"\n", "[[plugin]]");
  refuse("a list of words as plugins", "plugin = [\"gain\"]\n", "[[plugin]]");
  refuse("a plugin without a name", "[[plugin]]\nfactor = 1\n", "name");
  refuse("a plugin whose name is a number", "[[plugin]]\nname = 1\n", "plugin.name");
  refuse("a plugin's value that is a table", "[[plugin]]\nname = \"gain\"\nfactor = {a = 1}\n", "factor");
  refuse("a plugin's value that is a list of lists", "[[plugin]]\nname = \"gain\"\nfactor = [[1]]\n",
         "factor");
  for (const char* number : {"0x", "1__0", "+-1", "1e", "0b2", "9223372036854775808", "1.", ".5", "00"})
    refuse(std::string("the number ") + number, std::string("seed = ") + number + "\n", ":1");
}

/// Numbers that only a training meets: each is refused, or the run is as it is without.
void add_limits(std::vector<Case>& cases) {
  Table table(cases, "limits");
  const auto refuse = [&](const std::string& setting, const std::string& key) {
    table.row(setting, Words{"train"} + kModel + kTraining + Words{"--out", "@/run", "--set", setting}, {},
              refused(key));
  };
  refuse("train.batch=9223372036854775807", "batch");
  refuse("train.batch=1000000000", "batch");
  refuse("train.accumulate=9223372036854775807", "train.accumulate");
  refuse("eval.batch=9223372036854775807", "batch");
  refuse("data.count=9223372036854775807", "data.count");
  refuse("data.count=1000000000000", "data.count");
  refuse("data.count=7", "train.batch");
  refuse("transforms.crop_padding=9223372036854775807", "crop_padding");
  refuse("transforms.crop_padding=9223372036854775000", "crop_padding");
  refuse("transforms.crop_padding=4611686018427387904", "crop_padding");
  refuse("transforms.mean=[0.1, 0.2]", "transforms.mean");
  refuse("transforms.mean=[]", "transforms.mean");
  refuse("transforms.std=[]", "transforms.std");
  refuse("transforms.std=[1e-320]", "transforms.std");
  refuse("schedule.warmup_epochs=1e300", "schedule.warmup_epochs");
  refuse("train.epochs=1000000001", "train.epochs");
  refuse("train.max_steps=-1", "train.max_steps");
  refuse("train.max_steps=1000000001", "train.max_steps");
  refuse("optimizer.momentum=0.5", "optimizer.name=lars|muon|sgd");
  refuse("train.checkpoint_every=0", "train.checkpoint_every");
  refuse("train.weights=/nowhere.safetensors", "/nowhere.safetensors");
  refuse("train.weights=/", "/");
  table.row("no data path",
            Words{"train"} + kModel +
                Words{"--out", "@/run", "--quiet", "--set", "train.batch=8", "--set", "data.path=\"\""},
            {}, refused("data.path"));
  table.row(
      "milestones beyond what a step counts",
      Words{"train"} + kModel + kTraining +
          Words{"--out", "@/run", "--set", "schedule.name=multistep", "--set", "schedule.milestones=[6e17]"},
      {}, refused("schedule.milestones"));
}

}  // namespace

void add_recipe_cases(std::vector<Case>& cases) {
  Table table(cases, "recipe", {"dump", "@/r.toml", "--stage", "ir", "--quiet"});
  table.row("sound", {put(kFile, "seed = 3\n[model]\nname = \"vit_tiny_28\"\n")}, fine());
  Table odd(cases, "recipe", {"dump", "@/r.toml", "--stage", "ir", "--quiet"}, {put(kFile, "seed = 3\n")});
  odd.row("a folder", {become_folder(kFile)}, refused("@/r.toml"));
  odd.row("a link to itself", {become_link(kFile, "./r.toml")}, refused("@/r.toml"));
  odd.row("a link to nothing", {become_link(kFile, "/nowhere")}, refused("@/r.toml"));
  odd.row("a device that never ends", {become_link(kFile, "/dev/zero")}, refused("@/r.toml"));
  odd.row("a terabyte", {become_huge(kFile)}, refused("@/r.toml"));
  odd.row("not to be read", {forbid(kFile)}, refused("@/r.toml"));
  add_text(table);
  add_sizes(table);
  add_keys(table);
  add_limits(cases);
}

}  // namespace rewire::test
