// rewire plugin: for authors of strategies. `new` writes a project, `test` checks the library.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/commands.h"
#include "cli/formula.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "models/trial.h"
#include "runtime/plugin/skeleton.h"
#include "runtime/verify/plugin_check.h"

namespace rewire::cli {
namespace {

struct NewRequest {
  std::string name;
  std::string formula_file, join;  // what it begins with, if not the example
};

void declare_new(NewRequest& request, Options& options) {
  options.text("NAME", request.name, "the name of the plugin and of its new folder", Options::Need::required);
  options
      .text("--formula", request.formula_file,
            "a file of formulas that the plugin begins with: TOML with join, weights, let")
      .takes(Values::file, {".toml"});
  options.text("--join", request.join, "a formula that the plugin begins with: 'x + 0.5 * f'")
      .takes(Values::formula);
  options.example("rewire plugin new mine", "write a project to the folder mine");
  options.example("rewire plugin new mine --formula idea.toml",
                  "write one whose source is your formulas in C++");
}

/// Returns the prefix of this installation or build: find_package finds the SDK there.
std::string own_prefix() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().string();
}

void write_new(const NewRequest& request) {
  const std::string& name = request.name;
  runtime::ProjectFiles files = runtime::plugin_skeleton(name);  // refuses a name before anything else
  if (!request.formula_file.empty() && !request.join.empty())
    user_error("a project begins with one formula: give --formula or --join");
  if (!request.formula_file.empty() || !request.join.empty()) {
    const std::string spec =
        request.join.empty() ? spec_of_formula_file(request.formula_file) : spec_of_join(request.join);
    files = runtime::plugin_skeleton(name, source_of_formulas(name, spec));
  }
  runtime::write_plugin_skeleton(".", name, files);
  for (const auto& file : files) print("{}/{}\n", name, file.first);
  print(
      "\nto build and test it:\n"
      "  cmake -S {0} -B {0}/build -DCMAKE_PREFIX_PATH={1} && cmake --build {0}/build\n"
      "  rewire plugin test {0}/build/{0}.so\n",
      name, own_prefix());
}

struct TestRequest {
  std::string file;
  std::vector<std::string> plugin_path;
  bool causal = false, json = false;
};

void declare_test(TestRequest& request, Options& options) {
  options
      .text("FILE", request.file, "the library, with optional values: ./build/mine.so:key=value,...",
            Options::Need::required)
      .takes(Values::plugin);
  declare_plugin_path(request.plugin_path, options);
  options.flag("--causal", request.causal, "also check that no token reads a later one");
  options.flag("--json", request.json, "print an object");
  options.example("rewire plugin test mine/build/mine.so", "run every check, on three small networks");
  options.example("rewire plugin test mine/build/mine.so:start=0.5 --causal",
                  "run them with a value, and one more check");
}

std::string_view word(runtime::Verdict verdict) {
  constexpr std::string_view kWords[] = {"ok", "refused", "FAILED", "note"};
  return kWords[static_cast<std::size_t>(verdict)];
}

void print_row(const runtime::PluginCheckRow& row) {
  print("{:<7}  {:<10} {:<9}  {}\n", word(row.verdict), row.check, row.network, row.detail);
  flush_stdout();
}

void print_object(const runtime::PluginCheck& check) {
  constexpr std::string_view kVerdicts[] = {"passed", "refused", "failed", "told"};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const runtime::PluginCheckRow& row : check.rows) {
    rows.push_back({{"check", row.check},
                    {"network", row.network},
                    {"verdict", kVerdicts[static_cast<std::size_t>(row.verdict)]},
                    {"detail", row.detail}});
  }
  print_json({{"passed", check.passed()}, {"checks", std::move(rows)}});
}

void test(const TestRequest& request) {
  const runtime::PluginSpec spec = runtime::parse_plugin_spec(request.file);
  std::vector<runtime::CheckNetwork> networks;
  for (models::TrialNetwork& network : models::trial_networks())
    networks.push_back({std::move(network.name), std::move(network.module)});
  std::optional<runtime::CheckNetwork> causal;
  if (request.causal) {
    models::TrialNetwork network = models::causal_network();
    causal = {std::move(network.name), std::move(network.module)};
  }
  const bool json = request.json;
  const runtime::PluginCheck check = runtime::check_plugin(spec, request.plugin_path, networks, causal,
                                                           [json](const runtime::PluginCheckRow& row) {
                                                             if (!json) print_row(row);
                                                           });
  if (json) print_object(check);
  if (!check.passed())
    throw RuntimeFailure(fmt::format("{} fails a check that every strategy must pass", spec.name));
}

}  // namespace

Command plugin_new_command() {
  return make_command<NewRequest>("plugin new", "begin a strategy of your own: a project that builds",
                                  declare_new, write_new);
}

Command plugin_test_command() {
  return make_command<TestRequest>("plugin test", "check a strategy on three small networks", declare_test,
                                   test);
}

}  // namespace rewire::cli
