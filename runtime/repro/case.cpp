#include "runtime/repro/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "ir/error.h"
#include "ir/text.h"
#include "programs/programs.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/io/safetensors.h"
#include "runtime/measure/non_finite.h"
#include "runtime/repro/compare.h"
#include "runtime/repro/make_case.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCaseFormat = 1;
constexpr const char* kReproRecord = "repro.json";
constexpr const char* kModuleFile = "module.rir";
constexpr int kTimedRuns = 5;
constexpr std::string_view kKindNames[] = {"kernel", "program", "non_finite", "refusal", "compile"};

std::string_view kind_name(ReproKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

bool is_compared(ReproKind kind) {
  return kind == ReproKind::kernel || kind == ReproKind::program;
}

bool has_tensors(ReproKind kind) {
  return is_compared(kind) || kind == ReproKind::non_finite;
}

// ---- tensors from seeds

struct SeededTensor {
  std::string file, name;  // file: "inputs" or "state"
  std::uint64_t seed = 0;
  double low = 0, high = 0;
};

HostTensor tensor_from_seed(const ir::TensorType& type, const SeededTensor& how) {
  std::mt19937_64 random(how.seed);
  ir::Tensor tensor(type);
  const bool whole = !ir::is_float(type.dtype);
  for (double& value : tensor.data) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    const double span = how.high - how.low + (whole ? 1 : 0);
    value = how.low + (whole ? std::floor(u * span) : u * span);
  }
  return to_host(tensor);
}

/// Replaces each tensor of more than `most_bytes` by random numbers in its range, from a seed.
void take_from_seeds(TensorMap& tensors, const char* file, std::int64_t most_bytes,
                     std::vector<SeededTensor>& seeded) {
  for (auto& [name, tensor] : tensors) {
    if (tensor.type().bytes() <= most_bytes) continue;
    const std::vector<double> values = to_double(tensor).data;
    if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
      continue;  // a NaN or infinity may be the cause
    const auto [low, high] = std::ranges::minmax(values);
    seeded.push_back({file, name, seeded.size() + 1, low, high});
    tensor = tensor_from_seed(tensor.type(), seeded.back());
  }
}

// ---- the folder

