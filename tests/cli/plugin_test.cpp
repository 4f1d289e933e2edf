// rewire plugin new and rewire plugin test, as the author of a strategy meets them. That the new project
// builds and passes its tests is out_of_tree.cmake's.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "plugins/sdk/rewire_plugin.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Outcome plugin_test(const std::string& file, const Words& more = {}) {
  return rewire_command(Words{"plugin", "test", file, "--quiet"} + more);
}

struct InFolder {
  InFolder() { fs::current_path(folder.path()); }
  ~InFolder() { fs::current_path(before); }
  fs::path before = fs::current_path();
  TemporaryFolder folder;
};

TEST_CASE("plugin test passes a sound strategy with one line a check") {
  const Outcome outcome = plugin_test(plugin_file("gain") + ":factor=0.5");
  CHECK(outcome.err.empty());
  CHECK(outcome.code == 0);
  for (const char* check : {"schema", "values", "same_text", "initialise", "leak"})
    CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS(std::string("ok       ") + check));
  CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS("gain 1.2.3, 5 parameters") &&
                              REWIRE_CATCH_CONTAINS("verified; 4 of 4 joins changed, 0 weights added") &&
                              REWIRE_CATCH_CONTAINS("parameter values, one at a time; ") &&
                              REWIRE_CATCH_CONTAINS("3 steps give the same bits on one thread and on two") &&
                              REWIRE_CATCH_CONTAINS("ok       cost       vit_token  ") &&
                              REWIRE_CATCH_CONTAINS(" library calls (+0), "));

  const json report = json::parse(plugin_test(plugin_file("careless"), {"--json"}).out);
  CHECK(report.at("passed") == true);
  std::map<std::string, int> rows;
  for (const json& row : report.at("checks")) {
    CHECK(row.at("verdict") == "passed");
    ++rows[row.at("check")];
  }
  // Seven of each network, seven of the plugin itself.
  CHECK(rows == std::map<std::string, int>{{"schema", 1},
                                           {"rewrite", 3},
                                           {"values", 1},
                                           {"same_text", 1},
                                           {"initialise", 1},
                                           {"leak", 1},
                                           {"unused", 1},
                                           {"cuts", 1},
                                           {"gradients", 3},
                                           {"weights", 3},
                                           {"samples", 3},
                                           {"compiled", 3},
                                           {"same_bits", 3},
                                           {"cost", 3}});
}

TEST_CASE("plugin test finds each fault, and says what is wrong") {
  struct Case {
    const char *fault, *line;
  };
  const Case cases[] = {
      {"counter", "FAILED   same_text             a second rewrite of maps gives different IR, first at: %"},
      {"axis", "FAILED   rewrite    maps       plugin 'careless': "},
      {"throws", "FAILED   rewrite    maps       plugin 'careless': vector::_M_range_check"},
      {"none", "FAILED   rewrite    maps       plugin 'careless': a value for "},
      {"refuse_all", "FAILED   rewrite    vit_token  plugin 'careless': it takes no network"},
      {"draw", "FAILED   initialise            a second initialisation of vit_token gives a different "},
      {"nan", "FAILED   same_bits  vit_token  the loss or a gradient of the first 3 steps is not finite"},
      {"nan", "nan (at most 1e-0"},  // the worst error is the one that is none
      {"value", "FAILED   values                kind=odd on vit_token: plugin 'careless': "},
      {"kind_nan", "FAILED   values                kind=odd on vit_token: along "},
      {"edge", "FAILED   values                level=0 on vit_token: along "},
      {"nothing", "FAILED   rewrite               it changes no join and writes no weight of any network: "},
      {"unread", "FAILED   weights    vit_token  no gradient reaches blocks.0.join_attn.w; "},
      {"stopped", "FAILED   weights    vit_token  no gradient reaches blocks.0.join_attn.w; "},
#if REWIRE_SANITIZER == REWIRE_SANITIZER_NONE
      {"leak", "FAILED   leak                  "},
#endif
  };
  for (const Case& c : cases) {
    CAPTURE(c.fault);
    const Outcome outcome = plugin_test(plugin_file("careless") + ":fault=" + c.fault);
    CHECK(outcome.code == 1);
    CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS(c.line));
    CHECK(outcome.err ==
          "rewire: " + plugin_file("careless") + " fails a check that every strategy must pass\n");
  }
}

