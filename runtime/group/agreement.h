// What the ranks of a group tell each other besides sums: rank 0's decisions, each rank's numbers, and whether all are the
// same program on the same data. All ranks call these functions together.
#pragma once

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/group/group.h"

namespace rewire::runtime {

/// Returns the group of one process that is alone.
Group& alone();

/// Returns rank 0's text.
std::string text_of_first(Group& group, std::string text);

/// Returns the values of all ranks, in the order of ranks. Each has as many.
template <class Value>
  requires std::is_trivially_copyable_v<Value>
std::vector<Value> gathered(Group& group, std::span<const Value> own) {
  std::vector<Value> all(own.size() * static_cast<std::size_t>(group.size()));
  group.gather(std::as_bytes(own), std::as_writable_bytes(std::span(all)));
  return all;
}

/// Returns the values of all ranks, one of each.
template <class Value>
std::vector<Value> gathered(Group& group, const Value& own) {
  return gathered(group, std::span<const Value>(&own, 1));
}

/// Returns the signal of the first rank that has one; 0: none has.
int agreed_signal(Group& group, int signal);

/// Something that must be the same on all ranks.
struct RankFact {
  std::string name, text;  // "recipe", and what it says
};
/// Throws UserError if a rank has another text than rank 0; it names the rank and the fact. All ranks pass the same names.
void require_same(Group& group, const std::vector<RankFact>& facts);

}  // namespace rewire::runtime
