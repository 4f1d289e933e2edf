// A sweep's text becomes runs, and its records become tables.
#include "runtime/sweep/sweep.h"

#include <cmath>
#include <map>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/measure/statistic.h"
#include "runtime/recipe/recipe.h"
#include "runtime/sweep/record.h"
#include "runtime/sweep/table.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

using namespace runtime;

constexpr const char* kSweep = R"(recipe = "vit_tiny_28"
seeds = [3, 1]
plugins = ["none", ["./build/mine.so:a=1,b=x", "other"], "other"]

[settings]
train.epochs = 2
optimizer.lr = [1e-3, 0.01]
"transforms.mean" = [0.5]
transforms.std = [[1.0], [0.5, 0.25]]
optimizer.name = "sgd"
transforms.horizontal_flip = true
)";

TEST_CASE("The runs of a sweep are all combinations, seed by seed within a row") {
  const Sweep sweep = parse_sweep(kSweep, "s.toml");
  const std::vector<SweepRun> runs = sweep_runs(sweep);
  REQUIRE(runs.size() == std::size_t{3} * 2 * 2 * 2);
  CHECK(sweep.plugins[1].label == "mine:a=1,b=x + other");
  CHECK(sweep.plugins[1].flags == std::vector<std::string>{"./build/mine.so:a=1,b=x", "other"});

  CHECK(runs[0].name == "none-lr=0.001-std=-1.0--s3");
  CHECK(runs[1].name == "none-lr=0.001-std=-1.0--s1");
  CHECK(runs[2].name == "none-lr=0.001-std=-0.5--0.25--s3");
  CHECK(runs[8].name == "mine-a=1-b=x-other-lr=0.001-std=-1.0--s3");
  CHECK(runs[0].row == 0);
  CHECK(runs[1].row == 0);
  CHECK(runs[2].row == 1);
  CHECK(runs[23].row == 11);
  CHECK(runs[2].varied == std::vector<std::string>{"optimizer.lr=0.001", "transforms.std=[0.5, 0.25]"});

  // --set takes each, and the recipe is what the sweep says.
  const Recipe recipe = parse_recipe("", "", runs[3].settings);
  CHECK(recipe.seed == 1);
  CHECK(recipe.train.epochs == 2);
  CHECK(recipe.optimizer.values.get_double("lr") == 1e-3);
  CHECK(recipe.optimizer.name == "sgd");
  CHECK(recipe.transforms.get<ir::Doubles>("mean") == ir::Doubles{0.5});
  CHECK(recipe.transforms.get<ir::Doubles>("std") == ir::Doubles{0.5, 0.25});
  CHECK(recipe.transforms.get_bool("horizontal_flip"));
}

TEST_CASE("Numbers are spelled with as few digits as they need, and the former spelling is known") {
  const Sweep sweep =
      parse_sweep("recipe = \"m\"\nseeds = [0]\n[settings]\noptimizer.lr = [3e-3, 1e-8, 2.0, 1]", "s.toml");
  const std::vector<SweepRun> runs = sweep_runs(sweep);
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].varied == std::vector<std::string>{"optimizer.lr=0.003"});
  CHECK(runs[0].name == "recipe-lr=0.003-s0");
  CHECK(runs[0].former_name == "recipe-lr=0.0030000000000000001-s0");
  CHECK(runs[1].name == "recipe-lr=1e-08-s0");
  CHECK(runs[1].former_name == "recipe-lr=1e-08-s0");
  CHECK(runs[2].name == "recipe-lr=2.0-s0");
  CHECK(runs[2].former_name == runs[2].name);
  CHECK(runs[3].name == "recipe-lr=1-s0");
}

