// A loaded plugin library: found on disk, judged, opened once a process and never closed. In: a name or a
// path. Out: the descriptor, its schema, and the facts that tell which library it was.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "plugins/sdk/rewire_plugin.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/schema.h"

namespace rewire::runtime {

struct Library {
  const rewire_plugin* descriptor = nullptr;
  ir::Schema schema;
  PluginInfo info;
};

/// The library file of a plugin's name, first match in `folders`; a name with a slash is a path itself.
/// UserError listing the folders if there is none.
std::string find_library(const std::string& name, const std::vector<std::string>& folders);

/// What the user has said to a file of code.
enum class Consent : std::uint8_t {
  not_needed,  // it is theirs by where it stands: in a folder that is searched
  given,       // they name it, and it is remembered (trust_list.h)
  remembered,  // others name it: it must have been agreed to before
};

/// Opens it, or returns what an earlier call opened. It is tried in a child process first: what crashes there
/// does not come here. UserError naming the file, what is wrong and the way out.
std::shared_ptr<const Library> open_library(const std::string& path, Consent consent = Consent::not_needed);

/// What it says of itself, asked in a child process: none of its code runs in this one. UserError as above.
PluginInfo inspect_library(const std::string& path);
/// The same where the user has agreed to run this file before, for at most `longest`. UserError where they have not.
PluginInfo inspect_agreed_library(const std::string& path, Consent consent,
                                  std::chrono::milliseconds longest);

/// Names of the plugins in `folders`, each with the file that its name finds, sorted.
std::vector<std::pair<std::string, std::string>> libraries_in(const std::vector<std::string>& folders);

}  // namespace rewire::runtime
