// Choices by timing, on programs and a clock that say what the test wants: what is taken, what is kept, and
// when the clock is not asked at all.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "ir/builder.h"
#include "ir/error.h"
#include "runtime/exec/tune/tune_keys.h"
#include "runtime/exec/tune/tuner.h"
#include "runtime/io/json_view.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace rewire;
using runtime::ChoiceCache;
using runtime::ChoiceRecord;
using runtime::MadeChoice;
using runtime::Tuner;
using runtime::TunerOptions;

namespace {

const std::string kKey = "circulant_matmul of a test";

/// Candidates by the cost model: dense, split2, fft.
ir::Choice question(const std::string& key = kKey) {
  return {key, {"dense", "split2", "fft"}, [](const std::string& candidate) {
            ir::Module module;
            module.name = candidate;
            module.functions.emplace_back().name = "trial";
            return module;
          }};
}

/// Where candidates take as long as they are said to.
struct Machine {
  std::map<std::string, double> seconds;
  double time = 0;
  int trials = 0, runs = 0;
  std::vector<std::string> unsteady = {};  // whose two runs differ
  std::vector<std::string> compared = {};  // of which two runs were compared, in order
};

TunerOptions options(Machine& machine, const std::string& folder) {
  TunerOptions options;
  options.cache_directory = folder;
  options.place = "here";
  options.clock = [&machine] { return machine.time; };
  options.make_trial = [&machine](const ir::Module& module, const ChoiceRecord&) {
    ++machine.trials;
    return runtime::Trial{[&machine, candidate = module.name] {
                            ++machine.runs;
                            machine.time += machine.seconds.at(candidate);
                            return machine.seconds.at(candidate);
                          },
                          [&machine, candidate = module.name] {
                            machine.compared.push_back(candidate);
                            return std::ranges::find(machine.unsteady, candidate) == machine.unsteady.end();
                          }};
  };
  return options;
}

std::string folder_in(const test::TemporaryFolder& folder) {
  return folder.file("cache");
}

}  // namespace

TEST_CASE("The fastest candidate is taken, once, and stands in the record with the times") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  Tuner tuner(options(machine, folder_in(folder)));
  CHECK(tuner.choose(question()) == "split2");
  const int runs = machine.runs;
  CHECK(runs > 0);
  CHECK(tuner.choose(question()) == "split2");
  CHECK(machine.runs == runs);
  CHECK(tuner.timed() == 1);
  REQUIRE(tuner.record().made().size() == 1);
  const MadeChoice& made = tuner.record().made()[0];
  CHECK(made.by == "timing");
  REQUIRE(made.seconds.size() == 3);
  CHECK(made.seconds[1].first == "split2");
  CHECK(made.seconds[1].second == Approx(0.001));
}

TEST_CASE("Between equals the cost model's stays; of those far behind no time is kept") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.001}, {"split2", 0.00099}, {"fft", 0.1}}};
  Tuner tuner(options(machine, folder_in(folder)));
  CHECK(tuner.choose(question()) == "dense");
  CHECK(tuner.record().made()[0].seconds.size() == 2);
}

TEST_CASE("One candidate that takes longer than the budget is no reason not to time the others") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 5}}};
  Tuner tuner(options(machine, folder_in(folder)));
  CHECK(tuner.choose(question()) == "split2");
  CHECK(tuner.record().made()[0].by == "timing");
  CHECK(machine.time < 5 + 1);
}

TEST_CASE("Where the candidates take longer than the budget the cost model decides, from then on") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.9}, {"split2", 0.5}, {"fft", 0.7}}};
  Tuner tuner(options(machine, folder_in(folder)));
  CHECK(tuner.choose(question()) == "dense");
  CHECK(tuner.record().made()[0].by == "model");
  CHECK(machine.time < 2 + 1);
  Machine rested{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  Tuner again(options(rested, folder_in(folder)));
  CHECK(again.choose(question()) == "dense");
  CHECK(rested.runs == 0);
}

