// Records whose plugin code this process runs, for messages about its end.
#pragma once

#include <string>

namespace rewire::runtime {

/// Marks the plugin as running. `name`: one line of text.
class PluginAtWork {
 public:
  explicit PluginAtWork(std::string name);
  ~PluginAtWork();
  PluginAtWork(const PluginAtWork&) = delete;
  PluginAtWork& operator=(const PluginAtWork&) = delete;

  /// Returns nullptr if none runs. Safe in a signal handler.
  static const char* name();
  /// Returns true if any plugin has run: its code may run again as the process ends.
  static bool any();

 private:
  std::string name_;
  const char* before_;
};

}  // namespace rewire::runtime
