// A run folder that was damaged, mixed up, removed or pruned: one line each, and never other numbers in
// silence.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "codegen/files/digest.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

const Words kThreeEpochs =
    kModel + Words{"--set",  "data.format=synthetic", "--set", "data.count=32", "--set", "train.batch=8",
                   "--set",  "train.epochs=3",        "--set", "eval.batch=16", "--set", "train.keep=3",
                   "--quiet"};

/// A run of three epochs of four steps, each with its checkpoint.
class Run {
 public:
  Run() { REQUIRE(rewire_command(Words{"train"} + kThreeEpochs + Words{"--out", path()}).code == 0); }
  std::string path() const { return folder_.file("run"); }
  std::string checkpoint(int epoch) const {
    return fmt::format("{}/checkpoints/{:04}-{:08}", path(), epoch, 4 * epoch);
  }
  Outcome resume(const Words& more = {}) const {
    return rewire_command(Words{"train", "--resume", path(), "--quiet", "--set", "train.epochs=4"} + more);
  }
  Outcome eval() const { return rewire_command({"eval", path(), "--quiet"}); }

 private:
  TemporaryFolder folder_;
};

void flip(const std::string& file, std::size_t byte, int bit) {
  std::string text = read_text(file);
  text.at(byte) = static_cast<char>(text.at(byte) ^ (1 << bit));
  write_text(file, text);
}

/// The text of checkpoint.json with its checksum made anew, so that no checksum speaks first.
std::string sealed(OrderedJson json) {
  json.erase("blake3");
  const std::string body = json.dump(2) + "\n";
  json["blake3"] = codegen::digest_hex(std::as_bytes(std::span(body.data(), body.size())));
  return json.dump(2) + "\n";
}

TEST_CASE("A flipped bit anywhere in a checkpoint is found, and the checkpoint before it is offered") {
  const Run run;
  const std::string last = run.checkpoint(3), before = run.checkpoint(2);
  const std::string way_out =
      "; " + before + " before it is intact: move " + last + " away to resume from there";
  for (const char* name : {"weights.safetensors", "state.safetensors"}) {
    const std::string file = last + "/" + name, sound = read_text(file);
    for (const std::size_t byte : {std::size_t{3}, std::size_t{40}, sound.size() / 2, sound.size() - 1}) {
      CAPTURE(name, byte);
      flip(file, byte, 4);
      check_refusal(run.resume(), file + " does not match its digest in checkpoint.json" + way_out);
      write_text(file, sound);
    }
    write_text(file, sound.substr(0, sound.size() / 2) + std::string(sound.size() - sound.size() / 2, '\0'));
    check_refusal(run.resume(), file + " does not match its digest in checkpoint.json" + way_out);
    fs::copy_file(before + "/" + name, file, fs::copy_options::overwrite_existing);
    check_refusal(run.resume(), file + " does not match its digest in checkpoint.json" + way_out);
    fs::remove(file);
    check_refusal(run.resume(), "cannot read " + file + ": No such file or directory" + way_out);
    write_text(file, sound);
  }
  flip(before + "/state.safetensors", 100, 0);
  flip(last + "/weights.safetensors", 100, 0);
  const Outcome resumed = run.resume();
  CHECK_THAT(resumed.err, REWIRE_CATCH_CONTAINS("; " + run.checkpoint(1) + " before it is intact: move "));
  CHECK(run.eval().err ==
        "rewire: " + last + "/weights.safetensors does not match its digest in checkpoint.json\n");
  flip(run.checkpoint(1) + "/checkpoint.json", 12, 2);
  CHECK_THAT(run.resume().err, REWIRE_CATCH_CONTAINS("; no checkpoint before it is intact: train again\n"));
}

TEST_CASE("No value of checkpoint.json can be changed, were it by one bit") {
  const Run run;
  const std::string file = run.checkpoint(3) + "/checkpoint.json", sound = read_text(file);
  for (std::size_t byte = 0; byte < sound.size(); byte += 1 + sound.size() / 24) {
    CAPTURE(byte);
    flip(file, byte, static_cast<int>(byte % 7));
    const Outcome outcome = run.resume();
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS(file));
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    write_text(file, sound);
  }
}

TEST_CASE("A checkpoint under another's name, or without its count of steps, is refused") {
  const Run run;
  const std::string last = run.checkpoint(3), moved = run.path() + "/checkpoints/0004-00000012";
  fs::rename(last, moved);
  CHECK_THAT(run.resume().err,
             REWIRE_CATCH_CONTAINS(moved + "/checkpoint.json belongs to the checkpoint 0003-00000012; "));
}

