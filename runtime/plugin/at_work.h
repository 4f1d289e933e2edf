// Which plugin's code this process is in: for whoever has to say what ended it.
#pragma once

#include <string>

namespace rewire::runtime {

/// Marks the plugin while it lives. `name`: one line of text.
class PluginAtWork {
 public:
  explicit PluginAtWork(std::string name);
  ~PluginAtWork();
  PluginAtWork(const PluginAtWork&) = delete;
  PluginAtWork& operator=(const PluginAtWork&) = delete;

  /// nullptr: none. May be asked in a signal handler.
  static const char* name();
  /// Whether there has been one: its code may run again as the process ends.
  static bool any();

 private:
  std::string name_;
  const char* before_;
};

}  // namespace rewire::runtime
