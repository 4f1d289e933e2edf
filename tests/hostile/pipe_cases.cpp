// Pipes and devices that a file names, or that lie in a folder: nobody writes to them, and nothing waits. Small files that
// would cost much.
#include <string>

#include "tests/hostile/cases.h"
#include "tests/hostile/good.h"
#include "tests/hostile/judge.h"

namespace rewire::test {
namespace {

/// Each a pipe, and a link to a device that never ends.
void add_endless(Table& table, const std::string& name, const Expectation& expected) {
  table.row(name + " is a pipe", {become_fifo(name)}, expected);
  table.row(name + " is a device", {become_link(name, "/dev/zero")}, expected);
}

Expectation no_file(const std::string& name) {
  return refused("@/" + name + ": it is a pipe or a device, not a file");
}

Words train_with(const std::string& setting) {
  return Words{"train"} + kModel + kTraining + Words{"--out", "@/out", "--set", setting};
}

void add_named(std::vector<Case>& cases) {
  Table weights(cases, "weights that a setting names", train_with("train.weights=@/w"));
  add_endless(weights, "w", no_file("w"));
  Table list(cases, "a list that a setting names",
             Words{"train"} + kModel +
                 Words{"--set", "data.path=" + good().file("data"), "--set", "train.batch=8", "--set",
                       "data.train_list=@/list", "--out", "@/out", "--quiet"});
  add_endless(list, "list", no_file("list"));
  Table module(cases, "a module that a recipe names", {"dump", "@/r.toml", "--stage", "ir"},
               {put("r.toml", "[model]\nname = \"net.rir\"\n")});
  add_endless(module, "net.rir", no_file("net.rir"));
  Table recipe(cases, "a recipe that a sweep names", {"sweep", "@/s.toml", "--out", "@/out"},
               {put("s.toml", "recipe = \"r.toml\"\nseeds = [0]\nplugins = [\"none\"]\n")});
  add_endless(recipe, "r.toml", no_file("r.toml"));
}

void add_found(std::vector<Case>& cases) {
  Table module(cases, "a run's module", {"eval", "@/run", "--quiet"}, {copy(good().file("mixed"), "run")});
  module.row("is a pipe", {become_fifo("run/network.rir")}, no_file("run/network.rir"));
  Table reported(cases, "a reported run", {"report", "@/run"}, {copy(good().file("run"), "run")});
  for (const std::string name : {"run/metrics.jsonl", "run/choices.json", "run/pictures/epoch-0001.png"})
    reported.row(name + " is a pipe", {become_fifo(name)}, no_file(name));
  Table replayed(cases, "repro's folder", {"repro", "@/case"}, {copy(good().file("case"), "case")});
  for (const std::string name : {"case/repro.json", "case/module.rir", "case/inputs.safetensors",
                                 "case/state.safetensors", "case/expected.safetensors"})
    replayed.row(name + " is a pipe", {become_fifo(name)}, no_file(name));
  Table expected(cases, "what a trace is compared with",
                 Words{"trace"} + kModel + Words{"--set", "data.format=synthetic", "--expect", "@/expected"});
  expected.row("is a pipe", {become_fifo("expected/loss.npy")}, no_file("expected/loss.npy"));
}

std::string metrics_line(int step, const std::string& more) {
  return "{\"kind\":\"train\",\"epoch\":0,\"step\":" + std::to_string(step) + more + "}\n";
}

void add_costly(std::vector<Case>& cases) {
  const std::string metrics = "run/metrics.jsonl";
  Table reported(cases, "metrics", {"report", "@/run"}, {copy(good().file("run"), "run")});
  std::string names, lines;
  for (int i = 0; i < 20'000; ++i) names += metrics_line(i, ",\"m" + std::to_string(i) + "\":1");
  reported.row("with a new name a line", {put(metrics, names)},
               refused("@/" + metrics, "more than a run's lines can"));
  for (int i = 0; i < 4'000; ++i) lines += ",\"m" + std::to_string(i) + "\":1";
  lines = metrics_line(0, lines);
  for (int i = 1; i < 100'000; ++i) lines += metrics_line(i, "");
  reported.row("with names that most lines lack", {put(metrics, lines)},
               refused("@/" + metrics, "more than a run's lines can"));
  std::string keys = "{\"engine\":\"cpu\"";
  for (int i = 0; i < 400'000; ++i) keys += ",\"k" + std::to_string(i) + "\":\"\"";
  reported.row("beside an object of 400,000 keys", {put("run/choices.json", keys + "}")},
               refused("@/run/choices.json", "an object has more than 4096 keys"));
}

}  // namespace

void add_pipe_cases(std::vector<Case>& cases) {
  add_named(cases);
  add_found(cases);
  add_costly(cases);
}

}  // namespace rewire::test
