// States that other processes update for this one (train.zero), and a program without those updates.
#pragma once

#include <set>
#include <string>

#include "codegen/program.h"

namespace rewire::runtime {

struct StatesOfOthers {
  std::set<std::string, std::less<>> updated;  // by other processes
  std::set<std::string, std::less<>> absent;   // of these, what this process has no right values of
  bool is_absent(const std::string& name) const { return absent.contains(name); }
};

/// Drops the launches, and members of tables, that only serve updates of others' states. What is left runs the same code
/// on the same numbers, so its results have the same bits. A kernel that updates states of several processes stays whole;
/// it then needs memory for absent states, whose values nobody takes from here.
void drop_updates_of_others(codegen::Program& program, const StatesOfOthers& others);

}  // namespace rewire::runtime
