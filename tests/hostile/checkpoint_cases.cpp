// A checkpoint's three files, met by --resume and by eval.
#include <nlohmann/json.hpp>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

using Json = nlohmann::ordered_json;

const std::string kLast = "run/checkpoints/0002-00000006", kBefore = "run/checkpoints/0001-00000005";

/// Its file `name`, of which every bit counts.
void add_file(Table& table, const std::string& name, const std::string& bytes) {
  const std::string file = kLast + "/" + name;
  const Expectation no = refused("@/" + kLast, name);
  add_odd_files(table, file, Origin::folder, no);
  add_lost_links(table, file, no);
  const std::size_t counted =
      name.ends_with(".json") ? bytes.size() - 1 : bytes.size();  // but for its last newline
  add_cuts(table, file, counted, 6, no);
  add_flips(table, file, 0, counted, 24, no);
  table.row(name + " is gone", {remove(file)}, no);
  table.row(name + " with a byte behind it", {extend(file, "x")}, no);
  table.row(name + " with a block of zeros", {zero(file, bytes.size() / 2, 64)}, no);
  table.row(name + " is the one of the checkpoint before", {copy(good().file(kBefore + "/" + name), file)},
            no);
}

/// checkpoint.json as an author with a text editor leaves it.
void add_counts(Table& table, const Json& sound) {
  const std::string file = kLast + "/checkpoint.json";
  const Expectation no = refused("@/" + kLast, "checkpoint.json");
  for (const char* key : {"format", "epoch", "step_in_epoch", "step", "metrics_bytes", "images"}) {
    for (const char* value :
         {"-1", "7", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "1.5", "1e300"}) {
      Json changed = sound;
      changed[key] = Json::parse(value);
      if (changed != sound)
        table.row(std::string(key) + " = " + value, {put(file, changed.dump(2) + "\n")}, no);
    }
  }
  for (const char* key : {"last_epoch_loss", "train_seconds"}) {
    for (const char* value : {"-1e308", "1e308"}) {
      Json changed = sound;
      changed[key] = Json::parse(value);
      table.row(std::string(key) + " = " + value, {put(file, changed.dump(2) + "\n")}, no);
    }
  }
  table.row("a key twice", {replace(file, "\"epoch\":", "\"epoch\": 2, \"epoch\":")}, no);
  table.row("a number beyond what there is", {replace(file, "\"images\": ", "\"images\": 1e999")}, no);
}

}  // namespace

void add_checkpoint_cases(std::vector<Case>& cases) {
  const Step run = copy(good().file("run"), "run");
  Table resumed(cases, "resumed", {"train", "--resume", "@/run", "--quiet"}, {run});
  resumed.row("sound", {}, fine());
  for (const char* name : {"checkpoint.json", "weights.safetensors", "state.safetensors"})
    add_file(resumed, name, good().bytes(kLast + "/" + name));
  const std::string text = good().bytes(kLast + "/checkpoint.json"), json = kLast + "/checkpoint.json";
  const Expectation no = refused("@/" + kLast, "checkpoint.json");
  add_counts(resumed, Json::parse(text));
  add_no_json(resumed, json, text, no);
  add_wrong_json(resumed, json, Json::parse(text), no);

  // Evaluation reads the weights; a few of each kind.
  Table evaluated(cases, "evaluated", {"eval", "@/run", "--quiet"}, {run});
  evaluated.row("sound", {}, fine());
  for (const char* name : {"checkpoint.json", "weights.safetensors"}) {
    const std::string file = kLast + "/" + name;
    const std::size_t size = good().bytes(file).size() - 1;
    add_flips(evaluated, file, 0, size, 6, refused("@/" + kLast, name));
    add_cuts(evaluated, file, size, 4, refused("@/" + kLast, name));
    evaluated.row(std::string(name) + " is gone", {remove(file)}, refused("@/" + kLast, name));
  }
}

}  // namespace rewire::test
