// What a person trains on and sees: image files as data sets come, and the line that moves on a terminal.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/cli/fixture.h"
#include "tests/runtime_data/idx_files.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

constexpr std::uint32_t kSide = 28;

/// Stripes, seven pixels wide, under noise: upright in class 0, level in class 1.
void write_images(const TemporaryFolder& folder, const std::string& split, std::uint32_t count, bool packed) {
  std::mt19937 random(count);
  std::string images = idx_header({count, kSide, kSide}), labels = idx_header({count});
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t label = random() % 2;
    labels += static_cast<char>(label);
    for (std::uint32_t pixel = 0; pixel < kSide * kSide; ++pixel) {
      const std::uint32_t across = label == 0 ? pixel % kSide : pixel / kSide;
      images += static_cast<char>((across % 14 < 7 ? 120 : 20) + random() % 100);
    }
  }
  const std::string end = packed ? ".gz" : "";
  write_text(folder.file(split + "-images-idx3-ubyte" + end), packed ? gzip(images) : images);
  write_text(folder.file(split + "-labels-idx1-ubyte" + end), packed ? gzip(labels) : labels);
}

TEST_CASE("IDX files, plain and packed, are trained on and evaluated") {
  const TemporaryFolder data, folder;
  write_images(data, "train", 320, false);
  write_images(data, "t10k", 75, true);
  const std::string run = folder.file("run");
  const Words options = {"--set",  "data.format=idx",
                         "--set",  "data.path=" + data.path().string(),
                         "--set",  "transforms.crop_padding=1",
                         "--set",  "train.batch=16",
                         "--set",  "train.epochs=3",
                         "--set",  "optimizer.lr=0.01",
                         "--set",  "eval.batch=40",
                         "--quiet"};
  const Outcome trained = rewire_command(Words{"train"} + kModel + options + Words{"--out", run});
  REQUIRE(trained.err.empty());
  CHECK(trained.code == 0);
  const Outcome evaluated = rewire_command({"eval", run, "--json", "--quiet"});
  REQUIRE(evaluated.code == 0);
  const nlohmann::json result = nlohmann::json::parse(evaluated.out);
  CAPTURE(evaluated.out);
  CHECK(result.at("samples") == 75);
  CHECK(result.at("top1") >= 0.95);  // half would be chance
}

/// A terminal, and all that was written on it.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    const winsize size{24, columns, 0, 0};
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0 ||
        ::fcntl(master_, F_SETFL, O_NONBLOCK) != 0 || ::ioctl(master_, TIOCSWINSZ, &size) != 0)
      throw std::runtime_error("cannot open a terminal");
    name_ = ::ptsname(master_);
  }
  ~Terminal() { ::close(master_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }

  /// Takes what has been written since.
  void read() {
    char buffer[4096];
    for (ssize_t count; (count = ::read(master_, buffer, sizeof buffer)) > 0;)
      text_.append(buffer, static_cast<std::size_t>(count));
  }

 private:
  int master_;
  std::string name_, text_;
};

/// The states of the moving line.
std::vector<std::string> moving(const std::string& text) {
  const std::string clear = "\r\x1b[K";
  std::vector<std::string> states;
  for (std::size_t at = text.find(clear); at != std::string::npos;) {
    const std::size_t begin = at + clear.size();
    at = text.find(clear, begin);
    if (at != std::string::npos) states.push_back(text.substr(begin, at - begin));
  }
  return states;
}

/// What stays to be read on a terminal that got `text`: its lines, after what "\\r" and "\\x1b[K" do to them.
std::vector<std::string> left_on_screen(const std::string& text) {
  std::vector<std::string> lines{""};
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string& line = lines.back();
    if (text[at] == '\n') {
      lines.emplace_back();
    } else if (text[at] == '\r') {
      column = 0;
    } else if (text.compare(at, 3, "\x1b[K") == 0) {
      line.resize(column);
      at += 2;
    } else {
      line.resize(std::max(line.size(), column + 1), ' ');
      line[column++] = text[at];
    }
  }
  return lines;
}