TEST_CASE("Without plugins and seeds a sweep has the recipe's own, and no two runs share a name") {
  const Sweep plain = parse_sweep("recipe = \"r.toml\"", "s.toml");
  REQUIRE(sweep_runs(plain).size() == 1);
  CHECK(sweep_runs(plain)[0].name == "recipe");
  CHECK(sweep_runs(plain)[0].settings.empty());
  const Sweep same =
      parse_sweep("recipe = \"m\"\nplugins = [\"./a/x.so\", \"./b/x.so\", \"./.x\"]", "s.toml");
  const std::vector<SweepRun> runs = sweep_runs(same);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].name == "x");
  CHECK(runs[1].name == "x-2");
  CHECK(runs[2].name == "-x");
}

TEST_CASE("What is wrong in a sweep is refused with its line and the nearest match") {
  const std::map<std::string, std::string> errors = {
      {"recip = \"a\"", "s.toml:1: unknown key recip (did you mean 'recipe'?)"},
      {"seeds = [0]", "s.toml: it names no recipe: add recipe = \"FILE.toml\""},
      {"recipe = 3", "s.toml:1: recipe takes a string, not the integer 3"},
      {"recipe = \"a\"\nseeds = 3", "s.toml:2: seeds takes a list of integers, [0, 1, 2], not the integer 3"},
      {"recipe = \"a\"\nseeds = []", "s.toml:2: seeds takes a list of integers, [0, 1, 2], not an empty one"},
      {"recipe = \"a\"\nseeds = [0,\n 0]", "s.toml:3: seed 0 appears twice"},
      {"recipe = \"a\"\nseeds = [-1]",
       "s.toml:2: seed=-1 is out of range: it takes an int 0 to 9007199254740992"},
      {"recipe = \"a\"\nplugins = \"none\"",
       "s.toml:2: plugins takes a list, [\"none\", \"NAME:key=value\"], not the string 'none'"},
      {"recipe = \"a\"\nplugins = [\"a\", 2]",
       "s.toml:2: a plugin is a string, \"NAME:key=value\", not the integer 2"},
      {"recipe = \"a\"\nplugins = [[]]", "s.toml:2: an empty list of plugins: write \"none\" for no plugin"},
      {"recipe = \"a\"\nplugins = [\"b\",\n\"b\"]", "s.toml:3: 'b' appears twice"},
      {"recipe = \"a\"\nplugins = [[\"b\", \"none\"]]",
       "s.toml:2: --plugin none clears the list of plugins: it cannot be combined with another --plugin"},
      {"recipe = \"a\"\nplugins = [\"b:c\"]",
       "s.toml:2: plugin spec 'b:c': 'c' is not key=value (join the values of a list by +, and put a value "
       "that holds a comma in quotes)"},
      {"recipe = \"a\"\nplugins = [\"a\\nb:c\\n\"]",
       "s.toml:2: plugin spec 'a\\x0ab:c\\x0a': 'c\\x0a' is not key=value (join the values of a list by +, "
       "and put a value that holds a comma in quotes)"},
      {"recipe = \"a\"\n[settings]\n\"train.e\\n\" = []", "s.toml:3: train.e\\x0a has no value"},
      {"recipe = \"a\"\nsettings = 1", "s.toml:2: settings is a section: write [settings]"},
      {"recipe = \"a\"\n[settings]\ntrain.epocs = 1",
       "s.toml:3: unknown key train.epocs (did you mean 'epochs'?)"},
      {"recipe = \"a\"\n[settings]\ntrain.epochs = [1,\n0]",
       "s.toml:4: train.epochs=0 is out of range: it takes an int 1 to 1000000000"},
      {"recipe = \"a\"\n[settings]\ntrain.epochs = []", "s.toml:3: train.epochs has no value"},
      {"recipe = \"a\"\n[settings]\ntrain.epochs = [1, 1]", "s.toml:3: train.epochs=1 appears twice"},
      {"recipe = \"a\"\n[settings]\nseed = 1", "s.toml:3: seeds are set by seeds = [0, 1, 2]"},
      {"recipe = \"a\"\n[settings]\ntrain.epochs = [1,2,3,4,5,6,7,8,9,10]\ntrain.batch = "
       "[1,2,3,4,5,6,7,8,9,10]\n"
       "data.count = [1,2,3,4,5,6,7,8,9,10]\neval.batch = [1,2,3,4,5,6,7,8,9,10,11]",
       "s.toml: 11000 runs are too many: a sweep may have at most 10000"},
      {"recipe = ", "s.toml:1: Error while parsing key-value pair: encountered end-of-file"},
  };
  for (const auto& error : errors) {
    CAPTURE(error.first);
    CHECK(message_of<UserError>([&] { parse_sweep(error.first, "s.toml"); }) == error.second);
  }
}