TEST_CASE("plugin test tells what a strategy may do and its author should know, and passes") {
  struct Case {
    const char *fault, *line;
  };
  const Case cases[] = {
      {"unused", "note     unused                on vit_token nothing reads blocks.0.attn: "},
      {"detach",
       "note     cuts                  on vit_token stop_gradient cuts the gradient at "
       "blocks.0.attn.careless, of "},
      {"cut", "note     weights    vit_token  no gradient reaches patch_embed.proj.weight; "},
      {"batch",
       "note     samples    vit_token  the samples of a batch depend on each other in training and in "
       "evaluation\n"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.fault);
    const Outcome outcome = plugin_test(plugin_file("careless") + ":fault=" + c.fault);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS(c.line) && !REWIRE_CATCH_CONTAINS("FAILED"));
  }
}

TEST_CASE("plugin test --causal finds a token that reads a later one") {
  const Outcome sound = plugin_test(plugin_file("gain"), {"--causal"});
  CHECK(sound.code == 0);
  CHECK_THAT(sound.out, REWIRE_CATCH_CONTAINS("ok       causal     causal     no token reads a later one\n"));
  const Outcome later = plugin_test(plugin_file("careless") + ":fault=later", {"--causal"});
  CHECK(later.code == 1);
  CHECK_THAT(later.out,
             REWIRE_CATCH_CONTAINS("FAILED   causal     causal     blocks.0.attn: token 0 reads token 5\n"));
  CHECK(plugin_test(plugin_file("careless") + ":fault=later").code == 0);
}

TEST_CASE("A strategy that uses every hook of a training step passes, and its hints are told") {
  const Outcome outcome = plugin_test(plugin_file("hooks"));
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out,
             !REWIRE_CATCH_CONTAINS("FAILED") && !REWIRE_CATCH_CONTAINS("note") &&
                 REWIRE_CATCH_CONTAINS("verified; 4 of 4 joins changed, 8 weights added; 4 weights "
                                       "with lr_scale 0.5; 4 weights with lr_scale 3, weight_decay 0, "
                                       "beta1 0.8\n"));
  // A strategy may do nothing but that.
  const Outcome alone = plugin_test(plugin_file("hooks") + ":branch=off,progress=off");
  CHECK_THAT(alone.out, REWIRE_CATCH_CONTAINS("verified; 0 of 4 joins changed, 8 weights added"));

  const Words verify = {"verify", "vit_tiny_28",   "--set",  "model.dim=24",
                        "--set",  "model.depth=2", "--quiet"};
  const Outcome verified = rewire_command(verify + Words{"--plugin", plugin_file("hooks")});
  CHECK(verified.code == 0);
  CHECK_THAT(verified.out,
             REWIRE_CATCH_CONTAINS("\nhint: blocks.1.join_mlp.w: lr_scale 3, weight_decay 0, beta1 "
                                   "0.8\n") &&
                 REWIRE_CATCH_CONTAINS("\nreports ") && REWIRE_CATCH_CONTAINS("after_step.blocks."));
  const json object =
      json::parse(rewire_command(verify + Words{"--json", "--plugin", plugin_file("hooks")}).out);
  CHECK(object.at("hints").at("blocks.0.join_attn.w") ==
        json{{"lr_scale", 3.0}, {"weight_decay", 0.0}, {"beta1", 0.8}});
  CHECK(object.at("cuts").empty());
}

