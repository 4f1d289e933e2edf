// What is disturbed: a small piece of work in a folder, how it is gone on with after a disturbance, and what
// it must have come to.
#pragma once

#include <string>
#include <vector>

#include "tests/hostile/process.h"

namespace rewire::test {

struct Scenario {
  std::string name;
  std::string prepared;    // a folder whose content the work begins with; "" for an empty one
  Words begin;             // behind `rewire`; "@" stands for the folder
  Words resume = {};       // where `begun` is there; empty: `begin` again
  std::string begun{};     // a file that says so
  std::string made{};      // what is made, and may be removed where nothing of worth is in it
  std::string worth{};     // a folder: something of worth is in it as soon as it has an entry
  bool own_cache = false;  // the caches are in the folder too: prepared/cache
  /// "" or how the result differs from that of an undisturbed run.
  std::string (*compare)(const std::string& folder, const std::string& undisturbed) = nullptr;
  int most_failures =
      2;  // the exit code of a command that ends in a word: 2, or 1 where runs of a sweep failed
};

std::vector<Scenario> scenarios();

/// An environment for the commands of a scenario in a folder.
Words environment_in(const Scenario& scenario, const std::string& folder);
Words command_in(const Words& words, const std::string& folder);
void prepare(const Scenario& scenario, const std::string& folder);

/// "" or what is wrong with how a disturbed command ended: code 0 and no word, or one line and a code up to
/// `most_failures`. `by_signal`: it was killed on purpose.
std::string judge_end(const Ended& ended, int most_failures);

/// Goes on until it is done, and compares. A folder in which nothing of worth is may be refused in one line
/// and begun anew. "" or what is wrong.
std::string recover(const Scenario& scenario, const std::string& folder, const std::string& undisturbed);

/// HOSTILE_ALL=1: every point; otherwise a sample.
bool takes_all();

}  // namespace rewire::test
