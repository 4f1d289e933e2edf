// Applies plugins to a module and to its fresh weights. Both work on copies: a failure changes nothing.
#include <set>

#include "ir/verify.h"
#include "runtime/plugin/host_call.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {
namespace {

/// Runs `body` and puts the plugin's name before its errors.
template <class Body>
void in_the_name_of(const Plugin& plugin, Body body) {
  try {
    body();
  } catch (const PluginRefusal& e) {
    throw PluginRefusal(fmt::format("plugin '{}': {}", plugin.name(), e.what()));
  } catch (const UserError& e) {
    user_error("plugin '{}': {}", plugin.name(), e.what());
  }
}

}  // namespace

void apply_plugins(ir::Module& module, const std::vector<PluginHandle>& plugins, std::uint64_t seed,
                   std::int64_t epoch) {
  ir::Module rewritten = module;
  for (const PluginHandle& plugin : plugins) {
    if (!plugin->filters().active(epoch)) continue;
    in_the_name_of(*plugin, [&] {
      HostCall call(*plugin, seed, rewritten);
      call.run(plugin->descriptor().rewrite);
      // V8 of the verifier: every stream has kept its shape and type.
      ir::verify(rewritten);
    });
  }
  module = std::move(rewritten);
}

std::vector<Initialised> initialise_plugins(const ir::Module& module,
                                            const std::vector<PluginHandle>& plugins, std::uint64_t seed,
                                            TensorMap& state, std::int64_t epoch) {
  TensorMap written;
  std::vector<Initialised> hooks;
  for (const PluginHandle& plugin : plugins) {
    if (plugin->descriptor().initialise == nullptr || !plugin->filters().active(epoch)) continue;
    in_the_name_of(*plugin, [&] {
      HostCall call(*plugin, seed, module, state, written);
      call.run(plugin->descriptor().initialise);
      hooks.push_back({std::string(plugin->name()), plugin->filters().from_epoch(), call.written_names()});
    });
  }
  for (auto& [name, tensor] : written) state.insert_or_assign(name, std::move(tensor));
  return hooks;
}

void check_reached(const std::vector<PluginHandle>& plugins, std::int64_t epochs) {
  for (const PluginHandle& plugin : plugins) {
    const std::int64_t from = plugin->filters().from_epoch();
    if (from < epochs) continue;
    user_error(
        "plugin '{}': from_epoch={} is never reached: the last of train.epochs={} is epoch {}; lower it, or "
        "train longer",
        plugin->name(), from, epochs, epochs - 1);
  }
}

std::vector<std::int64_t> switch_epochs(const std::vector<PluginHandle>& plugins, std::int64_t epochs) {
  std::set<std::int64_t> starts = {0};
  for (const PluginHandle& plugin : plugins) {
    for (const std::int64_t epoch : {plugin->filters().from_epoch(), plugin->filters().to_epoch()}) {
      if (epoch < epochs) starts.insert(epoch);
    }
  }
  return {starts.begin(), starts.end()};
}

}  // namespace rewire::runtime
