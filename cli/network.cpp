#include "cli/network.h"

#include "cli/formula.h"

namespace rewire::cli {

void declare_plugin_path(std::vector<std::string>& plugin_path, Options& options) {
  options
      .list("--plugin-path", plugin_path, "a folder to search for plugins before the usual ones; repeatable")
      .takes(Values::folder);
}

void declare_trust(bool& trust, Options& options) {
  options.flag("--trust", trust,
               "run the libraries that the recipe, sweep or run names by a path, and remember them");
}

void declare_other_strategy(bool& other, Options& options) {
  options.flag(
      "--other-strategy", other,
      "accept weights of a network with other plugins or other values of them, if their names match");
}

void declare_network(runtime::NetworkRequest& request, Options& options, Options::Need model) {
  options.text("MODEL", request.model, "a recipe (.toml), a module (.rir) or a zoo model", model)
      .takes(Values::model);
  declare_changes(request, options);
}

void declare_changes(runtime::NetworkRequest& request, Options& options) {
  options
      .list("--set", request.settings, "section.key=value: set or override a key of the recipe; repeatable")
      .takes(Values::setting);
  // These three keep the order that they have on the command line.
  const auto add = [&request](const std::string& spec) { request.plugins.push_back(spec); };
  options
      .each("--plugin", add, "NAME:key=value,...: replace the recipe's plugins; none clears them; repeatable")
      .takes(Values::plugin);
  options
      .each(
          "--join", [add](const std::string& text) { add(spec_of_join(text)); },
          "a formula in place of the recipe's plugins: --join 'x + 0.5 * f'; see rewire help formula")
      .takes(Values::formula);
  options
      .each(
          "--formula", [add](const std::string& file) { add(spec_of_formula_file(file)); },
          "a file of formulas in place of the recipe's plugins: TOML with join, weights, let")
      .takes(Values::file, {".toml"});
  declare_plugin_path(request.plugin_path, options);
  declare_trust(request.trust, options);
  declare_other_strategy(request.other_strategy, options);
}

}  // namespace rewire::cli
