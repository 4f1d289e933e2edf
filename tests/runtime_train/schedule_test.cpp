// Learning rates against their formulas; tests/parity holds them to PyTorch's schedulers.
#include "programs/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "tests/support/catch.h"

namespace rewire::programs {
namespace {

/// The schedule's rates at steps 0 … count - 1, an epoch a step.
std::vector<double> rates(double lr, const ir::Selection& schedule, std::int64_t count,
                          std::int64_t total_steps = 0) {
  ir::Module module;
  ir::Function function;
  function.name = "rate";
  ir::Builder b(module, function);
  ir::Value step = b.argument("step", {ir::DType::i64, {}});
  ir::Value rate = learning_rate(b, step, lr, schedule, {1, total_steps});
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
  CHECK(rates(0.25, {"constant"}, 3) == std::vector<double>{0.25, 0.25, 0.25});
}

TEST_CASE("Warm-up runs linearly from warmup_lr and reaches lr after its last step") {
  ir::Selection schedule{"constant"};
  schedule.set("warmup_epochs", 4.0).set("warmup_lr", 0.2);
  const std::vector<double> got = rates(1.0, schedule, 6), want = {0.2, 0.4, 0.6, 0.8, 1.0, 1.0};
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-14));
}

TEST_CASE("Cosine starts at lr after the warm-up, reaches min_lr at total_steps and stays there") {
  ir::Selection schedule{"cosine"};
  schedule.set("warmup_epochs", 2.0).set("min_lr", 0.1);
  const std::vector<double> got = rates(2.0, schedule, 20, 12);
  CHECK(got[0] == 0.0);
  CHECK(got[1] == 1.0);
  CHECK(got[2] == Approx(2.0).epsilon(1e-14));
  for (std::size_t s = 2; s < 12; ++s) {
    const double done = static_cast<double>(s - 2) / 10;
    CHECK(got[s] == Approx(0.1 + 1.9 * (1 + std::cos(std::numbers::pi * done)) / 2).epsilon(1e-14));
  }
  for (std::size_t s = 12; s < 20; ++s) CHECK(got[s] == Approx(0.1).epsilon(1e-14));
}

TEST_CASE(
    "Without warmup_prefix the cosine begins with the run, as timm's CosineLRScheduler has it by default") {
  ir::Selection schedule{"cosine"};
  schedule.set("warmup_epochs", 3.0).set("warmup_lr", 0.5).set("min_lr", 0.1).set("warmup_prefix", false);
  const std::vector<double> got = rates(2.0, schedule, 14, 12);
  // CosineLRScheduler(t_initial=12, lr_min=0.1, warmup_t=3, warmup_lr_init=0.5): its _get_lr(t).
  for (std::size_t s = 0; s < 14; ++s) {
    const double t = static_cast<double>(std::min<std::size_t>(s, 12));
    const double want = s < 3 ? 0.5 + static_cast<double>(s) * 0.5
                              : 0.1 + 1.9 * (1 + std::cos(std::numbers::pi * t / 12)) / 2;
    CHECK(got[s] == Approx(want).epsilon(1e-14));
  }
}

TEST_CASE("wsd keeps lr until the last share of the steps, then falls to min_lr in one of three ways") {
  const auto falls = [](const std::string& type, double u) {
    return type == "linear"   ? 1 - u
           : type == "cosine" ? (1 + std::cos(std::numbers::pi * u)) / 2
                              : 1 - std::sqrt(u);
  };
  for (const std::string type : {"linear", "cosine", "1-sqrt"}) {
    CAPTURE(type);
    ir::Selection schedule{"wsd"};
    schedule.set("warmup_epochs", 2.0).set("min_lr", 0.1).set("decay", 0.25).set("decay_type", type);
    const std::vector<double> got = rates(2.0, schedule, 26, 20);
    CHECK(got[0] == 0.0);
    CHECK(got[1] == 1.0);
    for (std::size_t s = 2; s < 15; ++s) CHECK(got[s] == Approx(2.0).epsilon(1e-14));
    for (std::size_t s = 15; s < 26; ++s) {
      const double u = std::min(1.0, (static_cast<double>(s) - 15) / 5);
      CHECK(got[s] == Approx(0.1 + 1.9 * falls(type, u)).epsilon(1e-14));
    }
  }
  ir::Selection whole{"wsd"};
  whole.set("decay", 1.0).set("decay_type", std::string("linear"));
  CHECK(rates(1.0, whole, 5, 4) == std::vector<double>{1, 0.75, 0.5, 0.25, 0});
  CHECK(rates(1.0, whole.set("decay", 0.0), 5, 4) == std::vector<double>{1, 1, 1, 1, 1});
}

TEST_CASE("Multistep multiplies by gamma from each milestone on, twice for one named twice") {
  ir::Selection schedule{"multistep"};
  schedule.set("milestones", ir::Doubles{2, 4, 4}).set("gamma", 0.5);
  CHECK(rates(1.0, schedule, 6) == std::vector<double>{1, 1, 0.5, 0.5, 0.125, 0.125});
}

TEST_CASE("A schedule that cannot be is refused by its recipe key") {
  const auto refused = [](const ir::Selection& schedule, const std::string& message) {
    CHECK_THROWS_WITH(rates(1.0, schedule, 1, 5), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(rates(1.0, schedule, 1, 5), UserError);
  };
  refused({"cosin"},
          fmt::format("schedule.name=cosin is unknown: it takes one of {} (did you mean 'cosine'?)",
                      fmt::join(ir::row_names(schedules()), "|")));
  refused(ir::Selection{"cosine"}.set("warmup_epochs", 5.0), "5 steps, of which 5 are warm-up");
  refused(ir::Selection{"constant"}.set("warmup_epochs", -1.0), "schedule.warmup_epochs=-1 is out of range");
  refused(ir::Selection{"cosine"}.set("min_lr", std::nan("")), "schedule.min_lr=nan is not a finite float");
  refused(ir::Selection{"multistep"}.set("milestones", ir::Doubles{4, 2}), "ascending");
}

}  // namespace
}  // namespace rewire::programs