TEST_CASE("A run of an earlier Rewire is refused in one line, and its weights still load") {
  const Run run;
  const std::string file = run.checkpoint(3) + "/checkpoint.json";
  OrderedJson json = OrderedJson::parse(read_text(file));
  json["format"] = 5;
  write_text(file, json.dump(2));
  const std::string refusal =
      file + " is from an earlier Rewire (format 5, not 6): its run cannot be resumed; use its weights " +
      run.checkpoint(3) + "/weights.safetensors with --weights or train.weights";
  check_refusal(run.resume(), refusal);
  check_refusal(run.eval(), refusal);
  const TemporaryFolder folder;
  CHECK(rewire_command(Words{"train"} + kThreeEpochs +
                       Words{"--set", "train.weights=" + run.checkpoint(3) + "/weights.safetensors", "--out",
                             folder.file("again")})
            .code == 0);
}

TEST_CASE("Counters beyond what a run can count are refused") {
  const Run run;
  const std::string file = run.checkpoint(3) + "/checkpoint.json";
  const OrderedJson json = OrderedJson::parse(read_text(file));
  for (const auto& [key, value, shown] :
       {std::tuple<std::string, OrderedJson, std::string>{
            "epoch", 4294967296, "4294967296, not a whole number from 0 to 4294967295"},
        {"step", -1, "-1, not a whole number from 0 to 9007199254740992"},
        {"images", 18446744073709551615U,
         "18446744073709551615, not a whole number from 0 to 9007199254740992"},
        {"metrics_bytes", 1.5, "1.5, not a whole number from 0 to 9223372036854775807"}}) {
    OrderedJson changed = json;
    changed[key] = value;
    write_text(file, sealed(changed));
    CHECK_THAT(run.resume({"--log-level", "error"}).err,
               REWIRE_CATCH_CONTAINS(file + ": " + key + " is " + shown + "; "));
  }
}

TEST_CASE("A best metric that is no name is refused") {
  const Run run;
  const std::string file = run.checkpoint(3) + "/checkpoint.json";
  OrderedJson json = OrderedJson::parse(read_text(file));
  for (const char* metric : {"", "top 1", "loss\n", "\x1b[31m"}) {
    json["best"]["metric"] = metric;
    write_text(file, sealed(json));
    const Outcome outcome = run.resume();
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("is not the name of a metric"));
  }
}

TEST_CASE("A recipe whose seed was changed is told from the run's") {
  const Run run;
  std::string recipe = read_text(run.path() + "/recipe.toml");
  const std::size_t at = recipe.find("seed = 0");
  REQUIRE(at != std::string::npos);
  recipe[at + 7] = '5';
  write_text(run.path() + "/recipe.toml", recipe);
  check_refusal(run.resume(), run.checkpoint(3) + " is from a run with seed = 0, but the recipe has 5");
}

