// Runs the table of hostile inputs: every case is one process of the binary in a folder of its own.
//   hostile_test            all cases, as many at a time as there are cores; of a slice (tests/support/slice.h) the
//                           first of each kind, and of the others the slice's
//   hostile_test WORD…      those whose name has one of the words in it; with --show, what each answers; with
//                           --list, their names alone
// A case that fails is printed with the command line that repeats it, and its folder is kept.
#include <stdlib.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "tests/hostile/cases.h"
#include "tests/hostile/good.h"
#include "tests/hostile/judge.h"
#include "tests/support/slice.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

/// As one line that leaves a terminal as it is.
std::string plain(const std::string& text) {
  std::string shown;
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    shown += code < 0x20 || code >= 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, character);
  }
  return shown;
}

class Run {
 public:
  Run(std::vector<Case> cases, bool show) : cases_(std::move(cases)), show_(show) {}

  int finish() {
    const auto start = std::chrono::steady_clock::now();
    in_parallel(cases_.size(), [&](std::size_t i) { check(i); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("{} hostile inputs, {} answered wrongly, in {:.1f} s\n", cases_.size(), failures_,
               took.count());
    if (failures_ == 0) return 0;
    fmt::print("what failed is kept in {}\n", root_.string());
    return 1;
  }

  ~Run() {
    std::error_code ignored;
    if (failures_ == 0) fs::remove_all(root_, ignored);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

 private:
  void check(std::size_t i) {
    const Case& given = cases_[i];
    const std::string folder = (root_ / fmt::format("c{}", i)).string();
    fs::create_directory(folder);
    Words command = {REWIRE_BINARY}, environment;
    for (const std::string& word : given.command) command.push_back(in_folder(word, folder));
    for (const std::string& variable : given.environment) environment.push_back(in_folder(variable, folder));
    environment.push_back("XDG_CACHE_HOME=" + good().file("cache"));
    const std::string home = folder + ".home";  // of a user who has trusted nothing yet
    environment.push_back("XDG_DATA_HOME=" + home);
    std::string fault;
    Ended ended;
    try {
      for (const Step& step : given.steps) step(folder);
      const Tree before = tree_of(folder);
      ended = run_process(command, environment, folder);
      fault = judge(given, ended, folder, before);
    } catch (const std::exception& error) {
      fault = fmt::format("the case itself: {}", error.what());
    }
    const std::lock_guard lock(mutex_);
    if (show_ || !fault.empty())
      fmt::print("{} {}\n  {}\n  code {}, {} {}\n", fault.empty() ? "ok    " : "FAILED", plain(given.name),
                 shell_text(command, environment, folder), ended.code, fault,
                 plain(ended.err.substr(0, 3000)));
    std::fflush(stdout);
    if (fault.empty()) {
      std::error_code ignored;
      for (const std::string& path : {folder, home}) fs::remove_all(path, ignored);
    } else {
      ++failures_;
    }
  }

  const std::vector<Case> cases_;
  const bool show_;
  const fs::path root_ = [] {
    std::string pattern = (fs::temp_directory_path() / "hostile-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + pattern);
    return pattern;
  }();
  std::mutex mutex_;
  std::size_t failures_ = 0;
};

/// What a case has in common with those that a loop made beside it: its name without numbers, and where the
/// name says what something is, without what that is said of.
std::string kind(const std::string& name) {
  const std::size_t colon = name.find(": ");
  std::size_t what = colon;
  for (const char* mark : {" = ", " is "}) {
    const std::size_t at = name.rfind(mark);
    if (what == colon && at != std::string::npos && at > colon) what = at;
  }
  std::string result = name.substr(0, colon) + name.substr(what);
  std::erase_if(result, [](unsigned char character) { return std::isdigit(character) != 0; });
  return result;
}

std::vector<Case> sliced(std::vector<Case> cases) {
  const testing::Slice slice = testing::slice();
  std::map<std::string, std::uint64_t> earlier;
  const std::size_t all = cases.size();
  std::erase_if(cases, [&](const Case& given) {
    const std::uint64_t number = earlier[kind(given.name)]++;
    return number > 0 && !slice.takes(number);
  });
  if (slice.count > 1)
    fmt::print("slice {} of {}: {} of {} inputs, of all {} kinds\n", slice.index, slice.count, cases.size(),
               all, earlier.size());
  return cases;
}

std::vector<Case> wanted(const std::vector<std::string>& words) {
  std::vector<Case> cases;
  for (Case& given : all_cases()) {
    const auto named = [&](const std::string& word) { return given.name.find(word) != std::string::npos; };
    if (words.empty() || std::ranges::any_of(words, named)) cases.push_back(std::move(given));
  }
  return words.empty() ? sliced(std::move(cases)) : cases;
}

}  // namespace
}  // namespace rewire::test

int main(int argc, char** argv) {
  using namespace rewire::test;
  ::unsetenv("REWIRE_PLUGIN_PATH");
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool show = std::erase(words, "--show") > 0, list = std::erase(words, "--list") > 0;
  try {
    if (list) {
      for (const Case& given : wanted(words)) fmt::print("{}\n", plain(given.name));
      return 0;
    }
    return Run(wanted(words), show).finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "hostile_test: {}\n", error.what());
    return 1;
  }
}
