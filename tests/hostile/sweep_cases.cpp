// A sweep's file, and the records that an earlier call left.
#include <nlohmann/json.hpp>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

const std::string kFile = "sweep.toml";

void add_files(std::vector<Case>& cases) {
  Table table(cases, "sweep", {"sweep", "@/sweep.toml", "--out", "@/out", "--quiet"},
              {copy(good().file(kFile), kFile)});
  const std::string sound = good().bytes(kFile);
  const auto refuse = [&](const std::string& what, std::string text, const std::string& phrase = "") {
    table.row(what, {put(kFile, std::move(text))}, refused("@/sweep.toml", phrase));
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = sound;
    return text.replace(text.find(from), from.size(), to);
  };
  refuse("empty", "", "recipe");
  refuse("no TOML", "{{{{");
  refuse("no UTF-8", "\xff\xfe");
  refuse("a zero", std::string("recipe = \"vit\0\"", 15));
  refuse("an unknown key", "x = 1\n" + sound, "unknown key x");
  for (const char* value : {"1", "[]", "{}", "true", "\"\"", "\"vit_tiny_82\"", "\"./\"", "\"/nowhere.toml\"",
                            "\"a\\u0000.toml\"", "\"\\u001b[2J\""})
    refuse(std::string("recipe = ") + value, with("\"vit_tiny_28\"", value));
  for (const char* value : {"1", "\"0\"", "[]", "[0.5]", "[\"0\"]", "[-1]", "[0, 0]", "[9223372036854775807]",
                            "[9223372036854775808]", "[[0]]", "{}", "[nan]"})
    refuse(std::string("seeds = ") + value, with("[0, 1]", value));
  for (const char* value :
       {"1", "\"none\"", "[]", "[1]", "[[]]", "[[1]]", "[[[\"none\"]]]", "{}", "[\"\"]", "[\":\"]",
        "[\"none\", \"none\"]", "[\"/nowhere.so\"]", "[\"gain:=1\"]", "[\"a\\nb\"]"})
    refuse(std::string("plugins = ") + value, with("[\"none\"]", value));
  for (const char* value : {"0", "-1", "\"wide\"", "[]", "[8, 8]", "[[8]]", "{}", "7", "nan", "[8, \"x\"]"})
    refuse(std::string("model.dim = ") + value, with("model.dim = 8", std::string("model.dim = ") + value));
  refuse("settings that are a list", "settings = []\n" + with("[settings]", "[other]"));
  refuse("a setting of the seed", sound + "seed = 1\n", "seed");
  refuse("a setting that is a section", sound + "model = 1\n");
  refuse("a setting of a plugin", sound + "plugin.name = \"gain\"\n");
  refuse("a setting twice", sound + "train.epochs = 3\n");
  refuse("more runs than there may be", with(
                                            "model.dim = 8", "optimizer.lr = [" +
                                                                 [] {
                                                                   std::string list;
                                                                   for (int i = 1; i < 200; ++i)
                                                                     list += std::to_string(i) + ",";
                                                                   return list;
                                                                 }() +
                                                                 "]\noptimizer.weight_decay = [" +
                                                                 [] {
                                                                   std::string list;
                                                                   for (int i = 1; i < 200; ++i)
                                                                     list += std::to_string(i) + ",";
                                                                   return list;
                                                                 }() +
                                                                 "]\nmodel.dim = 8"));
  refuse(
      "2^60 runs", sound + [] {
        std::string text;
        for (const char* key : {"optimizer.lr", "optimizer.eps", "optimizer.beta1", "optimizer.beta2",
                                "optimizer.momentum", "optimizer.weight_decay", "train.clip_norm",
                                "train.label_smoothing", "schedule.gamma", "schedule.min_lr"})
          text +=
              std::string(key) +
              " = "
              "[0.00,0.01,0.02,0.03,0.04,0.05,0.06,0.07,0.08,0.09,0.10,0.11,0.12,0.13,0.14,0.15,0.16,0.17]\n";
        return text;
      }());
  refuse("lists, 100,000 deep", "recipe = " + std::string(100'000, '['));
  refuse("a megabyte of a name", with("\"vit_tiny_28\"", "\"" + std::string(1 << 20, 'v') + "\""));
  for (const auto& [what, step] : std::vector<std::pair<std::string, Step>>{
           {"a folder", become_folder(kFile)},
           {"a link to itself", become_link(kFile, "./sweep.toml")},
           {"a device that never ends", become_link(kFile, "/dev/zero")},
           {"a terabyte", become_huge(kFile)},
           {"not to be read", forbid(kFile)}})
    table.row(what, {step}, refused("@/sweep.toml"));
}

/// What stands in the folder from before.
void add_folders(std::vector<Case>& cases) {
  const std::string record = "out/records/none-s0.json";
  Table table(cases, "swept", {"sweep", good().file(kFile), "--out", "@/out", "--quiet"},
              {copy(good().file("swept"), "out")});
  table.row("sound", {}, fine());
  const Expectation no = refused("@/out/records/none-s0.json");
  add_odd_files(table, record, Origin::folder, no);
  add_lost_links(table, record, no);
  const std::string text = good().bytes("swept/records/none-s0.json");
  add_no_json(table, record, text, no);
  add_wrong_json(table, record, nlohmann::ordered_json::parse(text), no);
  add_cuts(table, record, text.size() - 1, 6, no);
  table.row("of another status", {replace(record, "\"finished\"", "\"done\"")}, no);
  table.row("of another recipe", {replace(record, "lr = ", "lr = 1")}, refused("@/out"));
  table.row("a file in place of the folder", {put("out", "x")}, refused("@/out"));
  table.row("a file in place of runs", {put("out/runs", "x")}, refused("@/out/runs"));
  table.row("a file in place of records", {put("out/records", "x")}, refused("@/out/records"));
  table.row("a folder in place of a table", {become_folder("out/table.md")}, refused("@/out/table.md"));
  table.row("a folder that may not be written", {forbid("out", 0500)}, refused("@/out"));
  table.row("a link in place of a table", {become_link("out/runs.csv", "/nowhere/x.csv")},
            refused("@/out/runs.csv"));
}

}  // namespace

void add_sweep_cases(std::vector<Case>& cases) {
  add_files(cases);
  add_folders(cases);
}

}  // namespace rewire::test