TEST_CASE("Where stderr is no terminal, each line of metrics is a line of the log") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const Words options = {"--set", "data.format=synthetic", "--set", "data.count=60",
                         "--set", "train.batch=4",         "--set", "train.epochs=2",
                         "--set", "train.log_every=6",     "--set", "eval.batch=60"};
  const Words train = Words{"train"} + kModel + options;
  const Outcome outcome = rewire_command(train + Words{"--out", run});
  REQUIRE(outcome.code == 0);
  CHECK(rewire_command(train + Words{"--out", folder.file("other"), "--quiet"}).err.empty());
  std::vector<std::string> lines, wanted;
  std::istringstream text(outcome.err);
  for (std::string line; std::getline(text, line);) {
    if (line.find("  step ") != std::string::npos) lines.push_back(line);
  }
  for (const Json& line : metrics(run)) {
    if (line.at("kind") != "train") continue;
    const int epoch = line.at("epoch"), step = line.at("step");
    char start[80];
    std::snprintf(start, sizeof start, "epoch %d/2  step %d/15  loss %.4f  top-1 %.1f %%  ", epoch + 1,
                  step - 15 * epoch, line.at("loss").get<double>(), 100 * line.at("top1").get<double>());
    wanted.emplace_back(start);
  }
  REQUIRE(lines.size() == wanted.size());
  CHECK(lines.size() == 6);  // after 6, 12, 15 steps, and 18, 24, 30
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK_THAT(lines[i], Catch::Matchers::StartsWith(wanted[i]));
    CHECK(std::regex_search(lines[i], std::regex(R"( samples/s  \d+:\d\d left$)")));
  }
}

/// Without the line that a slow machine has on what it compiled.
void drop_compile_notice(std::vector<std::string>& lines) {
  std::erase_if(lines, [](const std::string& line) { return line.find(": compiled ") != std::string::npos; });
}

TEST_CASE("On a terminal one line moves, says how long it takes and leaves the others whole") {
  for (const unsigned short columns : {30, 120}) {
    CAPTURE(columns);
    const bool utf8 = columns == 120;
    const TemporaryFolder folder;
    Terminal terminal(columns);
    // The line moves five times a second: twelve thousand steps take some seconds on any machine.
    const Words options = {"--set", "data.format=synthetic", "--set", "data.count=24000",
                           "--set", "train.batch=4",         "--set", "train.epochs=2",
                           "--set", "eval.batch=2000",       "--set", "train.log_every=1"};
    RunningCommand command(Words{"train"} + kModel + options + Words{"--out", folder.file("run")},
                           {utf8 ? "LC_ALL=C.UTF-8" : "LC_ALL=C"}, "", terminal.name());
    while (command.running()) {
      terminal.read();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    terminal.read();
    CHECK(command.wait().code == 0);
    const std::string& text = terminal.text();
    CAPTURE(text);
    int steps = 0, curves = 0;
    for (const std::string& line : moving(text)) {
      if (line.find("  step ") == std::string::npos) continue;
      ++steps;
      CAPTURE(line);
      CHECK(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }) < columns);
      if (columns == 120) {
        CHECK_THAT(line, REWIRE_CATCH_CONTAINS("/6000  loss "));
        CHECK(std::regex_search(
            line, std::regex(R"( samples/s  \d+ MB  \d+:\d\d(:\d\d)? left(  (▁|▂|▃|▄|▅|▆|▇|█)+)?$)")));
        curves += line.ends_with(" left") ? 0 : 1;
      } else {
        CHECK(std::ranges::all_of(line, [](char c) { return c > 0; }));
      }
    }
    CHECK(steps > 0);
    CHECK((curves > 0) == utf8);
    std::vector<std::string> lines = left_on_screen(text);
    drop_compile_notice(lines);
    REQUIRE(lines.size() == 5);
    CHECK_THAT(lines[0],
               Catch::Matchers::EndsWith(" weights, 24000 + 24000 samples, 2 epochs of 6000 steps"));
    CHECK(lines[1] == "training in " + folder.file("run"));
    CHECK_THAT(lines[2], Catch::Matchers::StartsWith("epoch 1/2  loss "));
    CHECK_THAT(lines[3], Catch::Matchers::StartsWith("epoch 2/2  loss "));
    CHECK(lines[4].empty());
  }
}

