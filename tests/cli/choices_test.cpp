// Choices made by timing, as a user meets them: recorded in the run, replayed by --resume and --choices,
// refused in one line where a file of them is wrong.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

/// One block-circulant layer, 28 rows of an image as its slices.
constexpr const char* kModule = R"rir(module @mixer {
  param @c : f32[1,28,28] {init = "trunc_normal(0.02, 2.0)"}
  func @forward(%image: f32[16,1,28,28]) -> (logits: f32[16,10]) {
    %0 = reshape %image : f32[16,784]
    %1 = param {name = "c"} : f32[1,28,28]
    %2 = circulant_matmul %0, %1 : f32[16,28]
    %3 = slice %2 {limits = [16, 10], starts = [0, 0]} : f32[16,10]
    return logits = %3
  }
}
)rir";
const std::string kKey = "circulant_matmul conv rows=16 blocks=1x28 lags=28 f32 training";

/// The choices of the circulant layer: a CPU may have others, of who computes its products (product_choices.h).
OrderedJson of_circulant(const OrderedJson& choices) {
  OrderedJson those = OrderedJson::array();
  for (const OrderedJson& choice : choices)
    if (choice.at("key").get<std::string>().starts_with("circulant_matmul")) those.push_back(choice);
  return those;
}

class RecordPlace {
 public:
  RecordPlace() {
    write_text(file("mixer.rir"), kModule);
    data_ = {file("mixer.rir"), "--set", "data.format=synthetic", "--set",
             "data.count=48",   "--set", "train.epochs=1",        "--quiet"};
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  /// With a cache of this place's own.
  Outcome rewire(const Words& words, const std::string& cache = "cache") const {
    return RunningCommand(words, {"XDG_CACHE_HOME=" + file(cache)}).wait();
  }
  Outcome train(const std::string& out, const Words& more = {}, const std::string& cache = "cache") const {
    return rewire(Words{"train"} + data_ + Words{"--out", file(out)} + more, cache);
  }
  OrderedJson choices(const std::string& run) const {
    return OrderedJson::parse(read_text(file(run) + "/choices.json")).at("choices");
  }
  std::string weights(const std::string& run) const { return read_text(file(run) + "/weights.safetensors"); }
  Words bench(const Words& more) const {
    return Words{"bench", file("mixer.rir"), "--steps", "1", "--quiet"} + more;
  }

 private:
  TemporaryFolder folder_;
  Words data_;
};

}  // namespace

TEST_CASE("A run records its choices, and every later one takes them: cached, resumed, given") {
  const RecordPlace place;
  const Outcome first = place.train("first");
  CHECK(first.err.empty());
  const OrderedJson choices = place.choices("first");
  REQUIRE(of_circulant(choices).size() == 2);  // the step's and the evaluation's
  CHECK(of_circulant(choices)[0].at("key") == kKey);
  CHECK(OrderedJson::parse(read_text(place.file("first") + "/checkpoints/0001-00000003/checkpoint.json"))
            .at("choices") == choices);

  CHECK(place.train("again").err.empty());
  CHECK(place.choices("again") == choices);  // times and all: nothing was timed
  CHECK(place.weights("again") == place.weights("first"));

  const std::string resumed = place.file("first");
  CHECK(place.rewire({"train", "--resume", resumed, "--set", "train.epochs=2", "--quiet"}, "other")
            .err.empty());
  CHECK(place.choices("first") == choices);
  for (const auto& entry : fs::directory_iterator(place.file("other") + "/rewire"))
    CHECK(entry.path().extension() != ".choice");
  fs::remove(place.file("first") + "/choices.json");  // the checkpoint has them too
  CHECK(place.rewire({"train", "--resume", resumed, "--set", "train.epochs=3", "--quiet"}, "other")
            .err.empty());
  CHECK(place.choices("first") == choices);

  CHECK(place.train("given", {"--choices", place.file("again") + "/choices.json"}, "other").err.empty());
  CHECK(place.choices("given") == choices);
  CHECK(place.weights("given") == place.weights("again"));
}

TEST_CASE("What a file of choices says is done, and --no-autotune times nothing") {
  const RecordPlace place;
  for (const std::string lowering : {"dense", "split2", "split4", "fft"}) {
    CAPTURE(lowering);
    const OrderedJson given = {{"choices", {{{"key", kKey}, {"taken", lowering}}}}};
    write_text(place.file("given.json"), given.dump());
    const Outcome bench =
        place.rewire(place.bench({"--json", "--no-autotune", "--choices", place.file("given.json")}));
    CHECK(bench.err.empty());
    CHECK(of_circulant(OrderedJson::parse(bench.out).at("choices"))[0].at("taken") == lowering);
    const Outcome step = place.rewire(
        {"dump", place.file("mixer.rir"), "--stage", "step", "--choices", place.file("given.json")});
    CHECK((step.out.find("rfft") != std::string::npos) == (lowering == "fft"));
  }
  CHECK(place.train("untimed", {"--no-autotune"}).err.empty());
  for (const OrderedJson& choice : place.choices("untimed")) {
    CHECK(choice.at("by") == "model");
    CHECK_FALSE(choice.contains("ms"));
  }
}

TEST_CASE("A damaged entry of the cache is passed over, with a line for who asks") {
  const RecordPlace place;
  const Words bench = {"bench", place.file("mixer.rir"), "--steps", "1", "--log-level", "debug"};
  CHECK(place.rewire(bench).code == 0);
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(place.file("cache") + "/rewire")) {
    if (entry.path().extension() != ".choice") continue;
    ++entries;
    write_text(entry.path().string(), "{\"place\":");
  }
  REQUIRE(entries >= 1);
  const Outcome again = place.rewire(bench);
  CHECK(again.code == 0);
  CHECK_THAT(again.err, REWIRE_CATCH_CONTAINS(".choice: it is not valid JSON: "));
}

TEST_CASE("A file of choices that is wrong is refused before anything is made") {
  const RecordPlace place;
  const auto refusal = [&](const std::string& text) {
    write_text(place.file("given.json"), text);
    const Outcome outcome = place.train("never", {"--choices", place.file("given.json")});
    CHECK(outcome.code == 2);
    CHECK_FALSE(fs::exists(place.file("never")));
    return outcome.err;
  };
  const std::string file = "rewire: " + place.file("given.json");
  CHECK(refusal(R"([{"key": "circulant_matmull rows=16", "taken": "fft"}])") ==
        file +
            ": this Rewire has no choice 'circulant_matmull rows=16' (did you mean 'circulant_matmul'?)\n");
  CHECK(refusal(R"([{"key": "circulant_matmul rows=16", "taken": "dens"}])") ==
        file +
            ": 'dens' is not one of dense, split2, split4, split8, fft, as 'circulant_matmul rows=16' needs "
            "(did you mean 'dense'?)\n");
  CHECK(refusal(R"([{"key": "tile sm_90 rows 5", "taken": "rows: vector 4"}])") ==
        file + ": 'rows: vector 4' is not a kernel's schedule, as 'tile sm_90 rows 5' needs\n");
  CHECK(refusal("[{\"key\": \"" + kKey + "\", \"taken\": \"split8\"}]") ==
        "rewire: the recorded choice of '" + kKey +
            "' is 'split8', which is not available here; choose from " + "dense, split2, split4, fft\n");
  CHECK(place.rewire({"train", "--resume", place.file("never"), "--choices", "x"}).code == 2);
}

}  // namespace rewire::test