TEST_CASE("verify names what stop_gradient cuts, and holds the gradient to the rest") {
  const Words verify = {"verify", "vit_tiny_28",   "--set",    "model.dim=24",
                        "--set",  "model.depth=2", "--plugin", plugin_file("careless") + ":fault=detach",
                        "--quiet"};
  const Outcome verified = rewire_command(verify);
  CHECK(verified.code == 0);
  CHECK_THAT(verified.out, REWIRE_CATCH_CONTAINS("\nnote: stop_gradient at blocks.0.attn.careless, of ") &&
                               REWIRE_CATCH_CONTAINS(": the differences hold its value fixed\n"));
  CHECK(json::parse(rewire_command(verify + Words{"--json"}).out).at("cuts").size() == 4);
}

TEST_CASE("Sound strategies of every kind pass plugin test and verify") {
  for (const char* strategy :
       {"scaled_sum", "layer_scale", "post_norm", "dense", "attention", "lanes", "gate", "rounded"}) {
    CAPTURE(strategy);
    const std::string plugin = plugin_file("sound") + ":strategy=" + strategy;
    const Outcome outcome = plugin_test(plugin);
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.out, !REWIRE_CATCH_CONTAINS("FAILED") && !REWIRE_CATCH_CONTAINS("refused"));
    const Outcome verified = rewire_command({"verify", "vit_tiny_28", "--set", "model.dim=24", "--set",
                                             "model.depth=2", "--plugin", plugin, "--quiet"});
    CHECK(verified.code == 0);
    CHECK_THAT(verified.out, !REWIRE_CATCH_CONTAINS("WRONG"));
  }
}

TEST_CASE("A strategy may refuse a network in its own words, and passes on the others") {
  const Outcome outcome = plugin_test(plugin_file("careless") + ":fault=refuse_maps");
  CHECK(outcome.code == 0);
  CHECK_THAT(
      outcome.out,
      REWIRE_CATCH_CONTAINS("refused  rewrite    maps       plugin 'careless': it takes no feature maps\n"));
  CHECK_THAT(outcome.out, !REWIRE_CATCH_CONTAINS("compiled   maps"));
}

TEST_CASE("A strategy may have nothing to do in a network, and passes on the others") {
  const Outcome outcome = plugin_test(plugin_file("careless") + ":fault=mlp_weights");
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(
      outcome.out,
      REWIRE_CATCH_CONTAINS(
          "note     rewrite    maps       nothing to do here: it changes no join and writes no weight\n") &&
          REWIRE_CATCH_CONTAINS("ok       rewrite    vit_token  verified; 0 of 4 joins changed") &&
          REWIRE_CATCH_CONTAINS("ok       same_bits  vit_avg") && !REWIRE_CATCH_CONTAINS("FAILED") &&
          !REWIRE_CATCH_CONTAINS("compiled   maps"));
}

TEST_CASE("plugin test refuses what is no plugin, or values that it does not take") {
  for (const std::string& file :
       {plugin_file("missing"), plugin_file("no_symbol"), plugin_file("newer_major"),
        std::string("no_such_strategy"), plugin_file("gain") + ":factr=1"}) {
    CAPTURE(file);
    const Outcome outcome = plugin_test(file);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
  }
  CHECK_THAT(plugin_test(plugin_file("gain") + ":factr=1").err,
             REWIRE_CATCH_CONTAINS("did you mean 'factor'"));
  CHECK_THAT(plugin_test("gain.so").err, REWIRE_CATCH_CONTAINS("write a file with a slash, ./gain.so"));
}

