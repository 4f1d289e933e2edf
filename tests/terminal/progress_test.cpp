// The line that moves while a network trains: what is in it at each width, and the curve of the loss.
#include "cli/progress.h"

#include <algorithm>
#include <limits>

#include "cli/loss_curve.h"
#include "runtime/exec/compile_notice.h"
#include "tests/support/catch.h"

namespace rewire::cli {
namespace {

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

runtime::TrainView some_view() {
  runtime::TrainView view;
  view.epochs = 15;
  view.steps_per_epoch = 938;
  view.position.epoch = 2;
  view.position.step_in_epoch = 17;
  view.metrics = {{"loss", 0.5}};
  view.samples_per_second = 1234;
  view.seconds_left = 187;
  return view;
}

TEST_CASE("A falling loss is a falling curve, high to low, as wide as is asked for") {
  LossCurve curve;
  CHECK(curve.text(8, true).empty());
  for (int i = 8; i > 0; --i) curve.add(i);
  CHECK(curve.text(8, true) == "█▇▆▅▄▃▂▁");
  CHECK(curve.text(4, true) == "█▆▃▁");
  CHECK(curve.text(100, true) == "█▇▆▅▄▃▂▁");  // no more columns than steps
  CHECK(curve.text(8, false) == "^+=~-,._");
  CHECK(curve.text(1, true).empty());
}

TEST_CASE("A curve keeps the whole run in bounded memory, each column a mean") {
  LossCurve curve;
  for (int i = 0; i < 100'000; ++i) curve.add(i < 50'000 ? 1 : 0);
  const std::string text = curve.text(10, false);
  CHECK(text.size() == 10);
  CHECK(text.starts_with("^^^^"));
  CHECK(text.ends_with("____"));
  LossCurve level;
  for (int i = 0; i < 5; ++i) level.add(2);
  level.add(std::numeric_limits<double>::quiet_NaN());
  level.add(std::numeric_limits<double>::infinity());
  CHECK(level.text(10, false) == "_____");
}

TEST_CASE("The moving line fits every width, and loses its least part first") {
  LossCurve curve;
  for (int i = 40; i > 0; --i) curve.add(i);
  const runtime::TrainView view = some_view();
  const std::string begin = "epoch 3/15  step 17/938  loss 0.5000",
                    all = begin + "  1234 samples/s  512 MB  3:07 left";
  CHECK(step_line(view, 512'000'000, curve, all.size(), true) == all);
  CHECK(step_line(view, 512'000'000, curve, all.size() + 9, true) == all);
  CHECK(step_line(view, 512'000'000, curve, all.size() + 10, true) == all + "  █▇▆▅▄▃▂▁");
  CHECK(columns(step_line(view, 512'000'000, curve, 200, true)) == all.size() + 2 + 32);
  CHECK(step_line(view, 512'000'000, curve, all.size() - 1, true) == begin + "  1234 samples/s  3:07 left");
  CHECK(step_line(view, 512'000'000, curve, 50, true) == begin + "  3:07 left");
  const std::string ascii = step_line(view, 512'000'000, curve, 200, false);
  CHECK(ascii.size() == columns(ascii));
}

TEST_CASE("What a start compiled is told where it took a second, with where it is kept") {
  runtime::EngineReport report;
  report.compile_seconds = 4.13;
  report.kernels = 80;
  report.unique_kernels = 40;
  report.cache_hits = 3;
  CHECK(runtime::compile_notice(report, "/cache/rewire") ==
        "compiled 37 kernels in 4.1 s; kept in /cache/rewire, the next start takes them from there");
  CHECK(runtime::compile_notice(report, "") == "compiled 37 kernels in 4.1 s");
  const std::string home = ::getenv("HOME") == nullptr ? "" : ::getenv("HOME");
  if (home.size() > 1) {
    CHECK_THAT(runtime::compile_notice(report, home + "/.cache/rewire"),
               REWIRE_CATCH_CONTAINS("kept in ~/.cache/rewire,"));
  }
  report.cache_hits = 40;
  CHECK(runtime::compile_notice(report, "/cache").empty());
  report.cache_hits = 39;
  CHECK_THAT(runtime::compile_notice(report, "/cache"), REWIRE_CATCH_CONTAINS("1 kernel in"));
  report.compile_seconds = 0.9;
  CHECK(runtime::compile_notice(report, "/cache").empty());
}

}  // namespace
}  // namespace rewire::cli