TEST_CASE("Mean and deviation are the sample's") {
  const Statistic none = statistic_of({}), one = statistic_of({3.5}), four = statistic_of({2, 4, 4, 6});
  CHECK(none.count == 0);
  CHECK(one.mean == 3.5);
  CHECK(one.deviation == 0);
  CHECK(four.mean == 4);
  CHECK(four.deviation == Approx(std::sqrt(8.0 / 3)));
}

TEST_CASE("A difference is the mean over pairs, and separates where its 95 % interval excludes 0") {
  // Student's quantiles: Fisher and Yates, Statistical Tables (1938), table III.
  CHECK(student_95(1) == Approx(12.706).epsilon(1e-4));
  CHECK(student_95(2) == Approx(4.303).epsilon(1e-4));
  CHECK(student_95(9) == Approx(2.262).epsilon(1e-3));
  const Difference alone = paired_difference({{1, 3}});
  CHECK((alone.pairs == 1 && alone.mean == 2 && alone.low == 2 && alone.high == 2));
  CHECK_FALSE(alone.separates());
  CHECK_FALSE(paired_difference({}).separates());
  // The seeds scatter by 10, the differences are 1, 2 and 3: 2 ± 4.303 · 1 / √3.
  const Difference clear = paired_difference({{10, 12}, {20, 21}, {30, 33}});
  CHECK(clear.mean == 2);
  CHECK(clear.low == Approx(2 - 4.30265 / std::sqrt(3.0)).epsilon(1e-5));
  CHECK(clear.high == Approx(2 + 4.30265 / std::sqrt(3.0)).epsilon(1e-5));
  CHECK_FALSE(clear.separates());
  CHECK(paired_difference({{10, 12}, {20, 22.1}, {30, 32.2}}).separates());
  CHECK(paired_difference({{12, 10}, {22.1, 20}, {32.2, 30}}).separates());
  CHECK_FALSE(paired_difference({{0.5, 0.75}, {0.25, 0.5}}).separates());  // a few images more, twice as many
}

TEST_CASE("A record is read back as it was written, and text that is none is refused") {
  const TemporaryFolder folder;
  const std::string file = folder.file("r.json");
  CHECK_FALSE(read_record(file).has_value());
  RunRecord record;
  record.recipe = "seed = 0\n";
  record.status = RunRecord::Status::finished;
  record.wall_seconds = 12.25;
  record.plugins = {{"gain", "1.2.3", "00ff"}, {"other", "1", "11"}};
  read_train_output(record, R"({"top1":0.5,"top5":0.75,"test_loss":1.5,"train_loss":1.25,"samples_per_s":99.5,
                                "train_seconds":11,"peak_mb":80.5,"of_none":null,"run":"x"})");
  write_record(file, record);
  const RunRecord again = read_record(file).value();
  CHECK(again.recipe == record.recipe);
  CHECK(again.status == RunRecord::Status::finished);
  CHECK(again.metrics.size() == 2);  // a mean over nothing is left out
  CHECK(again.metrics.at(0).name == "top1");
  CHECK(again.metrics.at(0).value == 0.5);
  CHECK(again.peak_mb == 80.5);
  CHECK(again.wall_seconds == 12.25);
  CHECK(again.plugins == record.plugins);
  record.plugins = {};  // as records were before they held plugins
  write_record(file, record);
  CHECK_FALSE(read_record(file)->plugins.has_value());
  write_file_atomically(file, std::string_view("{}"));
  CHECK_THAT(message_of<UserError>([&] { read_record(file); }),
             REWIRE_CATCH_CONTAINS("r.json is not a record of a run"));
  write_file_atomically(
      file, std::string_view(R"({"recipe":"","status":"begun","wall_seconds":1,"plugins":[{"name":"a"}]})"));
  CHECK_THAT(message_of<UserError>([&] { read_record(file); }),
             REWIRE_CATCH_CONTAINS("r.json is not a record of a run"));
  CHECK_THAT(message_of<UserError>([&] { read_train_output(record, "no"); }),
             REWIRE_CATCH_CONTAINS("printed no result: 'no'"));
}