TEST_CASE("A winner whose two runs differ is struck, and the next is asked") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  machine.unsteady = {"split2"};
  Tuner tuner(options(machine, folder_in(folder)));
  CHECK(tuner.choose(question()) == "fft");
  CHECK(machine.compared == std::vector<std::string>{"split2", "fft"});
  CHECK(tuner.record().made()[0].by == "timing");
  CHECK(tuner.record().made()[0].seconds.size() == 3);

  Machine none{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  none.unsteady = {"dense", "split2", "fft"};
  Tuner lost(options(none, folder_in(folder)));
  CHECK(lost.choose(question("circulant_matmul of another")) == "dense");
  CHECK(none.compared == std::vector<std::string>{"split2", "fft", "dense"});
  CHECK(lost.record().made()[0].by == "model");
}

TEST_CASE("When the time for all choices is spent the others are the model's, and are asked again") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.03}, {"split2", 0.01}, {"fft", 0.02}}};
  TunerOptions hurried = options(machine, folder_in(folder));
  hurried.total_seconds = 0.5;
  Tuner tuner(hurried);
  CHECK(tuner.limit_text(2) == "2 s");
  CHECK(tuner.choose(question()) == "split2");
  CHECK(tuner.choose(question("circulant_matmul of another")) == "dense");
  CHECK(tuner.out_of_time() == 1);
  CHECK(tuner.seconds() < 0.5 + 0.03);
  CHECK(tuner.limit_text(2) == "0.5 s for all choices");
  Tuner next(options(machine, folder_in(folder)));
  CHECK(next.choose(question("circulant_matmul of another")) == "split2");
  CHECK(next.timed() == 1);
}

namespace {

/// Racers that take these seconds; `runs` counts.
std::vector<runtime::Racer> racers_of(const std::vector<double>& seconds, std::vector<int>& runs,
                                      double& time) {
  std::vector<runtime::Racer> racing;
  runs.assign(seconds.size(), 0);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    racing.push_back({i, [&runs, &time, i, own = seconds[i]] {
                        ++runs[i];
                        time += own;
                        return own;
                      }});
  }
  return racing;
}

}  // namespace

TEST_CASE("A racer that is behind the best so far leaves after one run, the first stays") {
  std::vector<int> runs;
  double time = 0;
  std::vector<runtime::Racer> racing = racers_of({0.02, 0.014, 0.01, 0.0131, 0.0129}, runs, time);
  CHECK(runtime::race(racing, [&] { return time; }, {.budget_seconds = 10, .behind = 1.3}));
  CHECK(runs == std::vector<int>{11, 2, 11, 1, 11});  // the second is behind only what came after it
  REQUIRE(racing.size() == 3);
  CHECK(racing[1].candidate == 2);
  CHECK(racing[1].seconds == Approx(0.01));
}

TEST_CASE("Racers after the first few enter while the time for it lasts") {
  std::vector<int> runs;
  double time = 0;
  std::vector<runtime::Racer> racing = racers_of({0.01, 0.01, 0.01, 0.01, 0.01}, runs, time);
  CHECK(runtime::race(racing, [&] { return time; },
                      {.budget_seconds = 10, .at_least = 2, .entry_seconds = 0.025}));
  CHECK(runs == std::vector<int>{11, 11, 11, 0, 0});
  CHECK(racing.size() == 3);
}

TEST_CASE("A choice is kept on disk: the next process times nothing, without the file it times anew") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  Tuner first(options(machine, folder_in(folder)));
  CHECK(first.choose(question()) == "split2");
  Machine other{{{"dense", 0.003}, {"split2", 0.002}, {"fft", 0.001}}};
  Tuner second(options(other, folder_in(folder)));
  CHECK(second.choose(question()) == "split2");
  CHECK(other.trials == 0);
  CHECK(second.record() == first.record());
  std::filesystem::remove_all(folder_in(folder));
  Tuner third(options(other, folder_in(folder)));
  CHECK(third.choose(question()) == "fft");
  CHECK(third.timed() == 1);
}

