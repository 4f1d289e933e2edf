// --set, --plugin, --plugin-path and --trust: the options that define a command's network.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "runtime/network/network.h"

namespace rewire::cli {

void declare_network(runtime::NetworkRequest& request, Options& options,
                     Options::Need model = Options::Need::required);
/// Declares all of these options but MODEL.
void declare_changes(runtime::NetworkRequest& request, Options& options);
void declare_plugin_path(std::vector<std::string>& plugin_path, Options& options);
void declare_trust(bool& trust, Options& options);
void declare_other_strategy(bool& other, Options& options);

}  // namespace rewire::cli