TEST_CASE(
    "plugin new writes a project whose source has the lines that the docs say, and never over another") {
  const InFolder here;
  const Outcome outcome = rewire_command({"plugin", "new", "my_strategy"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS("my_strategy/my_strategy.cpp\n") &&
                              REWIRE_CATCH_CONTAINS("cmake -S my_strategy -B my_strategy/build"));
  for (const char* file : {"CMakeLists.txt", "my_strategy.cpp", "test/CMakeLists.txt", "README.md"}) {
    const std::string text = read_text("my_strategy/" + std::string(file));
    CAPTURE(file);
    CHECK_THAT(text, REWIRE_CATCH_CONTAINS("my_strategy") && !REWIRE_CATCH_CONTAINS("@"));
  }
  const auto lines = std::ranges::count(read_text("my_strategy/my_strategy.cpp"), '\n');
  CHECK_THAT(read_text(REWIRE_GUIDE), REWIRE_CATCH_CONTAINS(fmt::format("The source is {} lines", lines)));
  CHECK_THAT(read_text(REWIRE_README),
             REWIRE_CATCH_CONTAINS(fmt::format("a project: {} lines of C++", lines)));
  CHECK(here.folder.entries() == 1);  // nothing half-written beside it

  write_text("my_strategy/README.md", "mine");
  const Outcome again = rewire_command({"plugin", "new", "my_strategy"});
  CHECK(again.code == 2);
  CHECK(again.err == "rewire: my_strategy already exists: choose another name, or remove it\n");
  CHECK(read_text("my_strategy/README.md") == "mine");
  fs::create_directory("empty");
  CHECK(rewire_command({"plugin", "new", "empty"}).code == 2);
}

TEST_CASE("plugin new writes the formulas that it is given in C++, and nothing for a wrong one") {
  const InFolder here;
  write_text("idea.toml", "weights = \"a = 0.5, no_decay\"\njoin = \"x + a * f\"\ninit = \"last = 0\"\n");
  const Outcome outcome = rewire_command({"plugin", "new", "mine", "--formula", "idea.toml"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  const std::string source = read_text("mine/mine.cpp");
  for (const char* line : {"//   join = x + a * f\n", "  join.branch = a * f;\n", "rewrite, initialise)\n"})
    CHECK_THAT(source, REWIRE_CATCH_CONTAINS(line));
  CHECK_THAT(read_text("mine/README.md"), !REWIRE_CATCH_CONTAINS("@") && !REWIRE_CATCH_CONTAINS("start="));
  CHECK(rewire_command({"plugin", "new", "whole", "--join", "l * x + f"}).code == 0);
  CHECK_THAT(read_text("whole/whole.cpp"), REWIRE_CATCH_CONTAINS("  join.shortcut = l * x;\n"));

  const auto refused = [](std::vector<std::string> words, const char* message) {
    words.insert(words.begin(), {"plugin", "new", "other"});
    const Outcome refusal = rewire_command(words);
    CAPTURE(words);
    CHECK(refusal.code == 2);
    CHECK_THAT(refusal.err, REWIRE_CATCH_CONTAINS(message));
    CHECK(!fs::exists("other"));
  };
  refused({"--join", "x + g"}, "there is no name 'g'");
  refused({"--join", "x + f", "--formula", "idea.toml"}, "a project begins with one formula");
  write_text("filtered.toml", "join = \"x + 0.5 * f\"\nsites = \"mlp\"\n");
  refused({"--formula", "filtered.toml"}, "--plugin ./build/other.so:sites=mlp");
  CHECK(here.folder.entries() == 4);
}

TEST_CASE("plugin new refuses a name that no plugin can have") {
  const InFolder here;
  const std::map<std::string, std::string> errors = {
      {"My-Strategy",
       "'My-Strategy' is not a name for a plugin: use a lower-case letter, then letters, digits and _"},
      {"../up", "'../up' is not a name for a plugin: use a lower-case letter, then letters, digits and _"},
      {"", "'' is not a name for a plugin: use a lower-case letter, then letters, digits and _"},
      {"none", "a plugin cannot be called none: --plugin none means no plugin"},
      {"test", "'test' is a target that CMake makes itself: choose another name"},
  };
  for (const auto& [name, message] : errors) {
    const Outcome outcome = rewire_command({"plugin", "new", name});
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "rewire: " + message + "\n");
  }
  CHECK(here.folder.entries() == 0);
  CHECK_THAT(rewire_command({"plugin", "neww", "x"}).err,
             REWIRE_CATCH_CONTAINS("unknown command 'plugin neww' (did you mean 'new'?)"));
}

}  // namespace
}  // namespace rewire::test
