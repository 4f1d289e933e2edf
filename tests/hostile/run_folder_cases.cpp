// A run's folder: what stands in it, and what stands in its place.
#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"
#include "tests/hostile/judge.h"

namespace rewire::test {
namespace {

const std::string kCheckpoints = "run/checkpoints/";

void add_resumed(std::vector<Case>& cases) {
  Table table(cases, "run folder", {"train", "--resume", "@/run", "--quiet"},
              {copy(good().file("run"), "run")});
  const Expectation no = refused("@/run");
  add_odd_files(table, "run/recipe.toml", Origin::folder, no);
  const std::string metrics = "run/metrics.jsonl";
  table.row("metrics cut", {cut(metrics, 10)}, refused("@/" + metrics));
  table.row("metrics are a folder", {become_folder(metrics)}, refused("@/" + metrics));
  table.row("metrics are a pipe", {become_fifo(metrics)}, refused("@/" + metrics));
  table.row("metrics are a device", {become_link(metrics, "/dev/zero")}, refused("@/" + metrics));
  table.row("metrics may not be written", {forbid(metrics, 0400)}, refused("@/" + metrics));
  table.row("nothing may be written", {forbid("run", 0500)}, no);
  table.row("not to be read", {forbid("run")}, no);
  table.row("gone", {remove("run")}, no);
  table.row("a file in its place", {put("run", "x")}, no);
  table.row("a link to itself", {become_link("run", "./run")}, no);
  table.row("a pipe in its place", {become_fifo("run")}, no);
  table.row("empty", {become_folder("run")}, no);
  table.row("checkpoints are a file", {put("run/checkpoints", "x")}, no);
  table.row("checkpoints are a link to itself", {become_link("run/checkpoints", "./checkpoints")}, no);
  table.row("checkpoints may not be read", {forbid("run/checkpoints")}, no);
  table.row("a checkpoint is a file", {put(kCheckpoints + "0002-00000006", "x")}, no);
  table.row("a checkpoint is empty", {become_folder(kCheckpoints + "0002-00000006")}, no);
  table.row("a checkpoint may not be read", {forbid(kCheckpoints + "0002-00000006")}, no);
  for (const char* name : {"0003-00000007", "9999-99999999", "0002-00000007", "0003-00000006"})
    table.row(std::string("the last checkpoint is named ") + name,
              {remove(kCheckpoints + "0002-00000006"),
               copy(good().file(kCheckpoints + "0002-00000006"), kCheckpoints + name)},
              no);
  table.row("a checkpoint with a number of 30 digits is none",
            {become_folder(kCheckpoints + "0002-999999999999999999999999999999")}, fine());
  table.row("what is no checkpoint is left alone",
            {become_folder(kCheckpoints + "mine"), put("run/notes", "x")}, fine());
  table.row(
      "half-written ones are swept",
      {put(kCheckpoints + ".0003-00000007.1.tmp/weights.safetensors", "x"),
       put("run/.metrics.jsonl.1-0.tmp", "x")},
      fine([](const Ended&, const std::string& folder) {
        for (const std::string name : {"run/.metrics.jsonl.1-0.tmp", "run/checkpoints/.0003-00000007.1.tmp"})
          if (tree_of(folder).contains(name)) return name + " is still there";
        return std::string();
      }));
  table.row("its weights are a folder",
            {remove("run/weights.safetensors"), become_folder("run/weights.safetensors")}, no);
  for (const char* recipe :
       {"", "[model]\nname = \"vit_tiny_28\"\n", "seed = \"x\"\n", "[model]\nname = \"nowhere.rir\"\n"})
    table.row(std::string("the recipe '") + recipe + "'", {put("run/recipe.toml", recipe)}, refused("@/run"));
}

void add_other_commands(std::vector<Case>& cases) {
  Table table(cases, "run", {"eval", "@/run", "--quiet"}, {copy(good().file("run"), "run")});
  const Expectation no = refused("@/run");
  table.row("evaluated without a recipe", {remove("run/recipe.toml")}, no);
  table.row("evaluated without weights", {remove("run/checkpoints"), remove("run/weights.safetensors")}, no);
  table.row("evaluated, a file in its place", {put("run", "x")}, refused("run"));
  const Words begin = Words{"train"} + kModel + kTraining + Words{"--out"};
  table.row("begun where another stands", begin + Words{"@/run"}, {}, refused("@/run is not empty"));
  table.row("begun in a file", begin + Words{"@/run/recipe.toml"}, {}, refused("@/run/recipe.toml"));
  table.row("begun below a file", begin + Words{"@/run/recipe.toml/x"}, {}, refused("@/run/recipe.toml/x"));
  table.row("begun in a pipe", begin + Words{"@/pipe"}, {become_fifo("pipe")}, refused("@/pipe"));
  table.row("begun in a link to itself", begin + Words{"@/loop"}, {become_link("loop", "./loop")},
            refused("@/loop"));
  table.row("begun where nothing may be written", begin + Words{"@/run/x"}, {forbid("run", 0500)},
            refused("@/run/x"));
  table.row("begun in a device", begin + Words{"/dev/null"}, {}, refused("/dev/null"));
  table.row("begun below a device", begin + Words{"/dev/null/x"}, {}, refused("/dev/null/x"));
  table.row("begun in /proc", begin + Words{"/proc/x"}, {}, refused("/proc/x"));
  table.row("begun under a name of 300 bytes", begin + Words{"@/" + std::string(300, 'r')}, {},
            refused("@/rrrr"));
  table.row("begun under a path of 5,000 bytes",
            begin + Words{"@/" +
                          [] {
                            std::string path;
                            for (int i = 0; i < 1000; ++i) path += "rrrr/";
                            return path;
                          }()},
            {}, refused("@/rrrr"));
  table.row("begun under a name that turns a terminal",
            begin + Words{"@/run/recipe.toml/\x1b[2J\xe2\x80\xae"}, {}, refused("@/run/recipe.toml/"));
  table.row("begun under a name that is no UTF-8", begin + Words{"@/run/recipe.toml/\xff\x9b"}, {},
            refused("@/run/recipe.toml/"));
  table.row("begun under a name of two lines", begin + Words{"@/run/recipe.toml/a\nb"}, {},
            refused("@/run/recipe.toml/"));
}

}  // namespace

void add_run_folder_cases(std::vector<Case>& cases) {
  add_resumed(cases);
  add_other_commands(cases);
}

}  // namespace rewire::test
