// probability: one draw a block and step, its frequency, what evaluation takes, and that 0 is the plain model
// and 1 the orthogonal one.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/error.h"
#include "tests/plugins/compiled.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

/// The net's output, in training step `step` or in evaluation.
class Net {
 public:
  explicit Net(const std::vector<std::string>& specs, const ResidualNet& net = {})
      : module_(rewritten(residual_net(net), specs)), state_(to_eval_state(started(module_, specs, 7))) {}

  std::vector<double> operator()(std::int64_t step, bool training = true) {
    state_.training = training;
    const auto counter = state_.tensors.find("train.step");
    if (counter != state_.tensors.end()) counter->second.data = {static_cast<double>(step)};
    const ir::Function& forward = module_.function("forward");
    const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value));
    return ir::evaluate(module_, forward, {x}, state_).at(0).data;
  }

 private:
  ir::Module module_;
  ir::EvalState state_;
};

TEST_CASE("Each block draws by itself and for all its joins, as often as the probability says") {
  // Two blocks: neither, one or both are orthogonal, whole blocks only.
  const std::vector<std::vector<std::string>> patterns = {
      {}, {"orthogonal:layers=0"}, {"orthogonal:layers=1"}, {"orthogonal"}};
  std::map<std::vector<double>, std::size_t> pattern_of;
  for (std::size_t i = 0; i < patterns.size(); ++i) pattern_of[Net(patterns[i])(0)] = i;
  REQUIRE(pattern_of.size() == patterns.size());

  const double p = GENERATE(0.1, 0.5, 0.8);
  Net net({"orthogonal:probability=" + std::to_string(p)});
  constexpr int kSteps = 1200;
  std::vector<int> counts(patterns.size(), 0);
  for (int step = 0; step < kSteps; ++step) {
    const auto found = pattern_of.find(net(step));
    REQUIRE(found != pattern_of.end());
    ++counts[found->second];
  }
  const std::vector<double> expected = {(1 - p) * (1 - p), p * (1 - p), (1 - p) * p, p * p};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    CAPTURE(p, i, counts[i]);
    const double deviation = std::sqrt(expected[i] * (1 - expected[i]) / kSteps);
    CHECK(std::abs(counts[i] / double{kSteps} - expected[i]) < 4 * deviation);
  }
}

TEST_CASE("Blocks of one number in encoder and decoder draw each by itself") {
  const ResidualNet both{.depth = 1, .decoder_depth = 1};
  const std::vector<std::vector<std::string>> patterns = {
      {}, {"orthogonal"}, {"orthogonal:scope=decoder"}, {"orthogonal:scope=all"}};
  std::map<std::vector<double>, std::size_t> pattern_of;
  for (std::size_t i = 0; i < patterns.size(); ++i) pattern_of[Net(patterns[i], both)(0)] = i;
  REQUIRE(pattern_of.size() == patterns.size());
  Net net({"orthogonal:probability=0.5,scope=all"}, both);
  constexpr int kSteps = 400;
  std::vector<int> counts(patterns.size(), 0);
  for (int step = 0; step < kSteps; ++step) ++counts[pattern_of.at(net(step))];
  for (std::size_t i = 0; i < counts.size(); ++i) {
    CAPTURE(i, counts[i]);
    const double deviation = std::sqrt(0.25 * 0.75 / kSteps);
    CHECK(std::abs(counts[i] / double{kSteps} - 0.25) < 4 * deviation);
  }
}

TEST_CASE("The draw of a step is the same each time, and does not depend on which blocks are chosen") {
  Net all({"orthogonal:probability=0.5"}), second({"orthogonal:probability=0.5,layers=1"});
  Net first_off({"orthogonal:layers=1"}), plain({});
  int seen = 0;
  for (int step = 0; step < 64; ++step) {
    const std::vector<double> y = all(step);
    CHECK(all(step) == y);
    if (y != plain(0) && y != first_off(0)) continue;  // the first block is orthogonal in this step
    ++seen;
    CHECK(second(step) == y);
  }
  CHECK(seen > 10);
}

TEST_CASE("Evaluation is orthogonal from a probability of one half on, whatever the step") {
  const std::vector<double> plain = Net({})(0, false), orthogonal = Net({"orthogonal"})(0, false);
  for (const auto& [p, want] : std::map<std::string, std::vector<double>>{
           {"0", plain}, {"0.49", plain}, {"0.5", orthogonal}, {"0.51", orthogonal}, {"1", orthogonal}}) {
    CAPTURE(p);
    Net net({"orthogonal:probability=" + p});
    for (int step = 0; step < 10; ++step) CHECK(net(step, false) == want);
  }
}

TEST_CASE("probability = 0 is the plain model bit for bit, 1 the orthogonal one, and nothing is drawn") {
  CHECK(differing(compiled_gradients({"orthogonal:probability=0"}), compiled_gradients({})).empty());
  CHECK(differing(compiled_gradients({"orthogonal:probability=1"}), compiled_gradients({"orthogonal"}))
            .empty());
  for (const char* spec : {"orthogonal:probability=0", "orthogonal:probability=1"}) {
    CHECK(rewritten(residual_net({}), {spec}).find_parameter("rng.seed") == nullptr);
  }
}

/// The largest difference of two sets of results over the size of the second.
double distance(const runtime::TensorMap& a, const runtime::TensorMap& b) {
  double difference = 0, size = 0;
  for (const auto& [name, tensor] : b) {
    if (name == "logits") continue;  // of evaluation
    const std::vector<double> x = runtime::to_double(a.at(name)).data, y = runtime::to_double(tensor).data;
    for (std::size_t i = 0; i < y.size(); ++i) {
      difference = std::max(difference, std::abs(x[i] - y[i]));
      size = std::max(size, std::abs(y[i]));
    }
  }
  return difference / size;
}

TEST_CASE("Compiled, the gradients of a step are those of the joins that it has drawn") {
  const runtime::TensorMap patterns[] = {compiled_gradients({}), compiled_gradients({"orthogonal:layers=0"}),
                                         compiled_gradients({"orthogonal:layers=1"}),
                                         compiled_gradients({"orthogonal"})};
  std::set<std::size_t> seen;
  for (int step = 0; step < 12; ++step) {
    CAPTURE(step);
    const runtime::TensorMap drawn = compiled_gradients({"orthogonal:probability=0.5"}, step);
    std::size_t matches = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      if (distance(drawn, patterns[i]) > 1e-5) continue;
      ++matches;
      seen.insert(i);
    }
    CHECK(matches == 1);
  }
  CHECK(seen.size() >= 3);
}

TEST_CASE("A probability is one") {
  CHECK(message_of<UserError>([] { load("orthogonal:probability=1.5"); }) ==
        "plugin 'orthogonal': probability=1.5 is out of range: it takes a float 0 to 1");
}

}  // namespace
}  // namespace rewire::test
