// Learning rates against their formulas; tests/parity holds them to PyTorch's schedulers.
#include "runtime/train/schedule.h"

#include <cmath>
#include <numbers>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

/// The schedule's rates at steps 0 … count - 1.
std::vector<double> rates(double lr, const ScheduleOptions& options, std::int64_t count) {
  ir::Module module;
  ir::Function function;
  function.name = "rate";
  ir::Builder b(module, function);
  ir::Value step = b.argument("step", {ir::DType::i64, {}});
  ir::Value rate = learning_rate(b, step, lr, options);
  CHECK(b.type(rate) == ir::TensorType{ir::DType::f64, {}});
  b.result("rate", rate);
  std::vector<double> out;
  for (std::int64_t s = 0; s < count; ++s) {
    ir::EvalState state;
    const ir::Tensor argument({ir::DType::i64, {}}, {static_cast<double>(s)});
    out.push_back(ir::evaluate(module, function, {argument}, state).at(0).scalar());
  }
  return out;
}

TEST_CASE("A constant rate is the rate at every step") {
  CHECK(rates(0.25, {}, 3) == std::vector<double>{0.25, 0.25, 0.25});
}

TEST_CASE("Warm-up runs linearly from warmup_lr and reaches lr after its last step") {
  ScheduleOptions options;
  options.warmup_steps = 4;
  options.warmup_lr = 0.2;
  const std::vector<double> got = rates(1.0, options, 6), want = {0.2, 0.4, 0.6, 0.8, 1.0, 1.0};
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-14));
}

TEST_CASE("Cosine starts at lr after the warm-up, reaches min_lr at total_steps and stays there") {
  ScheduleOptions options;
  options.name = "cosine";
  options.warmup_steps = 2;
  options.total_steps = 12;
  options.min_lr = 0.1;
  const std::vector<double> got = rates(2.0, options, 20);
  CHECK(got[0] == 0.0);
  CHECK(got[1] == 1.0);
  CHECK(got[2] == Approx(2.0).epsilon(1e-14));
  for (std::size_t s = 2; s < 12; ++s) {
    const double done = static_cast<double>(s - 2) / 10;
    CHECK(got[s] == Approx(0.1 + 1.9 * (1 + std::cos(std::numbers::pi * done)) / 2).epsilon(1e-14));
  }
  for (std::size_t s = 12; s < 20; ++s) CHECK(got[s] == Approx(0.1).epsilon(1e-14));
}

TEST_CASE("Multistep multiplies by gamma from each milestone on, twice for one named twice") {
  ScheduleOptions options;
  options.name = "multistep";
  options.milestones = {2, 4, 4};
  options.gamma = 0.5;
  CHECK(rates(1.0, options, 6) == std::vector<double>{1, 1, 0.5, 0.5, 0.125, 0.125});
}

TEST_CASE("A schedule that cannot be is refused by its recipe key") {
  ScheduleOptions options;
  options.name = "cosin";
  CHECK_THROWS_WITH(check_schedule(options), REWIRE_CATCH_CONTAINS("did you mean 'cosine'?"));
  CHECK_THROWS_AS(check_schedule(options), UserError);
  options.name = "cosine";
  options.warmup_steps = options.total_steps = 5;
  CHECK_THROWS_WITH(check_schedule(options), REWIRE_CATCH_CONTAINS("5 steps, of which 5 are warm-up"));
  options = {};
  options.warmup_steps = -1;
  CHECK_THROWS_WITH(check_schedule(options), REWIRE_CATCH_CONTAINS("schedule.warmup_steps is -1"));
  options = {};
  options.min_lr = std::nan("");
  CHECK_THROWS_WITH(check_schedule(options), REWIRE_CATCH_CONTAINS("schedule.min_lr is nan"));
  options = {};
  options.name = "multistep";
  options.milestones = {4, 2};
  CHECK_THROWS_WITH(check_schedule(options), REWIRE_CATCH_CONTAINS("ascending"));
}

}  // namespace
}  // namespace rewire::runtime