std::string path_in(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

Json plugins_to_json(const std::vector<ReproPlugin>& plugins) {
  Json list = Json::array();
  for (const ReproPlugin& plugin : plugins) {
    Json values = Json::object();
    for (const auto& [key, value] : plugin.values) values[key] = value;
    Json one = {
        {"name", plugin.name}, {"version", plugin.version}, {"sha256", plugin.sha256}, {"values", values}};
    if (!plugin.copy.empty()) one["copy"] = plugin.copy;
    list.push_back(std::move(one));
  }
  return list;
}

/// Returns the machine that kernels are compiled for, and the versions of what compiles them.
Json machine_json() {
  const EngineFacts facts = engine_facts(engine_names().front());
  Json machine = {{"cpu", facts.target}, {"Rewire", REWIRE_VERSION}};
  for (const LibraryVersion& library : facts.libraries) machine[library.name] = library.version;
  return machine;
}

std::string readme_of(const ReproCase& subject, const Json& record, const std::string& folder_name) {
  std::string text;
  switch (subject.kind) {
    case ReproKind::kernel:
      text = fmt::format("# The kernel {}\n", subject.subject);
      break;
    case ReproKind::program:
      text = "# A program that is compiled to something else than is evaluated\n";
      break;
    case ReproKind::non_finite:
      text = "# A step that is not finite\n";
      break;
    case ReproKind::refusal:
      text = "# A rewrite that is refused\n";
      break;
    case ReproKind::compile:
      text = "# A program that cannot be compiled\n";
      break;
  }
  const bool copied =
      std::ranges::any_of(subject.plugins, [](const ReproPlugin& one) { return !one.copy.empty(); });
  text += fmt::format("\n    {}\n\n", replay_command(subject, folder_name, copied));
  if (is_compared(subject.kind)) {
    text +=
        "compiles module.rir, runs it, and compares each result with the evaluator's in double precision.\n";
  } else {
    text += fmt::format("shows the failure again: {}\n", subject.subject);
  }
  text += fmt::format("It comes from {}.\n", subject.model);
  if (subject.kind == ReproKind::kernel) {
    text += subject.same_code
                ? "\nmodule.rir compiles to the same code as in the whole program, kernel.tile.\n"
                : "\nmodule.rir does NOT compile to the kernel's code in the whole program, kernel.tile.\n";
  }
  for (const Json& tensor : record["seeded"]) {
    text += fmt::format(
        "\n{} of {}: too large to be stored; replaced by uniform numbers between {} and {} from seed {}.\n",
        tensor["name"].get<std::string>(), tensor["file"].get<std::string>(), tensor["low"].dump(),
        tensor["high"].dump(), tensor["seed"].dump());
  }
  text += "\n| made with | |\n|---|---|\n";
  for (const auto& [name, version] : record["machine"].items())
    text += fmt::format("| {} | {} |\n", name, version.get<std::string>());
  for (const ReproPlugin& plugin : subject.plugins)
    text += fmt::format("| plugin {} | {}, SHA-256 {} |\n", plugin.name, plugin.version, plugin.sha256);
  return text;
}

/// Returns a row per result. `stored` receives the tensors that are not too large.
Json expected_results(const ReproCase& subject, std::int64_t most_bytes, TensorMap& stored) {
  const TensorMap expected = evaluated(subject.module, subject.function, subject.inputs, subject.state);
  Json results = Json::array();
  for (const ReproRow& row :
       compare_runs(subject.module, subject.function, subject.inputs, subject.state, expected)) {
    const HostTensor& tensor = expected.at(row.name);
    const bool is_stored = tensor.type().bytes() <= most_bytes;
    if (is_stored) stored[row.name] = tensor.clone();
    results.push_back({{"name", row.name}, {"allowed", row.allowed}, {"stored", is_stored}});
  }
  return results;
}

void copy_library(const std::string& from, const std::string& to) {
  make_folder(std::filesystem::path(to).parent_path().string());
  write_file_atomically(to, read_file(from, kMostLibraryBytes));
}

// ---- reading

struct LoadedCase {
  ReproCase subject;
  Json record;
  std::vector<SeededTensor> seeded;
};

ReproKind kind_from(const JsonView& record) {
  const std::string name = record.at("kind").text();
  const auto found = std::ranges::find(kKindNames, name);
  if (found == std::end(kKindNames)) record.at("kind").refuse("is not a kind of folder");
  return static_cast<ReproKind>(found - std::begin(kKindNames));
}

std::vector<ReproPlugin> plugins_from(const JsonView& record) {
  std::vector<ReproPlugin> plugins;
  for (const JsonView& plugin : record.at("plugins").items()) {
    ReproPlugin& one = plugins.emplace_back(
        ReproPlugin{plugin.at("name").text(), plugin.at("version").text(), plugin.at("sha256").text(), {}});
    for (const auto& [key, value] : plugin.at("values").members()) one.values.emplace_back(key, value.text());
    if (const auto copy = plugin.find("copy")) one.copy = copy->text();
    if (one.copy.find("..") != std::string::npos || one.copy.starts_with("/"))
      plugin.at("copy").refuse("is not a path inside the folder");
  }
  return plugins;
}

std::string read_module_text(const FilePlace& file) {
  const std::vector<std::byte> bytes = read_file(file, kMostJsonBytes * 16);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns every wanted tensor, from the file or from its seed. Throws UserError if one is
/// missing or has another type.
TensorMap tensors_of(const std::string& folder, const std::string& file,
                     const std::vector<ir::Argument>& wanted, const std::vector<ir::TensorType>& types,
                     const std::vector<SeededTensor>& seeded) {
  TensorMap tensors;
  const std::string path = path_in(folder, file + ".safetensors");
  if (const FilePlace place = FilePlace::below(folder, file + ".safetensors"); status_of(place))
    tensors = read_safetensors(place).tensors;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto made = std::ranges::find_if(
        seeded, [&](const SeededTensor& one) { return one.file == file && one.name == wanted[i].name; });
    if (made != seeded.end()) tensors[wanted[i].name] = tensor_from_seed(types[i], *made);
    const auto found = tensors.find(wanted[i].name);
    if (found == tensors.end()) user_error("{}: there is no tensor '{}'", path, wanted[i].name);
    if (found->second.type() != types[i])
      user_error("{}: '{}' is {}, not {}", path, wanted[i].name, to_string(found->second.type()),
                 to_string(types[i]));
  }
  return tensors;
}

void read_tensors(const std::string& folder, LoadedCase& loaded) {
  ReproCase& subject = loaded.subject;
  const ir::Function& function = subject.module.function(subject.function);
  std::vector<ir::TensorType> types;
  for (const ir::Argument& argument : function.arguments) types.push_back(function.type(argument.value));
  subject.inputs = tensors_of(folder, "inputs", function.arguments, types, loaded.seeded);
  std::vector<ir::Argument> parameters;
  types.clear();
  for (const ir::Parameter& parameter : subject.module.parameters) {
    parameters.push_back({parameter.name, {}});
    types.push_back(parameter.type);
  }
  subject.state = tensors_of(folder, "state", parameters, types, loaded.seeded);
}

LoadedCase load_case(const std::string& folder) {
  LoadedCase loaded;
  const std::string file = path_in(folder, kReproRecord);
  loaded.record = read_json(FilePlace::below(folder, kReproRecord));
  const JsonView record(loaded.record, file);
  const std::int64_t format = record.at("format").count();
  if (format != kCaseFormat)
    user_error("{}: its format is {}; this version of Rewire reads {}", file, format, kCaseFormat);
  ReproCase& subject = loaded.subject;
  subject.kind = kind_from(record);
  subject.model = record.at("model").text();
  subject.subject = record.at("subject").text();
  subject.function = record.at("function").text();
  subject.code = record.at("code").text();
  if (!record.at("same_code").raw().is_boolean()) record.at("same_code").refuse("is neither true nor false");
  subject.same_code = record.at("same_code").raw();
  subject.seed = static_cast<std::uint64_t>(record.at("seed").count());
  subject.plugins = plugins_from(record);
  for (const JsonView& one : record.at("seeded").items()) {
    loaded.seeded.push_back({one.at("file").text(), one.at("name").text(),
                             static_cast<std::uint64_t>(one.at("seed").count()), one.at("low").number(),
                             one.at("high").number()});
  }
  subject.module =
      ir::parse(read_module_text(FilePlace::below(folder, kModuleFile)), path_in(folder, kModuleFile));
  if (subject.module.find_function(subject.function) == nullptr)
    user_error("{}: the module has no function '{}'", path_in(folder, kModuleFile), subject.function);
  if (subject.kind == ReproKind::refusal && subject.function != "forward")
    record.at("function").refuse("is not forward, the function that plugins rewrite");
  if (has_tensors(subject.kind)) read_tensors(folder, loaded);
  return loaded;
}

void note_machine(const JsonView& record, std::vector<std::string>& notes) {
  const Json now = machine_json();
  for (const auto& [name, then] : record.at("machine").members()) {
    const std::string today = now.value(name, "missing");
    if (today != then.text()) notes.push_back(fmt::format("{}: {} now, {} then", name, today, then.text()));
  }
}

void replay_compared(const std::string& folder, const LoadedCase& loaded, ReproOutcome& outcome) {
  const ReproCase& subject = loaded.subject;
  const std::string file = path_in(folder, kReproRecord),
                    expected_file = path_in(folder, "expected.safetensors");
  TensorMap expected;
  if (const FilePlace place = FilePlace::below(folder, "expected.safetensors"); status_of(place))
    expected = read_safetensors(place).tensors;
  std::map<std::string, double> allowed;
  const JsonView record(loaded.record, file);
  bool all_stored = true;
  for (const JsonView& result : record.at("results").items()) {
    allowed[result.at("name").text()] = result.at("allowed").number();
    all_stored = all_stored && expected.contains(result.at("name").text());
  }
  if (!all_stored) {
    for (auto& [name, tensor] : evaluated(subject.module, subject.function, subject.inputs, subject.state))
      expected.try_emplace(name, tensor.clone());
  }
  const auto engine = make_engine(engine_names().front(), subject.module);
  const TensorMap actual = run_once(*engine, subject.module, subject.function, subject.inputs, subject.state);
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end() || !allowed.contains(name))
      user_error("{}: the program has no result '{}'", expected_file, name);
    if (found->second.type() != tensor.type())
      user_error("{}: '{}' is {}, not {}", expected_file, name, to_string(tensor.type()),
                 to_string(found->second.type()));
  }
  for (const auto& [name, tensor] : actual) {
    if (!allowed.contains(name) || !expected.contains(name))
      user_error("{}: it has no entry for the program's result '{}'", file, name);
  }
  outcome.rows = rows_of(actual, expected, [&](const std::string& name, double) { return allowed.at(name); });
  outcome.milliseconds = 1e9;
  for (int i = 0; i < kTimedRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    engine->run(subject.function, subject.inputs);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    outcome.milliseconds = std::min(outcome.milliseconds, taken.count());
  }
}