TEST_CASE("The tables hold each row's mean and deviation over its finished runs") {
  const Sweep sweep =
      parse_sweep("recipe = \"m\"\nseeds = [0, 1, 2]\nplugins = [\"none\", \"p:a=1,b=2|3\"]", "s.toml");
  const std::vector<SweepRun> runs = sweep_runs(sweep);
  std::vector<std::optional<RunRecord>> records(runs.size());
  for (std::size_t i = 0; i < 3; ++i) {
    RunRecord record;
    record.status = RunRecord::Status::finished;
    record.metrics = {{"top1", 0.80 + 0.01 * static_cast<double>(i)}, {"top5", 1}};
    record.test_loss = 0.5;
    record.train_loss = 0.25;
    record.samples_per_s = 100;
    record.peak_mb = 50;
    record.wall_seconds = 10;
    records[i] = record;
  }
  RunRecord failed;
  failed.status = RunRecord::Status::failed;
  failed.error = "=it said \"no\", and left";
  records[3] = failed;
  records[4] = records[0];

  const std::vector<SweepRow> rows = sweep_rows(runs, records);
  CHECK(markdown_table(rows) ==
        "| plugins | runs | top-1 % | top-5 % | test loss | train loss | samples/s | peak MB | wall s |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
        "| none | 3 | 81.00 ± 1.00 | 100.00 ± 0.00 | 0.5000 ± 0.0000 | 0.2500 ± 0.0000 | 100 ± 0 | 50 ± 0 | "
        "10 ± 0 |\n"
        "| p:a=1,b=2\\|3 | 1 of 3, 1 failed | 80.00 | 100.00 | 0.5000 | 0.2500 | 100 | 50 | 10 |\n"
        "\nDifferences for one seed: more seeds are needed to tell them from chance.\n\n"
        "| plugins | against | seeds | top-1 % | top-5 % | test loss | train loss |\n"
        "|---|---|---|---|---|---|---|\n"
        "| p:a=1,b=2\\|3 | none | 1 | -1.00 | +0.00 | +0.0000 | +0.0000 |\n");
  CHECK_THAT(csv_table(rows),
             REWIRE_CATCH_CONTAINS("\n\"p:a=1,b=2|3\",,1,1,1,0.8,,1,,0.5,,0.25,,100,,50,,10,,none,1,-0.01") &&
                 REWIRE_CATCH_CONTAINS(",,,1,0,,,1,0,,,1,0,,\n"));
  const std::string each = csv_runs(runs, records);
  CHECK_THAT(each, REWIRE_CATCH_CONTAINS("\nnone-s1,none,,1,finished,0.81,1,0.5,0.25,100,0,50,10,\n") &&
                       REWIRE_CATCH_CONTAINS(",0,failed,,,,,,,,,\"'=it said \"\"no\"\", and left\"\n") &&
                       REWIRE_CATCH_CONTAINS(",2,left,,,,,,,,,\n"));
  // Every line of the terminal's table begins its columns at the same places.
  const std::string text = text_table(rows);
  CHECK(text.find("3  ") - text.find("none") == text.find("runs") - text.find("plugins"));
}

/// Of a run that ended so, at a rate and in seconds.
std::optional<RunRecord> finished_record(double top1, double loss, double rate = 100, double seconds = 1) {
  RunRecord record;
  record.status = RunRecord::Status::finished;
  record.metrics = {{"top1", top1}};
  record.test_loss = record.train_loss = loss;
  record.samples_per_s = rate;
  record.train_seconds = seconds;
  return record;
}

