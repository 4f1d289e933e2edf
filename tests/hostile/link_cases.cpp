// Folders of others with links in them: a run's, a sweep's, what repro wrote. Nothing is read, written or removed
// through one; the folder itself may be a link.
#include "tests/hostile/cases.h"
#include "tests/hostile/good.h"
#include "tests/hostile/judge.h"

namespace rewire::test {
namespace {

const std::string kLastCheckpoint = "checkpoints/0002-00000006";
const Words kGoOn = {"train", "--resume", "@/run", "--quiet", "--set", "train.epochs=3"};

/// Each part of `folder` in turn lies elsewhere, and a link is in its place.
void add_led_away(Table& table, const std::string& folder, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    const std::string name = folder + "/" + part;
    table.row(part + " is a link", {lead_away(name, "elsewhere")}, refused("@/" + name + " is a link: "));
  }
}

Table run_table(std::vector<Case>& cases, const std::string& subject, const Words& command) {
  return {cases, subject + " a run with links", command, {copy(good().file("run"), "run")}};
}

std::string lacks(const std::string& folder, const std::string& file) {
  return tree_of(folder).contains(file) ? "" : "there is no " + file;
}

void add_run(std::vector<Case>& cases) {
  const std::vector<std::string> read = {"recipe.toml",
                                         "choices.json",
                                         "checkpoints",
                                         kLastCheckpoint,
                                         kLastCheckpoint + "/checkpoint.json",
                                         kLastCheckpoint + "/weights.safetensors"};
  Table resumed = run_table(cases, "resumed", kGoOn);
  add_led_away(resumed, "run", read);
  add_led_away(resumed, "run",
               {"metrics.jsonl", "plugins.json", "plugins", "kernels", "pictures", "weights.safetensors",
                "weights_ema.safetensors", "checkpoints/last", "checkpoints/best",
                kLastCheckpoint + "/state.safetensors"});
  resumed.row("what a killed process left half-written is a link",
              {put("mine/file", "x"), become_link("run/checkpoints/.0003-00000007.1.tmp", "../../mine")},
              fine([](const Ended&, const std::string& folder) { return lacks(folder, "mine/file"); }));
  Table evaluated = run_table(cases, "evaluated", {"eval", "@/run", "--quiet"});
  add_led_away(evaluated, "run", read);
  evaluated.row("the weights of its end are a link",
                {remove("run/checkpoints"), lead_away("run/weights.safetensors", "elsewhere")},
                refused("@/run/weights.safetensors is a link: "));
  evaluated.row("checkpoints/best is a link", {"eval", "@/run", "--checkpoint", "best", "--quiet"},
                {lead_away("run/checkpoints/best", "elsewhere")},
                refused("@/run/checkpoints/best is a link: "));
  Table reported = run_table(cases, "reported", {"report", "@/run"});
  add_led_away(
      reported, "run",
      {"recipe.toml", "choices.json", "metrics.jsonl", "pictures", "report.html", "weights.safetensors"});
  reported.row("a picture is a link to a private file",
               {put("key", "secret"), become_link("run/pictures/epoch-0001.png", "../../key")},
               refused("@/run/pictures/epoch-0001.png is a link: "));
  Table traced = run_table(cases, "traced", {"trace", "@/run"});
  add_led_away(traced, "run", {"recipe.toml", "checkpoints", kLastCheckpoint});
  Table compared = run_table(cases, "compared", {"diff", "@/run", good().file("run")});
  add_led_away(compared, "run", {"recipe.toml", "metrics.jsonl", "choices.json"});
  Table searched = run_table(cases, "searched", {"repro", "@/run", "--failure", "--output", "@/case"});
  add_led_away(searched, "run", {"recipe.toml", "checkpoints", kLastCheckpoint + "/state.safetensors"});
  Table named(cases, "a run of a module with links", {"eval", "@/run", "--quiet"},
              {copy(good().file("mixed"), "run")});
  add_led_away(named, "run", {"network.rir"});
  Table itself(cases, "a run that is a link", {"eval", "@/latest", "--quiet"},
               {copy(good().file("run"), "run"), become_link("latest", "run")});
  itself.row("evaluated", {}, fine());
  itself.row("resumed", {"train", "--resume", "@/latest", "--quiet", "--set", "train.epochs=3"}, {},
             fine([](const Ended&, const std::string& folder) {
               return lacks(folder, "run/checkpoints/0003-00000009/weights.safetensors");
             }));
}

void add_others(std::vector<Case>& cases) {
  Table swept(cases, "a sweep's folder with links", {"sweep", "@/sweep.toml", "--out", "@/out", "--quiet"},
              {copy(good().file("sweep.toml"), "sweep.toml"), copy(good().file("swept"), "out")});
  add_led_away(swept, "out", {"runs", "records", "records/none-s0.json", "table.md"});
  Table replayed(cases, "repro's folder with links", {"repro", "@/case"},
                 {copy(good().file("case"), "case")});
  add_led_away(replayed, "case", {"repro.json", "module.rir", "inputs.safetensors", "expected.safetensors"});
}

}  // namespace

void add_link_cases(std::vector<Case>& cases) {
  add_run(cases);
  add_others(cases);
}

}  // namespace rewire::test
