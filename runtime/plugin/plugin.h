// Residual plugins as the rest of the runtime sees them: find, load and judge a library, parse its
// parameters, apply it to a module.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/module.h"
#include "ir/schema.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// "NAME:key=value,layers=0+1" taken apart; values still text. From a recipe: the same map from
/// TOML.
struct PluginSpec {
  std::string name;  // a name to search for, or a path (any text with a slash)
  std::vector<std::pair<std::string, std::string>> values;
};
/// UserError on text that is no spec. "none" is for the caller to handle.
PluginSpec parse_plugin_spec(std::string_view text);

class Plugin;  // a loaded library with parsed parameters; opaque here
using PluginHandle = std::shared_ptr<const Plugin>;

struct PluginInfo {
  std::string name, version, doc, path, sha256;
  /// The plugin's own, then the host's (sites, layers, scope, from_epoch, to_epoch).
  std::vector<ir::ParameterInfo> parameters;
};

/// Where plugins are looked for, first match wins: `extra` (--plugin-path), REWIRE_PLUGIN_PATH,
/// $XDG_DATA_HOME/rewire/plugins, the folder beside the binary (../lib/rewire/plugins). Never the current
/// folder.
std::vector<std::string> plugin_search_path(const std::vector<std::string>& extra);

/// What the plugins say of themselves, asked in child processes: whatever one of them does, the rest goes on.
/// A warning names each that cannot be loaded, and why.
std::vector<PluginInfo> list_plugins(const std::vector<std::string>& extra);
/// The same of one. UserError if it cannot be loaded.
PluginInfo inspect_plugin(const std::string& name, const std::vector<std::string>& extra);

/// The names that there are plugins of, sorted: of the files, none of which is opened. None where the environment has no
/// path to search.
std::vector<std::string> find_plugin_names(const std::vector<std::string>& extra);
/// What inspect_plugin() tells, where nobody has asked for this plugin: of a library beside the binary, or one that the
/// user has agreed to run before (trust_list.h), and within a moment. Nothing of all others, and none of their code is run.
std::optional<PluginInfo> inspect_agreed(const std::string& name, const std::vector<std::string>& extra);

/// The SHA-256 of the library that a name or path finds; none of its code is run. Nothing where there is none
/// that can be read.
std::optional<std::string> find_library_hash(const std::string& name, const std::vector<std::string>& extra);

/// The most that a library may have.
inline constexpr std::size_t kMostLibraryBytes = std::size_t{256} << 20;

/// Who names a plugin. By a path, it is somebody's code: the user's word for it is consent, and is remembered
/// (trust_list.h); that of a recipe, sweep or run is none, unless they have given it before.
enum class NamedBy : std::uint8_t { user, file };

/// Loads (once a process), judges the handshake, parses and validates the values. UserError with what and how
/// to mend it.
PluginHandle load_plugin(const PluginSpec& spec, const std::vector<std::string>& extra,
                         NamedBy named_by = NamedBy::user);
const PluginInfo& plugin_info(const Plugin& plugin);
/// The values in force, all of them, as the resolved recipe records them.
std::vector<std::pair<std::string, std::string>> plugin_values(const Plugin& plugin);

/// A plugin said no to a module or its weights in words of its own, as opposed to a mistake that the host
/// found.
class PluginRefusal : public UserError {
 public:
  using UserError::UserError;
};

/// Rewrites the joins of `module`'s function "forward" with the plugins in order, for the given epoch
/// (from_epoch/to_epoch); verifies after each. On failure the module is as before and the UserError names the
/// plugin.
void apply_plugins(ir::Module& module, const std::vector<PluginHandle>& plugins, std::uint64_t seed,
                   std::int64_t epoch = 0);
/// What the initialise hook of a plugin wrote.
struct Initialised {
  std::string plugin;
  std::int64_t from_epoch = 0;
  std::vector<std::string> weights;  // their names, sorted
};
/// The initialise hooks of the plugins that are on in the given epoch, in order, over freshly initialised
/// parameters. One entry a hook.
std::vector<Initialised> initialise_plugins(const ir::Module& module,
                                            const std::vector<PluginHandle>& plugins, std::uint64_t seed,
                                            TensorMap& state, std::int64_t epoch = 0);
/// UserError where a plugin begins in none of a run's epochs: it would never be on.
void check_reached(const std::vector<PluginHandle>& plugins, std::int64_t epochs);
/// The epochs below `epochs` in which a plugin goes on or off, and epoch 0.
std::vector<std::int64_t> switch_epochs(const std::vector<PluginHandle>& plugins,
                                        std::int64_t epochs = std::numeric_limits<std::int64_t>::max());

}  // namespace rewire::runtime