TEST_CASE("A file of the cache that is damaged, cut short or of something else is as good as none") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  Tuner first(options(machine, folder_in(folder)));
  first.choose(question());
  const ChoiceCache cache(folder_in(folder), "here");
  const std::string file = cache.path(kKey);
  std::ifstream stream(file);
  const std::string sound{std::istreambuf_iterator<char>(stream), {}};
  std::string of_another_key = sound, of_another_place = sound, unknown = sound;
  of_another_key.replace(of_another_key.find("of a test"), 9, "of a tent");
  of_another_place.replace(of_another_place.find("here"), 4, "away");
  unknown.replace(unknown.find("\"split2\""), 8, "\"split3\"");
  for (const std::string& content :
       {sound.substr(0, sound.size() / 2), std::string(), std::string("{}"), std::string("\xff\x00\x01", 3),
        of_another_key, of_another_place, unknown, std::string(100000, '[')}) {
    std::ofstream(file) << content;
    CHECK_FALSE(cache.load(kKey).has_value());
    Tuner next(options(machine, folder_in(folder)));
    CHECK(next.choose(question()) == "split2");
    CHECK(next.timed() == 1);
    CHECK(cache.load(kKey).has_value());
  }
}

TEST_CASE("What is given, what cannot be kept, and what is not to be timed asks no clock") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  TunerOptions given = options(machine, folder_in(folder));
  given.given.add({kKey, "fft", "timing", {}});
  Tuner replay(given);
  CHECK(replay.choose(question()) == "fft");
  CHECK(replay.choose(question("circulant_matmul of another")) == "split2");  // lacking: made, and appended
  CHECK(replay.timed() == 1);
  CHECK(replay.record().made().size() == 2);

  Tuner homeless(options(machine, ""));
  CHECK(homeless.choose(question()) == "dense");
  TunerOptions untimed = options(machine, folder_in(folder));
  untimed.time = false;
  Tuner modelled(untimed);
  CHECK(modelled.choose(question("circulant_matmul of another")) == "dense");
  CHECK(homeless.timed() + modelled.timed() == 0);
}

