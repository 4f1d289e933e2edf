// Numbers at their limits, as a user meets them: each works, or is refused in one line with exit code 2
// before a folder is made. None hangs, overflows, or asks for memory that only the number claims.
#include <algorithm>
#include <string>
#include <vector>

#include "runtime/recipe/keys.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const Words kLimitedRun =
    kModel + Words{"--set", "data.format=synthetic", "--set", "data.count=16", "--set",  "train.batch=8",
                   "--set", "train.epochs=1",        "--set", "eval.batch=16", "--quiet"};

Words settings(const Words& given) {
  Words words;
  for (const std::string& setting : given) words = words + Words{"--set", setting};
  return words;
}

bool is_one_refusal(const std::string& text) {
  return text.starts_with("rewire: ") && std::ranges::count(text, '\n') == 1 && text.ends_with('\n');
}

struct Refused {
  Words set;
  std::string message;
};

/// The key's own bounds, whatever the rest of the recipe says.
Refused out_of_range(const std::string& setting, const std::string& value) {
  const std::string path = setting.substr(0, setting.find('='));
  runtime::Recipe recipe;
  const std::vector<runtime::RecipeKey> keys = runtime::recipe_keys(recipe);
  const auto key = std::ranges::find_if(keys, [&](const auto& k) { return k.path() == path; });
  REQUIRE(key != keys.end());
  const bool finite = value != "nan" && !value.ends_with("inf");
  return {{setting},
          "--set " + setting + ": " + path + "=" + value +
              (finite ? " is out of range" : " is not a finite float") + ": it takes " + key->spec.takes()};
}

