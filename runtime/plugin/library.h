// A loaded plugin library: found on disk, judged, opened once per process and never closed. In: a name or a
// path. Out: the descriptor, its schema, and the facts that identify the library.
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

/// Returns the library file of a plugin's name, the first match in `folders`; a name with a slash is itself
/// a path. Throws UserError with the folders if there is none.
std::string find_library(const std::string& name, const std::vector<std::string>& folders);

/// The user's consent to run a file of code.
enum class Consent : std::uint8_t {
  not_needed,  // it is in a folder that is searched
  given,       // the user names it; this is remembered (trust_list.h)
  remembered,  // others name it: the user must have agreed before
};

/// Opens the library, or returns the one that an earlier call opened. A child process tries it first, so a
/// crash does not reach this one. Throws UserError with the file, the fault and the remedy.
std::shared_ptr<const Library> open_library(const std::string& path, Consent consent = Consent::not_needed);

/// Returns its description of itself, asked in a child process: none of its code runs here. Errors as above.
PluginInfo inspect_library(const std::string& path);
/// Asks for it within `longest`, if the user has agreed to run this file before. Throws UserError if not.
PluginInfo inspect_agreed_library(const std::string& path, Consent consent,
                                  std::chrono::milliseconds longest);

/// Returns the names of the plugins in `folders`, sorted, each with the file that the name finds.
std::vector<std::pair<std::string, std::string>> libraries_in(const std::vector<std::string>& folders);

}  // namespace rewire::runtime
