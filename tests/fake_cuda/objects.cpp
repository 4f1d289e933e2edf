#include "tests/fake_cuda/objects.h"

namespace rewire::fake_cuda {
namespace {

std::map<std::string, int>& counts() {
  static auto* const counts = new std::map<std::string, int>;  // asked until the process has ended
  return *counts;
}

}  // namespace

void count_object(const char* kind, int change) {
  counts()[kind] += change;
}

std::string live_objects() {
  std::string text;
  for (const auto& [kind, count] : counts()) {
    if (count != 0) text += kind + (": " + std::to_string(count)) + "\n";
  }
  return text;
}

}  // namespace rewire::fake_cuda
