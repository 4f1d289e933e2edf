// Residual plugins as the rest of the runtime sees them: finds, loads and judges a library, parses its
// parameters, and applies it to a module.
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
#include "ir/text_error.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// "NAME:key=value,layers=0+1" in parts, values still text; from a recipe, the same parts of its TOML. A value
/// that begins with a double or single quote ends at the next such quote, and holds what is between them:
/// NAME:text="a, b".
struct PluginSpec {
  std::string name;  // a name to search for, or a path (any text with a slash)
  std::vector<std::pair<std::string, std::string>> values;
};
/// Throws UserError on text that is no spec. The caller handles "none".
PluginSpec parse_plugin_spec(std::string_view text);

class Plugin;  // a loaded library with parsed parameters; opaque here
using PluginHandle = std::shared_ptr<const Plugin>;

struct PluginInfo {
  std::string name, version, doc, path, sha256;
  /// The plugin's own, then the host's (sites, layers, stages, scope, from_epoch, to_epoch).
  std::vector<ir::ParameterInfo> parameters;
};

/// Returns the folders with plugins, the first match wins: `extra` (--plugin-path), REWIRE_PLUGIN_PATH,
/// $XDG_DATA_HOME/rewire/plugins, the folder beside the binary (../lib/rewire/plugins). The current folder
/// is never searched.
std::vector<std::string> plugin_search_path(const std::vector<std::string>& extra);

/// Returns the plugins' descriptions of themselves, each asked in a child process, so that a faulty plugin
/// affects no other. Logs a warning, with the reason, for each that cannot be loaded.
std::vector<PluginInfo> list_plugins(const std::vector<std::string>& extra);
/// Returns the description of one plugin. Throws UserError if it cannot be loaded.
PluginInfo inspect_plugin(const std::string& name, const std::vector<std::string>& extra);

/// Returns the names of available plugins, sorted, by file names; opens no file. Empty if the environment
/// has no path to search.
std::vector<std::string> find_plugin_names(const std::vector<std::string>& extra);
/// Returns the description of a plugin that nobody has asked for, within a moment. It runs only a library
/// beside the binary, or one that the user has agreed to run before (trust_list.h), and returns nothing for
/// all others.
std::optional<PluginInfo> inspect_agreed(const std::string& name, const std::vector<std::string>& extra);

/// Returns the SHA-256 of the library that a name or path finds, without running its code; nothing if no
/// file can be read.
std::optional<std::string> find_library_hash(const std::string& name, const std::vector<std::string>& extra);

/// The largest size of a library.
inline constexpr std::size_t kMostLibraryBytes = std::size_t{256} << 20;

/// The origin of a plugin's name. A path leads to somebody's code. If the user names it, that is consent and
/// is remembered (trust_list.h); a recipe, sweep or run gives no consent, unless the user has given it
/// before.
enum class NamedBy : std::uint8_t { user, file };

/// Loads the library (once per process), judges the handshake, and parses and validates the values. Throws
/// UserError with the fault and the remedy.
PluginHandle load_plugin(const PluginSpec& spec, const std::vector<std::string>& extra,
                         NamedBy named_by = NamedBy::user);
const PluginInfo& plugin_info(const Plugin& plugin);
/// Returns all values in force, as the resolved recipe records them.
std::vector<std::pair<std::string, std::string>> plugin_values(const Plugin& plugin);

/// A plugin's own refusal of a module or its weights, as opposed to an error that the host found. Its
/// message may have a few lines, such as a text of the user's and a caret.
class PluginRefusal : public ir::TextError {
 public:
  using ir::TextError::TextError;
};

/// Rewrites the joins of `module`'s function "forward" with the plugins in order, for the given epoch
/// (from_epoch/to_epoch), and verifies after each. On failure the module is unchanged and the UserError
/// names the plugin.
void apply_plugins(ir::Module& module, const std::vector<PluginHandle>& plugins, std::uint64_t seed,
                   std::int64_t epoch = 0);
/// The weights that a plugin's initialise hook wrote.
struct Initialised {
  std::string plugin;
  std::int64_t from_epoch = 0;
  std::vector<std::string> weights;  // their names, sorted
};
/// Runs the initialise hooks of the plugins that are on in the given epoch, in order, over freshly
/// initialised parameters. Returns one entry per hook.
std::vector<Initialised> initialise_plugins(const ir::Module& module,
                                            const std::vector<PluginHandle>& plugins, std::uint64_t seed,
                                            TensorMap& state, std::int64_t epoch = 0);
/// Throws UserError if a plugin begins after a run's last epoch and so would never be on.
void check_reached(const std::vector<PluginHandle>& plugins, std::int64_t epochs);
/// Returns epoch 0 and the epochs below `epochs` in which a plugin goes on or off.
std::vector<std::int64_t> switch_epochs(const std::vector<PluginHandle>& plugins,
                                        std::int64_t epochs = std::numeric_limits<std::int64_t>::max());

}  // namespace rewire::runtime
