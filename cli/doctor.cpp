// rewire doctor: prints what this machine has and lacks.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "runtime/data/vision/idx.h"
#include "runtime/device/cuda/machine.h"
#include "runtime/device/probe.h"
#include "runtime/group/group.h"
#include "runtime/plugin/plugin.h"

namespace rewire::cli {
namespace {

struct DoctorRequest {
  std::vector<std::string> plugin_path;
  bool json = false;
};

void declare(DoctorRequest& request, Options& options) {
  declare_plugin_path(request.plugin_path, options);
  options.flag("--json", request.json, "print an object");
  options.example("rewire doctor",
                  "print processor, libraries, plugins, data, and what --device cuda has and lacks");
  options.example("rewire doctor --json", "print the same as an object");
}

struct Facts {
  runtime::ProcessorFacts processor = runtime::probe_processor();
  std::vector<runtime::LibraryVersion> libraries = runtime::built_with();
  runtime::CudaFacts cuda = runtime::probe_cuda();
  std::vector<runtime::PluginInfo> plugins;
  std::string dataset{runtime::kFashionMnistFolder};
  bool has_dataset = std::filesystem::is_directory(dataset);
};

double gibibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

void print_facts_as_json(const Facts& facts) {
  nlohmann::ordered_json object;
  object["processor"] = {{"name", facts.processor.name},
                         {"instructions", facts.processor.instructions},
                         {"cores", facts.processor.cores},
                         {"memory_bytes", facts.processor.memory_bytes}};
  for (const runtime::LibraryVersion& library : facts.libraries)
    object["built_with"][library.name] = library.version;
  object["plugins"] = nlohmann::ordered_json::array();
  for (const runtime::PluginInfo& info : facts.plugins) {
    object["plugins"].push_back({{"name", info.name}, {"version", info.version}, {"path", info.path}});
  }
  object["dataset"] = {{"path", facts.dataset}, {"found", facts.has_dataset}};
  object["mpi"] = runtime::mpi_version();
  object["cuda"] = {{"usable", facts.cuda.missing.empty()},
                    {"why", facts.cuda.missing},
                    {"device", facts.cuda.device},
                    {"parts", nlohmann::ordered_json::object()}};
  for (const runtime::CudaPart& part : facts.cuda.parts)
    object["cuda"]["parts"][part.name] = {{"found", part.found},
                                          {"note", part.note},
                                          {"verdict", runtime::verdict_name(part.verdict)},
                                          {"why", part.why}};
  print_json(object);
}

void print_subject(std::string_view subject, std::string_view text) {
  print("{:<10} {}\n", subject, text);
}

/// The parts of a text between "; ".
std::vector<std::string> clauses(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find("; ");
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return parts;
}

/// Prints the verdict on each part with what was found; below it more about it, what is wrong, and what to do.
void print_cuda(const runtime::CudaFacts& cuda) {
  print_subject("CUDA", cuda.summary);
  for (const runtime::CudaPart& part : cuda.parts) {
    std::string head = fmt::format("{:<10}  {:<9}", runtime::verdict_name(part.verdict), part.name);
    for (const std::string& text : {part.found, part.note, part.why}) {
      for (const std::string& clause : clauses(text)) {
        print_subject("", fmt::format("{:<21} {}", head, clause));
        head.clear();
      }
    }
  }
}

void run(const DoctorRequest& request) {
  Facts facts;
  facts.plugins = runtime::list_plugins(request.plugin_path);
  if (request.json) return print_facts_as_json(facts);

  print_subject("rewire", REWIRE_VERSION);
  print_subject("processor", fmt::format("{}: {} core(s), {}", facts.processor.name, facts.processor.cores,
                                         fmt::join(facts.processor.instructions, " ")));
  print_subject("memory", fmt::format("{:.1f} GiB", gibibytes(facts.processor.memory_bytes)));
  for (const runtime::LibraryVersion& library : facts.libraries) print_subject(library.name, library.version);
  for (const runtime::PluginInfo& info : facts.plugins) {
    print_subject("plugin", fmt::format("{} {} in {}", info.name, info.version, info.path));
  }
  if (facts.plugins.empty()) {
    print_subject("plugin", fmt::format("none in {}",
                                        fmt::join(runtime::plugin_search_path(request.plugin_path), ", ")));
  }
  print_subject("data", facts.has_dataset
                            ? fmt::format("Fashion-MNIST in {}", facts.dataset)
                            : fmt::format("no Fashion-MNIST in {}: apt-get install dataset-fashion-mnist",
                                          facts.dataset));
  print_subject("MPI", runtime::mpi_version());
  print_cuda(facts.cuda);
}

}  // namespace

Command doctor_command() {
  return make_command<DoctorRequest>("doctor", "print what this machine has and lacks", declare, run);
}

}  // namespace rewire::cli
