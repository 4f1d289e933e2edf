// What every residual strategy must satisfy, tried on small networks: its schema makes sense, its rewrites
// verify, gradients are those of the loss, compiled programs agree with the evaluator, and the same input
// gives the same text, weights and bits, without memory that is never given back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// A plugin may refuse a network in its own words; all but the first that it is tried on.
enum class Verdict : std::uint8_t { passed, refused, failed };

struct PluginCheckRow {
  std::string check;    // "schema", "values", "rewrite", "same_text", "initialise", "leak", …
  std::string network;  // "" for a check of the plugin itself
  Verdict verdict = Verdict::passed;
  std::string detail;  // what was found, or what is wrong
};

struct CheckNetwork {
  std::string name;
  ir::Module module;  // forward(image) -> (logits), before any plugin
};

struct PluginCheck {
  std::vector<PluginCheckRow> rows;
  bool passed() const;
};

/// Checks the plugin in a child process: what crashes there, ends the process or never comes back is a row
/// that failed, and the last. UserError if the plugin cannot be loaded with the values of `spec`; all else is
/// a row, handed to `report` as soon as it is known. What the plugin prints goes to stderr.
PluginCheck check_plugin(const PluginSpec& spec, const std::vector<std::string>& plugin_path,
                         const std::vector<CheckNetwork>& networks,
                         const std::function<void(const PluginCheckRow&)>& report);

}  // namespace rewire::runtime
