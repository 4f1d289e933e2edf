// Counts, injected errors and faults, and the functions that tests find by name (controls.h).
#include "tests/fake_cuda/calls.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

#include "tests/fake_cuda/controls.h"
#include "tests/fake_cuda/world.h"

namespace rewire::fake_cuda {
namespace {

struct Ledger {
  std::map<std::string, long, std::less<>> counts;
  std::vector<std::string> order;  // of first calls
  std::string faults;
  int broken = 0;
  std::string failing;
  long failing_after = 0;  // calls of it that are still good
  int failing_code = 0;
  std::string refused;  // rules with a space between them

  Ledger() {
    read_environment();
    if (const char* const rules = std::getenv("REWIRE_FAKE_CUDA_REFUSE")) refused = rules;
  }

  /// REWIRE_FAKE_CUDA_FAIL=cuMemAlloc_v2:3:2; :-9 for a signal in place of an answer.
  void read_environment() {
    const char* const text = std::getenv("REWIRE_FAKE_CUDA_FAIL");
    if (text == nullptr) return;
    const std::string_view view(text);
    const std::size_t first = view.find(':'), second = view.find(':', first + 1);
    if (second == std::string_view::npos) return;
    failing = view.substr(0, first);
    std::from_chars(text + first + 1, text + second, failing_after);
    std::from_chars(text + second + 1, text + view.size(), failing_code);
    --failing_after;
  }
};

Ledger& ledger() {
  static Ledger ledger;
  return ledger;
}

/// Kept until the next call that answers with text.
const char* keep(std::string text) {
  static std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace

int enter(const char* call) {
  Ledger& l = ledger();
  if (l.counts[call]++ == 0) l.order.emplace_back(call);
  if (World::get().in_host_function) fault(std::string(call) + " is called by a host function of a stream");
  if (l.failing == call && l.failing_after-- == 0) {
    l.failing.clear();
    if (l.failing_code < 0) {
      std::fprintf(stderr, "fake CUDA: %s brings the process down\n", call);
      std::raise(-l.failing_code);
    }
    return l.failing_code;
  }
  return l.broken;
}

bool refuses(const char* rule) {
  return (" " + ledger().refused + " ").find(" " + std::string(rule) + " ") != std::string::npos;
}

void fault(const std::string& message) {
  std::fprintf(stderr, "fake CUDA: %s\n", message.c_str());
  ledger().faults += message + "\n";
}

void break_context(int code) {
  ledger().broken = code;
}

int broken() {
  return ledger().broken;
}

REWIRE_FAKE_API void rewire_fake_cuda_controls(Controls* controls) {
  using Lock = std::lock_guard<std::recursive_mutex>;
  controls->reset = [] {
    const Lock lock(World::get().mutex);
    ledger() = Ledger();
    World::get().trace.clear();
    World::get().streams_made = 0;
  };
  controls->fail = [](const char* call, long nth, int code) {
    const Lock lock(World::get().mutex);
    ledger().failing = call;
    ledger().failing_after = nth - 1;
    ledger().failing_code = code;
  };
  controls->calls = [](const char* call) {
    const Lock lock(World::get().mutex);
    const auto found = ledger().counts.find(call);
    return found == ledger().counts.end() ? 0L : found->second;
  };
  controls->called = [] {
    const Lock lock(World::get().mutex);
    std::string text;
    for (const std::string& name : ledger().order) text += name + "\n";
    return keep(text);
  };
  controls->live = [] {
    const Lock lock(World::get().mutex);
    return keep(World::get().live());
  };
  controls->faults = [] {
    const Lock lock(World::get().mutex);
    return keep(ledger().faults);
  };
  controls->trace = [] {
    const Lock lock(World::get().mutex);
    return keep(World::get().trace);
  };
  controls->order = [](unsigned long seed) {
    const Lock lock(World::get().mutex);
    World::get().set_order(seed);
  };
  controls->refuse = [](const char* rules) {
    const Lock lock(World::get().mutex);
    ledger().refused = rules;
  };
}

}  // namespace rewire::fake_cuda