std::string replay_refusal(const std::string& folder, const ReproCase& subject,
                           const std::vector<std::string>& plugin_path, bool trust,
                           std::vector<std::string>& notes) {
  std::vector<PluginHandle> plugins;
  for (const ReproPlugin& plugin : subject.plugins) {
    const std::string name =
        plugin.copy.empty() ? plugin.name : std::filesystem::absolute(path_in(folder, plugin.copy)).string();
    try {
      plugins.push_back(
          load_plugin({name, plugin.values}, plugin_path, trust ? NamedBy::user : NamedBy::file));
    } catch (const UserError& error) {
      if (error.what() == subject.subject) return error.what();
      throw;
    }
    const PluginInfo& info = plugin_info(*plugins.back());
    if (info.sha256 != plugin.sha256)
      notes.push_back(fmt::format("plugin {} is another build: SHA-256 {} now, {} then", plugin.name,
                                  info.sha256, plugin.sha256));
  }
  return refusal_of(subject.module, plugins, subject.seed);
}

}  // namespace

bool ReproOutcome::passed() const {
  return message.empty() && std::ranges::all_of(rows, &ReproRow::passed);
}

std::string replay_command(const ReproCase& subject, const std::string& folder, bool copied) {
  const std::string command = "rewire repro " + folder;
  if (subject.kind != ReproKind::refusal) return command;
  return command + (copied ? " --trust" : " --plugin-path FOLDER-OF-THE-PLUGIN");
}

