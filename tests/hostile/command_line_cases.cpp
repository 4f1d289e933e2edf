// Words of the command line, paths that commands write to, and the environment.
#include <nlohmann/json.hpp>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"
#include "tests/hostile/judge.h"

namespace rewire::test {
namespace {

const std::vector<Words> kCommands = {
    {"train"},   {"sweep"},           {"eval"},          {"init"},           {"run"},   {"grad"},
    {"step"},    {"verify"},          {"analyze"},       {"dump"},           {"bench"}, {"models"},
    {"plugins"}, {"plugins", "info"}, {"plugin", "new"}, {"plugin", "test"}, {"doctor"}};
const char* const kWild[] = {"\x1b]0;x\x07", "\xff\xfe", "\xe2\x80\xae\xe2\x81\xa6", "a\nb",
                             "\xc2\x9b"
                             "31m"};

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void add_words(std::vector<Case>& cases) {
  Table table(cases, "command line");
  const auto refuse = [&](const std::string& what, const Words& words, const std::string& phrase = "") {
    table.row(what, words, {}, refused(phrase));
  };
  for (const Words& command : kCommands) {
    const std::string name = joined(command);
    refuse(name + " with an unknown option", command + Words{"--nothing"}, "--nothing");
    refuse(name + " with an option of nothing", command + Words{"--log-level"}, "--log-level");
    refuse(name + " with another log level", command + Words{"--log-level", "loud"}, "loud");
  }
  for (const Words& command : {Words{"train"}, Words{"plugins", "info"}}) {
    const std::string name = joined(command);
    for (const char* word : kWild)
      refuse(name + " with the option " + word, command + Words{std::string("--") + word});
    refuse(name + " with an option of 100,000 bytes", command + Words{"--" + std::string(100'000, 'o')});
  }
  for (const char* word : {"", " ", "-", "--", "-x", "--help=1", "trian", "RUN", "/", ".", "train\n"})
    refuse(std::string("the command '") + word + "'", {word});
  for (const char* word : kWild) refuse(std::string("the command '") + word + "'", {word}, "unknown command");
  refuse("a command of 100,000 bytes", {std::string(100'000, 'c')}, "unknown command");
  for (const char* model : {"", " ", "vit_tiny_82", "VIT_TINY_28", "/", ".", "..", ".toml", ".rir",
                            "/nowhere.toml", "/nowhere.rir", "-1", "vit_tiny_28.toml", "vit_tiny_28/"})
    refuse(std::string("the model '") + model + "'", {"dump", model, "--quiet"});
  for (const char* word : kWild) {
    const std::string text = word;
    refuse("the model " + text, {"dump", text, "--quiet"});
    refuse("the recipe " + text, {"dump", text + ".toml", "--quiet"});
    refuse("the module " + text, {"dump", text + ".rir", "--quiet"});
    refuse("the setting " + text, {"dump", "vit_tiny_28", "--quiet", "--set", text});
    refuse("the section " + text, {"dump", "vit_tiny_28", "--quiet", "--set", text + ".a=1"});
    refuse("the value " + text, {"dump", "vit_tiny_28", "--quiet", "--set", "optimizer.name=" + text});
    refuse("the kernel " + text, {"dump", "vit_tiny_28", "--quiet", "--stage", "tile", "--kernel", text});
    refuse("the run " + text, {"eval", text, "--quiet"});
    refuse("the new plugin " + text, {"plugin", "new", text});
    refuse("what is told of the plugin " + text, {"plugins", "info", text});
    refuse("the tested plugin " + text, {"plugin", "test", text});
    refuse("the sweep " + text, {"sweep", text});
  }
  for (const char* setting : {"",
                              "=",
                              "model.dim",
                              "model.dim=",
                              "=8",
                              ".=1",
                              "model.=1",
                              ".dim=8",
                              "model=1",
                              "x.y=1",
                              "model.dim=eight",
                              "model.dim=8.5",
                              "model.dim=0",
                              "model.dim=-8",
                              "model.dim=1e9",
                              "model.dim=9223372036854775808",
                              "model.dim=[8]",
                              "model.dim={}",
                              "model.dim=8\n9",
                              "model..dim=8",
                              "plugin.name=x",
                              "seed=-1",
                              "seed=1e400",
                              "seed=9007199254740993"})
    refuse(std::string("--set ") + setting, {"dump", "vit_tiny_28", "--quiet", "--set", setting});
  refuse("a setting of a megabyte",
         {"dump", "vit_tiny_28", "--quiet", "--set", "model.name=" + std::string(100'000, 'x')});
  refuse("a setting of lists, 50,000 deep",
         {"dump", "vit_tiny_28", "--quiet", "--set", "seed=" + std::string(50'000, '[')});
  const Words numbers[] = {
      {"step", "vit_tiny_28", "--steps"},        {"verify", "vit_tiny_28", "--batch"},
      {"verify", "vit_tiny_28", "--directions"}, {"analyze", "vit_tiny_28", "--batch"},
      {"bench", "vit_tiny_28", "--steps"},       {"eval", "@/x", "--epoch"},
      {"bench", "vit_tiny_28", "--threads"},     {"dump", "vit_tiny_28", "--multiprocessors"}};
  for (const Words& option : numbers) {
    for (const char* number :
         {"", "x", "-1", "1.5", "0x", "9223372036854775808", "-9223372036854775809", "1e400", "nan"})
      refuse(option.front() + " " + option.back() + " '" + number + "'", option + Words{number},
             option.back());
  }
  refuse("an unknown device", {"bench", "vit_tiny_28", "--device", "tpu"}, "tpu");
  refuse("an unknown engine", {"train", "vit_tiny_28", "--engine", "none"}, "none");
  refuse("an unknown stage", {"dump", "vit_tiny_28", "--stage", "none"}, "none");
  refuse("an unknown GPU", {"dump", "vit_tiny_28", "--arch", "sm_1"}, "sm_1");
  refuse("a kernel to override without a file", {"bench", "vit_tiny_28", "--override-kernel", "a"});
  refuse("a kernel to override from nowhere", {"bench", "vit_tiny_28", "--override-kernel", "a=/nowhere"},
         "/nowhere");
  refuse("a plugin path that is a file is no plugin's",
         {"plugins", "info", "gain", "--plugin-path", good().file("x.npy")});
}

void add_outputs(std::vector<Case>& cases) {
  Table table(cases, "output");
  const Words init = Words{"init"} + kModel + Words{"--quiet", "--output"};
  const auto refuse = [&](const std::string& what, const std::string& path, const std::vector<Step>& steps,
                          const std::string& phrase) {
    table.row(what, init + Words{path}, steps, refused(phrase));
  };
  refuse("a folder", "@/d", {become_folder("d")}, "@/d");
  refuse("a folder by its slash", "@/d/", {}, "@/d");
  refuse("nothing", "", {}, "cannot");
  refuse("in no folder", "@/no/w", {}, "@/no/w");
  refuse("below a file", "@/f/w", {put("f", "x")}, "@/f/w");
  refuse("a link into no folder", "@/l", {become_link("l", "/nowhere/w")}, "cannot write");
  table.row("a link to nothing yet", init + Words{"@/l"}, {become_link("l", "w")},
            fine([](const Ended&, const std::string& folder) {
              return tree_of(folder).contains("w") ? "" : "the link was replaced, not followed";
            }));
  refuse("in a folder that may not be written", "@/d/w", {become_folder("d"), forbid("d", 0500)}, "@/d/w");
  refuse("a device that is full", "/dev/full", {}, "/dev/full");
  refuse("in /proc", "/proc/w", {}, "/proc/w");
  refuse("under a name of 300 bytes", "@/" + std::string(300, 'w'), {}, "@/www");
  refuse("under a path of 5,000 bytes", "@/" + std::string(5000, 'w'), {}, "@/www");
  for (const char* word : kWild)
    refuse(std::string("in the folder ") + word, std::string("@/") + word + "/w", {}, "@/");
  table.row("a device that takes everything", init + Words{"/dev/null"}, {}, fine());
  // All of the name is taken but for what a temporary name would add.
  table.row("under a name of 255 bytes", init + Words{"@/" + std::string(255, 'w')}, {}, fine());
}

void add_reports(std::vector<Case>& cases) {
  Table table(cases, "report", {"plugins", "--json", "--quiet", "--plugin-path", "@/plugins"},
              {become_folder("plugins")});
  const Expectation sound = fine([](const Ended& ended, const std::string&) {
    return nlohmann::json::accept(ended.out) ? "" : "what it printed is no JSON";
  });
  table.row("no plugins", {}, sound);
  for (const char* word : kWild)
    table.row(std::string("a file named ") + word, {put(std::string("plugins/") + word + ".so", "x")}, sound);
  for (const auto& [what, step] : std::vector<std::pair<std::string, Step>>{
           {"a folder", become_folder("plugins/p.so")},
           {"a pipe", become_fifo("plugins/p.so")},
           {"a device", become_link("plugins/p.so", "/dev/zero")},
           {"a link to itself", become_link("plugins/p.so", "./p.so")},
           {"a terabyte", become_huge("plugins/p.so")},
           {"half a library",
            [](const std::string& folder) {
              write_bytes(folder + "/plugins/p.so", read_bytes(plugin_file("gain")).substr(0, 9000));
            }},
           {"of another ABI", copy(plugin_file("newer_major"), "plugins/p.so")}})
    table.row("among plugins " + what, {step}, sound);
}

}  // namespace

void add_command_line_cases(std::vector<Case>& cases) {
  add_words(cases);
  add_outputs(cases);
  add_reports(cases);
}

}  // namespace rewire::test
