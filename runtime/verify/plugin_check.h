// Checks a residual strategy on small networks. Its schema must make sense, and its rewrites must verify and
// change something. Gradients must match the loss and reach every weight. Compiled programs must agree with
// the evaluator at each value that the schema names. The same input must give the same text, weights and
// bits, without a memory leak. It also reports what a strategy may do but its author should know: ops that
// nothing reads, samples that depend on each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// A result. refused: in the plugin's own words, which is allowed for all networks but the first. remark:
/// nothing is wrong, but the author should know.
enum class Verdict : std::uint8_t { passed, refused, failed, remark };

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

/// Checks the plugin in a child process: a crash, exit or hang there is a failed row, and the last. Throws
/// UserError if the plugin cannot be loaded with the values of `spec`. Each result is a row, passed to
/// `report` as soon as it is known. The plugin's output goes to stderr. `causal`: a network whose tokens
/// read only earlier ones (models::causal_network), and must after the rewrite.
PluginCheck check_plugin(const PluginSpec& spec, const std::vector<std::string>& plugin_path,
                         const std::vector<CheckNetwork>& networks, const std::optional<CheckNetwork>& causal,
                         const std::function<void(const PluginCheckRow&)>& report);

}  // namespace rewire::runtime