TEST_CASE("A setting at its limit is refused in one line, before a folder is made") {
  const std::string most = "9223372036854775807";
  std::vector<Refused> cases = {
      out_of_range("schedule.milestones=[6e17]", "6e+17"),
      out_of_range("schedule.milestones=[0]", "0"),
      out_of_range("schedule.milestones=[nan]", "nan"),
      out_of_range("schedule.warmup_epochs=1e300", "1e+300"),
      out_of_range("schedule.warmup_epochs=-1", "-1"),
      out_of_range("schedule.warmup_epochs=inf", "inf"),
      out_of_range("data.count=" + most, most),
      out_of_range("data.count=0", "0"),
      out_of_range("data.threads=" + most, most),
      out_of_range("data.prefetch=" + most, most),
      out_of_range("transforms.crop_padding=" + most, most),
      out_of_range("transforms.crop_padding=-9223372036854775808", "-9223372036854775808"),
      out_of_range("transforms.mean=[-inf]", "-inf"),
      out_of_range("transforms.std=[0]", "0"),
      out_of_range("train.batch=" + most, most),
      out_of_range("train.batch=2147483648", "2147483648"),
      out_of_range("train.epochs=" + most, most),
      out_of_range("train.accumulate=" + most, most),
      out_of_range("train.threads=" + most, most),
      out_of_range("train.keep=0", "0"),
      out_of_range("train.checkpoint_every=0", "0"),
      out_of_range("train.clip_norm=nan", "nan"),
      out_of_range("eval.batch=" + most, most),
      out_of_range("seed=9007199254740993", "9007199254740993"),
      out_of_range("seed=-1", "-1"),
      {{"transforms.mean=[1e300]"},
       "transforms.mean 1e+300 and transforms.std 1 give -1e+300 for a pixel of 0/255: f32 cannot hold it"},
      {{"transforms.std=[1e-300]"},
       "transforms.mean 0 and transforms.std 1e-300 give 3.92e+297 for a pixel of 1/255: f32 cannot hold it"},
      {{"data.path=\"a\\u0000b\""},
       "--set data.path=\"a\\u0000b\": data.path = 'a\\x00b' contains a NUL character: remove it"},
      {{"train.weights=\"w\\u0000.safetensors\""},
       "--set train.weights=\"w\\u0000.safetensors\": train.weights = 'w\\x00.safetensors' contains a NUL "
       "character: remove it"},
  };
  for (const char* key : {"optimizer.lr", "optimizer.eps", "optimizer.weight_decay", "schedule.warmup_lr",
                          "schedule.min_lr", "schedule.gamma", "train.clip_norm"}) {
    for (const char* value : {"nan", "inf", "-inf"})
      cases.push_back(out_of_range(std::string(key) + "=" + value, value));
    cases.push_back(out_of_range(std::string(key) + "=-1e-300", "-1e-300"));
  }
  for (const char* key : {"train.log_every", "train.keep", "eval.every"})
    cases.push_back(out_of_range(std::string(key) + "=-9223372036854775808", "-9223372036854775808"));
  for (const Refused& refused : cases) {
    CAPTURE(refused.set);
    const TemporaryFolder folder;
    const Outcome outcome = rewire_command(Words{"train"} + kLimitedRun + settings(refused.set) +
                                           Words{"--out", folder.file("run")});
    CHECK(outcome.err == "rewire: " + refused.message + "\n");
    CHECK(outcome.code == 2);
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("Files without a folder are refused, and settings without effect") {
  const TemporaryFolder folder;
  const auto refused = [&](const Words& set, const std::string& message) {
    const Outcome outcome =
        rewire_command(Words{"train"} + kModel + settings(set) + Words{"--out", folder.file("run")});
    CHECK(outcome.err == "rewire: " + message + "\n");
    CHECK(outcome.code == 2);
    CHECK(folder.entries() == 0);
  };
  refused({"data.path=\"\""},
          "data.path is empty: set it to the folder that holds the IDX files, or data.format=synthetic");
  refused({"data.count=16"},
          "--set data.count=16: data.count has no effect here, it needs data.format=synthetic: remove it");
  refused({"optimizer.momentum=0.9"},
          "--set optimizer.momentum=0.9: optimizer.momentum has no effect here, it needs "
          "optimizer.name=lars|muon|sgd: remove it");
}

TEST_CASE("More synthetic images than the machine's memory holds are refused, before any is made") {
  const TemporaryFolder folder;
  const Outcome outcome = rewire_command(
      Words{"train"} + kLimitedRun +
      settings({"data.count=1000000000", "model.image=280", "model.patch=140", "model.channels=64"}) +
      Words{"--out", folder.file("run")});
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("data.count is 1000000000: that many synthetic images of 64 "
                                                "x 280 x 280 bytes do not fit this machine's memory of "));
  CHECK(is_one_refusal(outcome.err));
  CHECK(outcome.code == 2);
}

TEST_CASE("A setting at its limit that has a meaning trains") {
  for (const Words& set : std::vector<Words>{{"optimizer.lr=-0.0", "optimizer.eps=-0.0"},
                                             {"optimizer.lr=1e-320"},
                                             {"optimizer.eps=1e308"},
                                             {"train.clip_norm=1e308"},
                                             {"train.clip_norm=1e-320"},
                                             {"schedule.name=multistep", "schedule.gamma=1e308"},
                                             {"schedule.name=multistep", "schedule.milestones=[1e9]"},
                                             {"schedule.warmup_epochs=1e9"},
                                             {"train.checkpoint_every=1e-300"},
                                             {"train.checkpoint_every=1e300"},
                                             {"train.keep=9223372036854775807"},
                                             {"train.log_every=9223372036854775807"},
                                             {"eval.every=9223372036854775807"},
                                             {"eval.batch=1000000"},
                                             {"transforms.crop_padding=16384"},
                                             {"data.prefetch=1024", "data.threads=64"}}) {
    CAPTURE(set);
    const TemporaryFolder folder;
    const Outcome outcome =
        rewire_command(Words{"train"} + kLimitedRun + settings(set) + Words{"--out", folder.file("run")});
    CHECK(outcome.err == "");
    CHECK(outcome.code == 0);
  }
}

TEST_CASE("A setting that makes the numbers overflow ends in one line that names a tensor") {
  for (const char* setting : {"optimizer.lr=1e308", "optimizer.lr=1e39", "optimizer.weight_decay=1e308"}) {
    CAPTURE(setting);
    const TemporaryFolder folder;
    const Outcome outcome = rewire_command(Words{"train"} + kLimitedRun + settings({setting}) +
                                           Words{"--out", folder.file("run")});
    CHECK(outcome.code == 2);
    CHECK(is_one_refusal(outcome.err));
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("is not finite: parameter '"));
  }
}

TEST_CASE("Evaluation in larger batches than there are images takes them all at once") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(rewire_command(Words{"train"} + kLimitedRun + Words{"--out", run}).code == 0);
  const Outcome all = rewire_command({"eval", run, "--json", "--quiet"});
  const Outcome larger = rewire_command({"eval", run, "--json", "--quiet", "--set", "eval.batch=1000000"});
  CHECK(larger.err == "");
  const auto without_seconds = [](const std::string& text) {
    return text.substr(0, text.find("\"seconds\""));
  };
  CHECK(without_seconds(larger.out) == without_seconds(all.out));
}