TEST_CASE("Numbers of the compiler are choices: recorded first, and read back from the record") {
  const test::TemporaryFolder folder;
  Machine machine{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  TunerOptions given = options(machine, folder_in(folder));
  given.given.add(runtime::parse_tune("group_ops=300", "--tune"));
  given.given.add(runtime::parse_tune("parts=7", "--tune"));
  Tuner tuner(given);
  tuner.choose(question());
  const ChoiceRecord& record = tuner.record();
  REQUIRE(record.made().size() == 3);
  CHECK(record.made()[0] == MadeChoice{"tune group_ops", "300", "request", {}});
  CHECK(runtime::tune_text(record) == ", group_ops=300, parts=7");
  CHECK(runtime::tuned(record, "warps", 0) == 0);
  codegen::WorkGrain grain;
  runtime::tune(grain, record);
  CHECK(grain.group_ops == 300);
  CHECK(grain.max_instances == 7);
  const nlohmann::ordered_json written = runtime::to_json(record);
  CHECK(runtime::record_from_json(runtime::JsonView(written, "")) == record);

  const auto refusal = [](const std::string& text) {
    return test::message_of<UserError>([&] { runtime::parse_tune(text, "--tune"); });
  };
  CHECK(refusal("group_ops") == "--tune group_ops: it takes KEY=VALUE, as group_ops=300");
  CHECK(refusal("group_op=3") ==
        "--tune group_op=3: there is no key 'group_op' (did you mean 'group_ops'?); choose from group_ops, "
        "parts, warps, candidates");
  for (const char* value : {"0", "33", "4.5", "", "-1", "4 ", "99999999999999999999"})
    CHECK(refusal(std::string("warps=") + value) ==
          std::string("--tune warps=") + value + ": warps takes a whole number from 1 to 32");
  const nlohmann::ordered_json wrong = {{{"key", "tune warps"}, {"taken", "many"}}};
  CHECK(test::message_of<UserError>([&] { runtime::record_from_json(runtime::JsonView(wrong, "f.json")); }) ==
        "f.json: tune warps=many: warps takes a whole number from 1 to 32");
}

TEST_CASE("A recorded answer that cannot be is refused in one line") {
  const test::TemporaryFolder folder;
  Machine machine;
  TunerOptions given = options(machine, folder_in(folder));
  given.given.add({kKey, "split8", "timing", {}});
  Tuner replay(given);
  CHECK(test::message_of<UserError>([&] { replay.choose(question()); }) ==
        "the recorded choice of 'circulant_matmul of a test' is 'split8', which is not available here; "
        "choose from dense, split2, fft");
}

TEST_CASE("Of two at once one makes the choice and the other takes it") {
  const test::TemporaryFolder folder;
  Machine one{{{"dense", 0.003}, {"split2", 0.001}, {"fft", 0.002}}};
  Machine two{{{"dense", 0.003}, {"split2", 0.002}, {"fft", 0.001}}};
  Tuner first(options(one, folder_in(folder))), second(options(two, folder_in(folder)));
  std::string by_first, by_second;
  std::thread thread([&] { by_first = first.choose(question()); });
  by_second = second.choose(question());
  thread.join();
  CHECK(by_first == by_second);
  CHECK(first.timed() + second.timed() == 1);
}

TEST_CASE("A file of choices is read as it was written, and its faults are one line each") {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("choices.json");
  const auto refusal = [&](const std::string& text) {
    std::ofstream(file) << text;
    return test::message_of<UserError>([&] { runtime::read_choice_file(file); }).substr(file.size());
  };
  std::ofstream(file) << R"({"engine": "jit", "choices": [{"key": "circulant_matmul a", "taken": "fft",
                             "by": "timing", "ms": {"fft": 2, "dense": 3.5}}]})";
  ChoiceRecord wanted;
  wanted.add({"circulant_matmul a", "fft", "timing", {{"fft", 2e-3}, {"dense", 3.5e-3}}});
  CHECK(runtime::read_choice_file(file) == wanted);
  // However many digits a time has.
  ChoiceRecord timed;
  timed.add({"circulant_matmul a", "fft", "timing", {{"fft", 2.2514198720455172e-4}, {"dense", 1.0 / 3}}});
  const auto text = [](const ChoiceRecord& record) { return runtime::to_json(record).dump(); };
  const nlohmann::ordered_json written = runtime::to_json(timed);
  CHECK(text(runtime::record_from_json(runtime::JsonView(written, ""))) == text(timed));
  CHECK(refusal(R"([{"key": "circulant_matmull a", "taken": "fft"}])") ==
        ": this Rewire has no choice 'circulant_matmull a' (did you mean 'circulant_matmul'?)");
  CHECK(refusal(R"([{"key": "circulant_matmul a", "taken": "split3"}])") ==
        ": 'split3' is not one of dense, split2, split4, split8, fft, as 'circulant_matmul a' needs (did you "
        "mean 'split2'?)");
  CHECK(
      refusal(
          R"([{"key": "circulant_matmul a", "taken": "fft"}, {"key": "circulant_matmul a", "taken": "fft"}])") ==
      ": 'circulant_matmul a' appears twice");
  CHECK(refusal(R"({"engine": "jit"})") ==
        " has no \"choices\": a run of `rewire train` writes them into its choices.json");
  CHECK(refusal("{").starts_with(" is not valid JSON: "));
  CHECK(refusal(R"([{"taken": "fft"}])") == ": [0] has no \"key\"");
}
