// What every residual strategy must satisfy, tried on small networks: its schema makes sense, its rewrites
// verify and change something, gradients are those of the loss and reach every weight, compiled programs
// agree with the evaluator, at each value that the schema names, and the same input gives the same text,
// weights and bits, without memory that is never given back. What a strategy may do, and its author should
// know, is told: ops that nothing reads, samples that depend on each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// A plugin may refuse a network in its own words; all but the first that it is tried on. told: nothing is
/// wrong, but the author should know.
enum class Verdict : std::uint8_t { passed, refused, failed, told };

struct PluginCheckRow {
  std::string check;    // "schema", "values", "rewrite", "same_text", "initialise", "leak", …
  std::string network;  // "" for a check of the plugin itself
  Verdict verdict = Verdict::passed;
  std::string detail;  // what was found, or what is wrong
};

struct CheckNetwork {
  std::string name;
  ir::Module module;  // forward, before any plugin
};

struct PluginCheck {
  std::vector<PluginCheckRow> rows;
  bool passed() const;
};

/// Checks the plugin in a child process: what crashes there, ends the process or never comes back is a row
/// that failed, and the last. UserError if the plugin cannot be loaded with the values of `spec`; all else is
/// a row, handed to `report` as soon as it is known. What the plugin prints goes to stderr. `causal`: a
/// network whose tokens read earlier ones only (models::causal_network), and must after the rewrite.
PluginCheck check_plugin(const PluginSpec& spec, const std::vector<std::string>& plugin_path,
                         const std::vector<CheckNetwork>& networks, const std::optional<CheckNetwork>& causal,
                         const std::function<void(const PluginCheckRow&)>& report);

}  // namespace rewire::runtime
