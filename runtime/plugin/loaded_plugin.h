// A plugin as a run uses it, opaque in runtime/plugin/plugin.h: a library with the values in force.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plugin/filters.h"
#include "runtime/plugin/library.h"

namespace rewire::runtime {

class Plugin {
 public:
  /// Throws UserError on an unknown name or a value out of range.
  Plugin(std::shared_ptr<const Library> library, const PluginSpec& spec);

  const std::string& name() const { return library_->info.name; }
  const PluginInfo& info() const { return library_->info; }
  const rewire_plugin& descriptor() const { return *library_->descriptor; }
  const Filters& filters() const { return filters_; }
  /// Returns parameters, then filters, as text.
  std::vector<std::pair<std::string, std::string>> values() const;
  /// Returns nullptr if the schema has no such parameter.
  const ir::Attribute* find_value(std::string_view parameter) const;
  /// Returns true if the plugin has not logged this message before: a network is rewritten several times, and
  /// a warning is said once.
  bool logs_first(const std::string& message) const;

 private:
  /// `plugin`: as the user named it, for messages.
  void set(const std::string& parameter, const std::string& text, const std::string& plugin);

  std::shared_ptr<const Library> library_;
  Filters filters_;
  std::map<std::string, std::pair<ir::Attribute, std::string>, std::less<>> values_;  // parsed, and as text
  mutable std::mutex logged_mutex_;
  mutable std::set<std::string> logged_;
};

}  // namespace rewire::runtime
