// The file of `rewire bench --variants`: changes of one network, to be timed beside each other.
//
//   [[variant]]
//   name = "small groups"
//   set = ["train.recompute=block"]    as --set, after the command line's
//   plugin = ["NAME:KEY=VALUE"]        as --plugin, instead of the command line's
//   tune = ["group_ops=300"]           as --tune, after the command line's
#pragma once

#include <string>
#include <vector>

namespace rewire::runtime {

struct Variant {
  std::string name;
  std::vector<std::string> settings, plugins, tune;
};

/// Reads the file: two variants or more, each with a name of its own. Throws UserError with the line of what is
/// wrong. The values of the lists are not checked.
std::vector<Variant> read_variants(const std::string& file);

}  // namespace rewire::runtime
