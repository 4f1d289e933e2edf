#include "runtime/explore/explore.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "codegen/cost.h"
#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/files/digest.h"
#include "codegen/llvm/jit.h"
#include "runtime/device/thread_pool.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json formula_json(const Formula& formula) {
  return {{"name", formula.name}, {"text", formula.text}, {"mathml", formula.mathml}};
}

Json plugins_json(const ExplorerSubject& subject) {
  Json list = Json::array();
  for (const PluginHandle& plugin : subject.plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    Json values = Json::object(), notation = Json::array();
    for (const auto& [key, value] : plugin_values(*plugin)) values[key] = value;
    if (subject.notation)
      for (const Formula& formula : subject.notation(*plugin)) notation.push_back(formula_json(formula));
    list.push_back({{"name", info.name},
                    {"version", info.version},
                    {"doc", info.doc},
                    {"values", std::move(values)},
                    {"notation", std::move(notation)}});
  }
  return list;
}

Json joins_json(const ExplorerSubject& subject) {
  std::vector<std::string> names;
  for (const PluginHandle& plugin : subject.plugins) names.push_back(plugin_info(*plugin).name);
  Json list = Json::array();
  for (const JoinFormulas& join : join_formulas(subject.original, subject.rewritten, names)) {
    Json formulas = Json::array(), symbols = Json::array();
    for (const Formula& formula : join.formulas) formulas.push_back(formula_json(formula));
    for (const FormulaSymbol& symbol : join.symbols)
      symbols.push_back({{"name", symbol.name}, {"meaning", symbol.meaning}});
    list.push_back({{"at", join.at},
                    {"block", join.block},
                    {"site", join.site},
                    {"rewritten", join.rewritten},
                    {"plain", formula_json(join.plain)},
                    {"formulas", std::move(formulas)},
                    {"symbols", std::move(symbols)}});
  }
  return list;
}

/// Returns the GPU's launches by the kernel's name.
std::map<std::string, const codegen::KernelLaunch*> launches_by_name(const codegen::Program& program) {
  std::map<std::string, const codegen::KernelLaunch*> launches;
  for (const codegen::Launch& launch : program.launches) {
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch))
      launches.emplace(kernel->kernel.name, kernel);
  }
  return launches;
}

/// Returns what a kernel computes, with the numbers of its values: its tile IR from the first value
/// on, without the cut into axes.
std::string computation_of(const codegen::tile::Kernel& kernel) {
  const std::string text = codegen::tile::print(kernel);
  std::string kept;
  int depth = 0;
  for (const char c : std::string_view(text).substr(std::min(text.find("\nprologue:"), text.size()))) {
    if (c == '[' || c == '(') ++depth;
    if (depth == 0) kept += c;
    if (c == ']' || c == ')') --depth;
  }
  return kept;
}

/// Returns the same text for kernels that share code, whatever their names.
std::string structure_digest(const codegen::tile::Kernel& kernel) {
  constexpr std::size_t kDigits = 16;
  const std::string text = codegen::tile::structure(kernel);
  return codegen::digest_hex(std::as_bytes(std::span(text))).substr(0, kDigits);
}

Json code_json(const codegen::KernelLaunch& launch, const codegen::KernelLaunch* on_gpu,
               const ExplorerSubject& subject) {
  Json code = {{"name", launch.kernel.name},
               {"tile", codegen::tile::print(launch.kernel)},
               {"structure", structure_digest(launch.kernel)}};
  if (subject.machine_code) {
    const codegen::TracedText llvm = codegen::trace_llvm(launch.kernel),
                              assembly = codegen::trace_assembly(launch.kernel);
    code.update({{"llvm", llvm.text},
                 {"llvm_values", llvm.values},
                 {"asm", assembly.text},
                 {"asm_values", assembly.values}});
  }
  if (on_gpu == nullptr || computation_of(launch.kernel) != computation_of(on_gpu->kernel)) return code;
  const codegen::cuda::DeviceTarget target = codegen::cuda::device_target(subject.gpu_arch);
  const std::string cuda = codegen::cuda::emit(*on_gpu, on_gpu->kernel.name, target).text;
  if (subject.ptx)
    code["ptx"] = codegen::cuda::compile_ptx(std::string(codegen::cuda::prelude()) + cuda, target.arch);
  code["cuda"] = cuda;
  return code;
}

Json codes_json(const ExplorerSubject& subject, int threads) {
  const std::vector<const codegen::KernelLaunch*> codes = codes_of(subject.step.program);
  const auto on_gpu = launches_by_name(subject.gpu);
  std::vector<Json> texts(codes.size());
  ThreadPool pool(threads);
  pool.run(static_cast<std::int64_t>(codes.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto gpu = on_gpu.find(codes[at]->kernel.name);
      texts[at] = code_json(*codes[at], gpu == on_gpu.end() ? nullptr : gpu->second, subject);
    }
  });
  return texts;
}

/// Returns the time of each launch, nullopt if it was not timed. Launches of the same
/// code and shapes have their mean.
std::vector<std::optional<double>> milliseconds_of(const codegen::Program& program,
                                                   const std::vector<LaunchTime>& times) {
  if (times.empty()) return {};
  std::map<std::string, double> by_name, by_code;
  for (const LaunchTime& time : times) by_name[time.name] = time.seconds / time.launches * 1e3;
  std::vector<std::optional<double>> milliseconds;
  for (const codegen::Launch& launch : program.launches) {
    const std::string code = codegen::code_key(launch);
    const auto timed = by_name.find(codegen::short_name(launch));  // by the name of the code's first launch
    if (timed != by_name.end()) by_code.try_emplace(code, timed->second);
    const auto known = by_code.find(code);
    milliseconds.push_back(known == by_code.end() ? std::nullopt : std::optional(known->second));
  }
  return milliseconds;
}

}  // namespace

Json explorer_json(const ExplorerSubject& subject, int threads) {
  const codegen::Program& program = subject.step.program;
  Json data = {{"format", 1},
               {"version", REWIRE_VERSION},
               {"model", subject.model},
               {"program", subject.program},
               {"batch", subject.batch},
               {"cpu", codegen::host_cpu_description()},
               {"gpu", subject.gpu_name},
               {"plugins", plugins_json(subject)},
               {"joins", joins_json(subject)},
               {"ir", module_json(subject.original)},
               {"rewritten", module_json(subject.rewritten)},
               {"step", module_json(subject.step.module)},
               {"passes", subject.passes->json()}};
  Json launches = program_json(program, milliseconds_of(program, subject.times));
  data["buffers"] = std::move(launches["buffers"]);
  data["launches"] = std::move(launches["launches"]);
  data["codes"] = codes_json(subject, threads);
  data["memory"] = memory_json(plan_memory(program));
  data["choices"] = Json::object();
  for (const MadeChoice& choice : subject.choices.made()) data["choices"][choice.key] = choice.taken;
  data["ceilings"] = Json();
  if (subject.ceilings) {
    data["ceilings"] = {{"gflops", subject.ceilings->flops_per_second * 1e-9},
                        {"gb_per_s", subject.ceilings->bytes_per_second * 1e-9}};
    if (subject.ceilings->load) data["ceilings"]["load"] = *subject.ceilings->load;
  }
  return data;
}

}  // namespace rewire::runtime
