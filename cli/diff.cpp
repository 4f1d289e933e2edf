// rewire diff: compares two networks or two runs.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/diff_print.h"
#include "cli/json.h"
#include "cli/log.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/diff/network_diff.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/network/explored.h"
#include "runtime/page/page.h"

namespace rewire::cli {
namespace {

/// One side of the comparison, with the options that apply to it alone.
struct Side {
  std::string what;
  std::vector<std::string> settings, plugins;
};

struct DiffRequest {
  Side a, b;
  runtime::NetworkRequest both;
  std::string output;
  bool json = false, full = false, profile = false, exit_code = false;
};

void declare(DiffRequest& request, Options& options) {
  const std::string what =
      "a recipe, a module or a zoo model; a file that `rewire explore --json` wrote (.json); or a run folder";
  options.text("A", request.a.what, what, Options::Need::required).takes(Values::trained);
  options
      .text("B", request.b.what,
            "the other side, like A; by default A itself, with other plugins or settings")
      .takes(Values::trained);
  declare_changes(request.both, options);
  options.list("--set-a", request.a.settings, "--set for A alone; repeatable").takes(Values::setting);
  options.list("--set-b", request.b.settings, "--set for B alone; repeatable").takes(Values::setting);
  options.list("--plugin-a", request.a.plugins, "--plugin for A alone, after the plugins of both; repeatable")
      .takes(Values::plugin);
  options.list("--plugin-b", request.b.plugins, "--plugin for B alone, after the plugins of both; repeatable")
      .takes(Values::plugin);
  options.flag("--profile", request.profile, "also time each launch on this CPU");
  options.flag("--full", request.full,
               "print every difference, not the first of each kind, and the tile IR of kernels");
  options.flag("--json", request.json, "print an object");
  options
      .text("--output", request.output,
            "the HTML file to write, with both sides next to each other; - is stdout")
      .takes(Values::file, {".html"});
  options.flag("--exit-code", request.exit_code, "exit with 1 if anything differs");
  options.example("rewire diff vit_tiny_28 --plugin-b orthogonal",
                  "compare a network without and with a plugin");
  options.example("rewire diff runs/fashion_vit-none-s0 runs/fashion_vit-orthogonal-s0", "compare two runs");
}

enum class SideKind : std::uint8_t { network, data, run };

SideKind kind_of(const Side& side) {
  std::error_code error;
  if (std::filesystem::is_directory(side.what, error)) return SideKind::run;
  return side.what.ends_with(".json") ? SideKind::data : SideKind::network;
}

runtime::NetworkRequest network_of(const DiffRequest& request, const Side& side) {
  runtime::NetworkRequest network = request.both;
  network.model = side.what;
  network.settings.insert(network.settings.end(), side.settings.begin(), side.settings.end());
  network.plugins.insert(network.plugins.end(), side.plugins.begin(), side.plugins.end());
  return network;
}

/// Returns the side as on the command line, without the options that both sides share.
std::string name_of_side(const Side& side) {
  std::string name = side.what;
  for (const std::string& plugin : side.plugins) name += " --plugin " + plugin;
  for (const std::string& setting : side.settings) name += " --set " + setting;
  return name;
}

void refuse_changes(const DiffRequest& request, const Side& side, const char* what) {
  const bool changed = !request.both.settings.empty() || !request.both.plugins.empty() ||
                       !side.settings.empty() || !side.plugins.empty();
  if (changed) user_error("diff: --set and --plugin change networks only; {} is {}", side.what, what);
}

runtime::NetworkFacts facts_of_side(const DiffRequest& request, const Side& side, MovingLine& progress) {
  if (kind_of(side) == SideKind::data) {
    if (!side.settings.empty() || !side.plugins.empty()) refuse_changes(request, side, "a data file");
    return runtime::read_network_facts(runtime::read_json(runtime::FilePlace::of_user(side.what)), side.what);
  }
  const runtime::ExploreOptions options = {.profile = request.profile, .machine_code = false};
  const auto show = [&](const std::string& stage) { progress.moving(stage, true); };
  return runtime::read_network_facts(runtime::explored(network_of(request, side), options, show), side.what);
}

nlohmann::ordered_json compare(const DiffRequest& request, const Side& b, MovingLine& progress) {
  const Side& a = request.a;
  const runtime::DiffNames names = {name_of_side(a), name_of_side(b)};
  const bool a_is_run = kind_of(a) == SideKind::run, b_is_run = kind_of(b) == SideKind::run;
  if (a_is_run != b_is_run) {
    user_error("diff: {} is a run folder, {} is not; to compare the run's network, give {}/recipe.toml",
               a_is_run ? a.what : b.what, a_is_run ? b.what : a.what, a_is_run ? a.what : b.what);
  }
  if (kind_of(a) == SideKind::data && kind_of(b) == SideKind::data) {
    refuse_changes(request, a, "a data file");
    if (request.profile) user_error("diff: --profile times networks only; {} is a data file", a.what);
  }
  if (!a_is_run)
    return network_diff(facts_of_side(request, a, progress), facts_of_side(request, b, progress), names);
  refuse_changes(request, a, "a run folder");
  refuse_changes(request, b, "a run folder");
  if (request.profile) user_error("diff: --profile times networks only; {} is a run folder", a.what);
  return runtime::run_diff(names);
}

void write_page(const DiffRequest& request, const nlohmann::ordered_json& diff, MovingLine& progress) {
  const std::string page = runtime::make_page(runtime::diff_files(), "diff", diff);
  if (request.output == "-") return write_stdout(page);
  runtime::write_file_atomically(request.output, page);
  progress.line("wrote " + request.output);
}

void run(const DiffRequest& request) {
  Side b = request.b;
  if (b.what.empty()) b.what = request.a.what;
  if (!request.output.empty() && request.json)
    user_error("diff: --output writes a page, --json prints an object: drop one");
  if (!request.output.empty() && request.output != "-") {
    for (const Side& side : {request.a, b}) check_output(request.output, files_of(network_of(request, side)));
  }
  MovingLine progress(!logs_info());
  const nlohmann::ordered_json diff = compare(request, b, progress);
  progress.clear();
  if (!request.output.empty()) {
    write_page(request, diff, progress);
  } else if (request.json) {
    print_json(diff, 1);
  } else {
    print_diff(diff, request.full);
  }
  if (request.exit_code && !diff["same"].get<bool>())
    throw RuntimeFailure(fmt::format("{} and {} differ", name_of_side(request.a), name_of_side(b)));
}

}  // namespace

Command diff_command() {
  return make_command<DiffRequest>("diff", "compare two networks or two runs", declare, run);
}

}  // namespace rewire::cli