TEST_CASE("choices.json of another shape is refused where it differs") {
  const Run run;
  const std::string file = run.path() + "/choices.json";
  const OrderedJson sound = OrderedJson::parse(read_text(file));
  const auto refused = [&](const std::string& text, const std::string& message) {
    write_text(file, text);
    CHECK_THAT(run.resume().err, REWIRE_CATCH_CONTAINS("rewire: " + message));
    const Outcome eval = run.eval();
    CHECK(eval.code == 2);
    CHECK_THAT(eval.err, REWIRE_CATCH_CONTAINS("rewire: " + message));
  };
  const auto with = [&](const char* key, const OrderedJson& value) {
    OrderedJson changed = sound;
    changed[key] = value;
    return changed.dump();
  };
  refused(with("later", OrderedJson::array()), file + ": later is empty");
  refused(with("later", OrderedJson::object()), file + ": later is an object, not a list");
  refused(with("later", OrderedJson{1}), file + ": later[0] is a number, not an object");
  refused(with("engine", 5), file + ": engine is a number, not text");
  refused(with("built_with", "x"), file + ": built_with is text, not an object");
  refused(with("kernels", OrderedJson::array()), file + ": kernels is a list, not an object");
  refused(with("choices", OrderedJson::object()), file + ": choices is an object, not a list");
  refused(with("egnine", "jit"), file + " has an unknown \"egnine\" (did you mean 'engine'?)");
  refused("[]", file + " is a list, not an object");
  refused("", file + " is not valid JSON: ");
  refused(with("later", OrderedJson::parse(std::string(15, '[') + std::string(15, ']'))),
          file + ": later[0] is a list");
  refused("{\"engine\": " + std::string(40'000, '[') + std::string(40'000, ']') + "}",
          file + " is not valid JSON: it is more than 16 levels deep");
  CHECK(fs::file_size(file) < 100'000);
}

TEST_CASE("A run whose folder is removed, or replaced, ends in one line and makes no other") {
  for (const bool replaced : {false, true}) {
    CAPTURE(replaced);
    const TemporaryFolder folder;
    const std::string run = folder.file("run");
    RunningCommand command(Words{"train"} + kThreeEpochs +
                           Words{"--out", run, "--set", "train.epochs=100000"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (command.running() && !fs::exists(run + "/checkpoints/0001-00000004") &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(command.running());
    fs::rename(run, folder.file("moved"));
    if (replaced) fs::create_directory(run);
    const Outcome outcome = command.wait();
    check_refusal(outcome, run + " was removed or replaced while the run wrote to it: the run ends here");
    CHECK(fs::exists(run) == replaced);
    if (replaced) CHECK(fs::is_empty(run));
  }
}

TEST_CASE("An evaluation beside a run that prunes its checkpoints takes the newest") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  RunningCommand command(Words{"train"} + kThreeEpochs +
                         Words{"--out", run, "--set", "train.epochs=100000", "--set", "train.keep=1"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (command.running() && !fs::exists(run + "/checkpoints/0001-00000004") &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < 12; ++i) {
    const Outcome outcome = rewire_command({"eval", run, "--quiet"});
    CHECK(outcome.err.empty());
    CHECK(outcome.code == 0);
  }
  REQUIRE(command.running());
  command.signal(SIGTERM);
  command.wait();
}

TEST_CASE("An evaluation that is not finite is refused") {
  const Run run;
  const TemporaryFolder folder;
  const std::string weights = folder.file("w.safetensors");
  std::string text = read_text(run.path() + "/weights.safetensors");
  text.replace(text.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));  // NaN
  write_text(weights, text);
  check_refusal(
      rewire_command({"eval", run.path(), "--weights", weights, "--quiet"}),
      "eval: " + weights +
          ": the loss on the 32 samples is nan: the network has diverged, or a weight is not finite");
}

TEST_CASE("The best checkpoint and the averages of the weights are evaluated by name") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), plain = folder.file("plain");
  const Words averaged = {"--set", "train.ema=0.5", "--set", "train.best_metric=ema_loss"};
  REQUIRE(rewire_command(Words{"train"} + kThreeEpochs + averaged + Words{"--out", run}).code == 0);
  std::map<int, OrderedJson> lines;  // by epochs done
  std::istringstream metrics(read_text(run + "/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    const OrderedJson json = OrderedJson::parse(line);
    if (json.at("kind") == "eval") lines[json.at("epoch").get<int>() + 1] = json;
  }
  REQUIRE(lines.size() == 3);
  const auto evaluated = [&](const Words& options) {
    const Outcome outcome = rewire_command(Words{"eval", run, "--json", "--quiet"} + options);
    CHECK(outcome.err.empty());
    return OrderedJson::parse(outcome.out);
  };
  const std::string best = read_text(run + "/checkpoints/best"), last = read_text(run + "/checkpoints/last");
  CHECK(last == "0003-00000012\n");
  const OrderedJson& of_best = lines.at(std::stoi(best));
  for (const auto& [epoch, line] : lines) CHECK(of_best.at("ema_loss") <= line.at("ema_loss"));
  CHECK(evaluated({}).at("loss") == lines.at(3).at("loss"));
  CHECK(evaluated({"--ema"}).at("loss") == lines.at(3).at("ema_loss"));
  CHECK(evaluated({"--checkpoint", "best"}).at("loss") == of_best.at("loss"));
  CHECK(evaluated({"--checkpoint", "best", "--ema"}).at("loss") == of_best.at("ema_loss"));
  CHECK(evaluated({"--checkpoint", "0001-00000004", "--ema"}).at("loss") == lines.at(1).at("ema_loss"));
  CHECK(evaluated({"--weights", run + "/weights_ema.safetensors"}).at("loss") == lines.at(3).at("ema_loss"));

  const auto refused = [&](const Words& command, const std::string& message) {
    check_refusal(rewire_command(Words{"eval"} + command + Words{"--quiet"}), message);
  };
  const std::string there = "; there are 0001-00000004, 0002-00000008, 0003-00000012";
  refused({run, "--checkpoint", "first"}, run + " has no checkpoint 'first'" + there);
  refused({run, "--checkpoint", "0009-00000001"}, run + " has no checkpoint '0009-00000001'" + there);
  refused({"vit_tiny_28", "--ema", "--weights", run + "/weights.safetensors"},
          "--ema chooses among the weights of a run, but vit_tiny_28 is not a run");
  refused({run, "--checkpoint", "best", "--weights", run + "/weights.safetensors"},
          "--checkpoint chooses among the weights of the run: remove it, or --weights " + run +
              "/weights.safetensors");
  const std::string averages = run + "/checkpoints/0003-00000012/weights_ema.safetensors";
  flip(averages, 100, 0);
  refused({run, "--ema"}, averages + " does not match its digest in checkpoint.json");
  REQUIRE(rewire_command(Words{"train"} + kThreeEpochs + Words{"--out", plain}).code == 0);
  refused({plain, "--ema"}, plain +
                                "/checkpoints/0003-00000012 has no weights_ema.safetensors: the run keeps no "
                                "averages of its weights (train.ema)");
}

}  // namespace
}  // namespace rewire::test