TEST_CASE("With --plain nothing moves on a terminal, and lines of metrics are lines") {
  const TemporaryFolder folder;
  Terminal terminal(120);
  const Words options = {"--set", "data.format=synthetic", "--set", "data.count=60",
                         "--set", "train.batch=4",         "--set", "train.epochs=1",
                         "--set", "train.log_every=5",     "--set", "eval.batch=60"};
  RunningCommand command(Words{"train", "--plain"} + kModel + options + Words{"--out", folder.file("run")},
                         {}, "", terminal.name());
  CHECK(command.wait().code == 0);
  terminal.read();
  CHECK(terminal.text().find("\x1b[K") == std::string::npos);
  std::vector<std::string> steps = left_on_screen(terminal.text());
  std::erase_if(steps, [](const std::string& line) { return line.find("  step ") == std::string::npos; });
  CHECK(steps.size() == 3);
}

/// A run of very many steps on a terminal, until it has trained for a moment.
class LongRun {
 public:
  LongRun()
      : command_(Words{"train"} + kModel +
                     Words{"--set", "data.format=synthetic", "--set", "data.count=2000", "--set",
                           "train.batch=4", "--set", "train.epochs=1000", "--set", "eval.every=1000", "--set",
                           "eval.batch=2000", "--set", "train.log_every=1000000", "--out", run},
                 {}, "", terminal.name()) {
    wait_for("  step ");
  }

  /// What the terminal shows by then.
  void wait_for(const std::string& text) {
    while (command_.running() && terminal.text().find(text) == std::string::npos) {
      terminal.read();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK_THAT(terminal.text(), REWIRE_CATCH_CONTAINS(text));
  }
  void signal() { command_.signal(SIGINT); }
  Outcome end() {
    while (command_.running()) {
      terminal.read();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const Outcome outcome = command_.wait();
    terminal.read();
    return outcome;
  }

  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  Terminal terminal{120};

 private:
  RunningCommand command_;
};

TEST_CASE("Ctrl-C is answered at once; what is saved, and the command that goes on, come at the end") {
  LongRun train;
  train.signal();
  CHECK(train.end().code == 128 + SIGINT);
  const std::vector<std::string> lines = left_on_screen(train.terminal.text());
  const auto said =
      std::ranges::find(lines, "rewire: stopping: the run is saved after this step; repeat to end at once");
  REQUIRE(said != lines.end());
  CHECK_THAT(lines.at(lines.size() - 2),
             Catch::Matchers::StartsWith("rewire: stopped by signal 2 after step ") &&
                 Catch::Matchers::EndsWith("rewire train --resume " + train.run + " continues"));
  CHECK(checkpoints(train.run) >= 1);
}

TEST_CASE("A second Ctrl-C ends the process at once, and the run can go on from its checkpoint") {
  LongRun train;
  train.signal();
  train.wait_for("repeat to end at once");
  train.signal();
  const Outcome outcome = train.end();
  CHECK(outcome.code == 128 + SIGINT);
  // The first may have been through with saving when the second came; otherwise there is nothing to go on from.
  const Outcome resumed =
      rewire_command({"train", "--resume", train.run, "--set", "train.max_steps=1", "--quiet"});
  CHECK((resumed.code == 0 || resumed.code == 2));
  for (const Json& line : metrics(train.run)) CHECK(line.is_object());
}

}  // namespace
}  // namespace rewire::test