bool is_case(const std::string& folder) {
  return status_of(FilePlace::below(folder, kReproRecord)).has_value();
}

std::string refusal_of(const ir::Module& module, const std::vector<PluginHandle>& plugins,
                       std::uint64_t seed) {
  try {
    for (const std::int64_t epoch : switch_epochs(plugins)) {
      ir::Module rewritten = module;
      apply_plugins(rewritten, plugins, seed, epoch);
    }
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string compile_failure_of(const ir::Module& module, const std::string& function) {
  try {
    make_jit_engine(module)->prepare(function);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string non_finite_in(const ir::Module& module, const std::string& function, const TensorMap& inputs,
                          const TensorMap& state) {
  // One engine runs the function; the other keeps the state from before the run.
  const auto engine = make_engine(engine_names().front(), module),
             before = make_engine(engine_names().front(), module);
  for (const auto& [name, tensor] : state) {
    engine->write_state(name, tensor);
    before->write_state(name, tensor);
  }
  return all_finite(engine->run(function, inputs)) ? "" : first_non_finite(module, function, *before, inputs);
}

void require_free(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error))
    user_error("repro: {} is not a folder", folder);
  if (std::filesystem::is_directory(folder, error) && !std::filesystem::is_empty(folder, error))
    user_error("repro: {} is not empty; choose another folder", folder);
}

void write_case(const std::string& folder, ReproCase subject, std::int64_t most_bytes,
                const std::vector<std::string>& libraries) {
  require_free(folder);
  std::vector<SeededTensor> seeded;
  if (is_compared(subject.kind)) {
    take_from_seeds(subject.inputs, "inputs", most_bytes, seeded);
    take_from_seeds(subject.state, "state", most_bytes, seeded);
  }
  Json seeds = Json::array();
  std::map<std::string, TensorMap*> files = {{"inputs", &subject.inputs}, {"state", &subject.state}};
  TensorMap expected;
  Json results = is_compared(subject.kind) ? expected_results(subject, most_bytes, expected) : Json::array();
  make_folder(folder);
  if (!expected.empty()) write_safetensors(path_in(folder, "expected.safetensors"), expected);
  for (const SeededTensor& one : seeded) {
    seeds.push_back(
        {{"file", one.file}, {"name", one.name}, {"seed", one.seed}, {"low", one.low}, {"high", one.high}});
    files.at(one.file)->erase(one.name);
  }
  for (const auto& [file, tensors] : files) {
    if (!tensors->empty()) write_safetensors(path_in(folder, file + ".safetensors"), *tensors);
  }
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    ReproPlugin& plugin = subject.plugins.at(i);
    plugin.copy = fmt::format("plugins/{}.so", plugin.name);
    copy_library(libraries[i], path_in(folder, plugin.copy));
  }
  const Json record = {{"format", kCaseFormat},
                       {"kind", kind_name(subject.kind)},
                       {"model", subject.model},
                       {"subject", subject.subject},
                       {"function", subject.function},
                       {"seed", subject.seed},
                       {"code", subject.code},
                       {"same_code", subject.same_code},
                       {"machine", machine_json()},
                       {"choices", to_json(subject.choices)},
                       {"plugins", plugins_to_json(subject.plugins)},
                       {"seeded", seeds},
                       {"results", results}};
  write_file_atomically(path_in(folder, kModuleFile), ir::print(subject.module));
  for (const auto& [name, text] : subject.texts) write_file_atomically(path_in(folder, name), text);
  const std::string name = std::filesystem::path(folder).lexically_normal().filename().string();
  write_file_atomically(path_in(folder, "README.md"), readme_of(subject, record, name));
  // Written last, so a folder with this record is complete.
  write_file_atomically(path_in(folder, kReproRecord),
                        record.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

ReproOutcome replay_case(const std::string& folder, const std::vector<std::string>& plugin_path, bool trust) {
  LoadedCase loaded = load_case(folder);
  const ReproCase& subject = loaded.subject;
  ReproOutcome outcome;
  outcome.kind = subject.kind;
  outcome.subject = subject.subject;
  note_machine(JsonView(loaded.record, path_in(folder, kReproRecord)), outcome.notes);
  const bool had_code = subject.kind == ReproKind::kernel && subject.same_code;
  if (had_code && !compiles_to(subject.module, subject.code))
    outcome.notes.push_back("it no longer compiles to the code in kernel.tile");
  switch (subject.kind) {
    case ReproKind::kernel:
    case ReproKind::program:
      replay_compared(folder, loaded, outcome);
      break;
    case ReproKind::non_finite:
      outcome.message = non_finite_in(subject.module, subject.function, subject.inputs, subject.state);
      break;
    case ReproKind::refusal:
      outcome.message = replay_refusal(folder, subject, plugin_path, trust, outcome.notes);
      break;
    case ReproKind::compile:
      outcome.message = compile_failure_of(subject.module, subject.function);
      break;
  }
  return outcome;
}

}  // namespace rewire::runtime