TEST_CASE("A strategy is compared with the first one seed by seed, and marked where that separates them") {
  const Sweep sweep = parse_sweep("recipe = \"m\"\nseeds = [0, 1, 2]\nplugins = [\"none\", \"p\"]", "s.toml");
  const std::vector<SweepRow> rows = sweep_rows(
      sweep_runs(sweep), {finished_record(0.50, 1), finished_record(0.60, 1), finished_record(0.70, 1),
                          finished_record(0.51, 0), finished_record(0.61, 1.5), finished_record(0.712, 1)});
  CHECK(rows[0].differences.empty());
  CHECK(rows[1].against == "none");
  // 0.010, 0.010 and 0.012: 0.01067 ± 4.30265 · 0.0011547 / √3, though the seeds scatter by 0.1.
  const std::string markdown = markdown_table(rows), text = text_table(rows), latex = latex_table(rows);
  CHECK_THAT(markdown,
             REWIRE_CATCH_CONTAINS("| none | 3 | 60.00 ± 10.00 | ") &&
                 REWIRE_CATCH_CONTAINS("\n\nPaired differences over seeds, mean [95 % interval]; bold: the "
                                       "interval excludes 0.\n\n") &&
                 REWIRE_CATCH_CONTAINS("| p | none | 3 | **+1.07 [+0.78, +1.35]** | -0.1667 [-") &&
                 !REWIRE_CATCH_CONTAINS("**-0.1667"));
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("+1.07 [+0.78, +1.35] *") && !REWIRE_CATCH_CONTAINS("**"));
  CHECK_THAT(latex,
             REWIRE_CATCH_CONTAINS("\\begin{tabular}{lrrrrrrr}\n\\hline\nplugins & runs & top-1 \\% & ") &&
                 REWIRE_CATCH_CONTAINS("\nnone & 3 & 60.00 $\\pm$ 10.00 & ") &&
                 REWIRE_CATCH_CONTAINS("\np & none & 3 & \\textbf{+1.07 [+0.78, +1.35]} & $-$0.1667 [$-$"));
  CHECK_THAT(csv_table(rows),
             REWIRE_CATCH_CONTAINS(",against,top1_pairs,top1_difference,top1_low,top1_high,"));
}

TEST_CASE("A strategy is compared under the same settings, and settings alone with the first") {
  const std::string settings = "\n[settings]\noptimizer.lr = [1e-3, 1e-2]";
  const Sweep both = parse_sweep("recipe = \"m\"\nplugins = [\"none\", \"p\"]" + settings, "s.toml");
  const std::vector<SweepRow> rows = sweep_rows(
      sweep_runs(both),
      {finished_record(0.1, 1), finished_record(0.2, 1), finished_record(0.4, 1), finished_record(0.8, 1)});
  CHECK((rows[0].against.empty() && rows[1].against.empty()));
  CHECK((rows[2].against == "none" && rows[3].against == "none"));
  CHECK(rows[3].differences.at(1).first == "top1");
  CHECK(rows[3].differences.at(1).second.mean == Approx(0.6));
  const Sweep alone = parse_sweep("recipe = \"m\"" + settings, "s.toml");
  const std::vector<SweepRow> rates =
      sweep_rows(sweep_runs(alone), {finished_record(0.1, 1), finished_record(0.2, 1)});
  CHECK(rates[1].against == "optimizer.lr=0.001");
}

TEST_CASE("Images a second are all images over all seconds") {
  const Sweep sweep = parse_sweep("recipe = \"m\"\nseeds = [0, 1]", "s.toml");
  const std::vector<SweepRow> rows =
      sweep_rows(sweep_runs(sweep), {finished_record(0.1, 1, 3000, 1), finished_record(0.1, 1, 600, 5)});
  CHECK(rows[0].samples_per_s.mean == Approx(1000));  // 6000 in 6 s; the rates' mean is 1800
}

}  // namespace
}  // namespace rewire::test
