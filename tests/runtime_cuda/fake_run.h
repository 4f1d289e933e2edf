// What tests on the fake libraries share: a run that must leave nothing behind, and what two runs are held
// to.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/exec/tune/choice_record.h"
#include "runtime/io/host_tensor.h"
#include "tests/fake_cuda/use.h"
#include "tests/support/catch.h"

namespace rewire::runtime {

inline const fake_cuda::Controls& fake() {
  return fake_cuda::use();
}

/// From here on counts, faults and the order of work are those of a new process; at the end no handle and no
/// allocation may live.
class NothingLost {
 public:
  NothingLost() {
    fake().reset();
    fake().order(0);
  }
  ~NothingLost() {
    fake().order(0);
    CHECK(std::string(fake().live()).empty());
  }
  NothingLost(const NothingLost&) = delete;
  NothingLost& operator=(const NothingLost&) = delete;
};

/// The same, and nothing may have been done wrong.
class Clean : NothingLost {
 public:
  ~Clean() { CHECK(std::string(fake().faults()).empty()); }
};

inline bool same_bits(const TensorMap& a, const TensorMap& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && std::ranges::equal(x.second.bytes(), y.second.bytes());
  });
}

/// What was chosen, in some order, without the times, which a file rounds.
inline std::vector<std::string> answers(const ChoiceRecord& record) {
  std::vector<std::string> list;
  for (const MadeChoice& choice : record.made())
    list.push_back(choice.key + " by " + choice.by + ": " + choice.taken);
  std::ranges::sort(list);
  return list;
}

}  // namespace rewire::runtime