TEST_CASE("An integer of the command line at its limit is refused in one line") {
  const auto refused = [](const Words& arguments, const std::string& message) {
    CAPTURE(arguments);
    const Outcome outcome = rewire_command(arguments);
    CHECK(outcome.err == "rewire: " + message + "\n");
    CHECK(outcome.code == 2);
  };
  for (const auto& [command, option] :
       std::vector<std::pair<std::string, std::string>>{{"verify", "--batch"},
                                                        {"verify", "--directions"},
                                                        {"bench", "--batch"},
                                                        {"bench", "--steps"},
                                                        {"bench", "--threads"},
                                                        {"analyze", "--batch"},
                                                        {"features", "--images"},
                                                        {"probe", "--epochs"},
                                                        {"tokencut", "--images"},
                                                        {"eval", "--epoch"},
                                                        {"dump", "--multiprocessors"}}) {
    const std::string end = "; see rewire " + command + " --help";
    for (const char* number : {"1000000001", "9223372036854775807", "9223372036854775808"}) {
      refused(
          {command, "vit_tiny_28", option, number},
          command + ": " + option + ": " + number + " is out of range: it must be at most 1000000000" + end);
    }
    refused({command, "vit_tiny_28", option, "1e3"},
            command + ": " + option + ": '1e3' is not an integer" + end);
    refused({command, "vit_tiny_28", option, "nan"},
            command + ": " + option + ": 'nan' is not an integer" + end);
  }
  refused(Words{"dump"} + kModel + Words{"--stage", "cuda", "--multiprocessors", "1000000000", "--quiet"},
          "dump: --multiprocessors 1000000000: no GPU has more than 1024");
  refused(Words{"bench"} + kModel + Words{"--threads", "1000000000", "--quiet"},
          "a thread pool takes 1 to 4096 threads, not 1000000000");
  refused(Words{"verify"} + kModel + Words{"--batch", "1000000000", "--quiet"},
          "the batch is 1000000000; it must be from 1 to 1000000");
}

TEST_CASE("A plugin's filters at their limits are refused in one line") {
  const std::string gain = plugin_file("gain");
  for (const auto& [filter, message] : std::vector<std::pair<std::string, std::string>>{
           {"from_epoch=9223372036854775807",
            "from_epoch=9223372036854775807 and to_epoch=9223372036854775807 leave no epoch: to_epoch is the "
            "first one "
            "off again"},
           {"from_epoch=9223372036854775808",
            "from_epoch=9223372036854775808 is refused: it takes an int >= 0"},
           {"from_epoch=-1", "from_epoch=-1 is refused: it takes an int >= 0"},
           {"from_epoch=1e3", "from_epoch=1e3 is refused: it takes an int >= 0"},
           {"from_epoch=nan", "from_epoch=nan is refused: it takes an int >= 0"},
           {"to_epoch=0", "from_epoch=0 and to_epoch=0 leave no epoch: to_epoch is the first one off again"},
           {"to_epoch=-9223372036854775808",
            "to_epoch=-9223372036854775808 is refused: it takes an int > from_epoch, or end"},
           {"layers=0-9223372036854775807", "layers=0-9223372036854775807: the last block is 0"},
           {"layers=9223372036854775807", "layers=9223372036854775807: the last block is 0"},
           {"layers=0-9223372036854775808",
            "layers=0-9223372036854775808: '0-9223372036854775808' is not a block or range of blocks, such "
            "as 3 or 4-5"},
           {"layers=-1", "layers=-1: '-1' is not a block or range of blocks, such as 3 or 4-5"},
           {"layers=1-0", "layers=1-0: '1-0' is not a block or range of blocks, such as 3 or 4-5"}}) {
    CAPTURE(filter);
    const Outcome outcome =
        rewire_command(Words{"dump"} + kModel + Words{"--plugin", gain + ":" + filter, "--quiet"});
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS(message));
    CHECK(is_one_refusal(outcome.err));
    CHECK(outcome.code == 2);
  }
}

TEST_CASE("A NUL in a recipe's names is refused with its line") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::string& message) {
    CAPTURE(text);
    write_text(folder.file("r.toml"), text);
    const Outcome outcome = rewire_command({"dump", folder.file("r.toml"), "--quiet"});
    CHECK(outcome.err ==
          "rewire: " + folder.file("r.toml") + message + " contains a NUL character: remove it\n");
    CHECK(outcome.code == 2);
  };
  refused("[model]\nname = \"vit\\u0000\"\n", ":2: model.name = 'vit\\x00'");
  refused("[[plugin]]\nname = \"gain\\u0000.so\"\n", ":2: plugin.name = 'gain\\x00.so'");
  refused("[[plugin]]\nname = \"gain\"\nslot = \"a\\u0000\"\n", ":3: plugin parameter 'slot' = 'a\\x00'");
  refused("[[plugin]]\nname = \"gain\"\n\"slot\\u0000\" = 1\n",
          ":3: the name of a plugin's parameter = 'slot\\x00'");
}

TEST_CASE("A NUL in a sweep's names is refused with its line") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::string& message) {
    CAPTURE(text);
    write_text(folder.file("s.toml"), text);
    const Outcome outcome =
        rewire_command({"sweep", folder.file("s.toml"), "--out", folder.file("out"), "--quiet"});
    CHECK(outcome.err ==
          "rewire: " + folder.file("s.toml") + message + " contains a NUL character: remove it\n");
    CHECK(outcome.code == 2);
  };
  refused("recipe = \"r\\u0000.toml\"\n", ":1: recipe = 'r\\x00.toml'");
  refused("recipe = \"r.toml\"\nplugins = [\"gain\\u0000\"]\n", ":2: a plugin = 'gain\\x00'");
}

}  // namespace
}  // namespace rewire::test
