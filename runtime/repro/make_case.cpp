#include "runtime/repro/make_case.h"

#include <algorithm>
#include <set>
#include <span>

#include "codegen/files/digest.h"
#include "codegen/fuse/kernel_source.h"
#include "codegen/llvm/jit.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "runtime/exec/make_engine.h"
#include "runtime/repro/compare.h"
#include "runtime/repro/cut.h"

namespace rewire::runtime {
namespace {

using codegen::KernelSource;
using codegen::KernelSources;

/// Returns the module whose function returns these values as "0", "1", …, and has no effects.
ir::Module with_results(const ir::Module& module, const std::vector<ir::Value>& values) {
  ir::Module out = module;
  ir::Function& function = out.functions.front();
  std::erase_if(function.body, [](const ir::Op& op) { return op.code == ir::Opcode::update; });
  function.results.clear();
  for (std::size_t i = 0; i < values.size(); ++i) function.results.push_back({std::to_string(i), values[i]});
  return out;
}

/// Runs the function and returns the tensors of some values.
std::map<std::int32_t, HostTensor> values_in_run(const std::string& engine_name, const ir::Module& module,
                                                 const std::set<ir::Value>& wanted, const TensorMap& inputs,
                                                 const TensorMap& state) {
  std::map<std::int32_t, HostTensor> values;
  const ir::Function& function = module.functions.front();
  std::vector<ir::Value> computed;
  for (const ir::Value value : wanted) {
    const auto argument = std::ranges::find(function.arguments, value, &ir::Argument::value);
    if (argument == function.arguments.end()) {
      computed.push_back(value);
    } else {
      values[value.id] = inputs.at(argument->name).clone();
    }
  }
  if (computed.empty()) return values;
  const ir::Module probe = with_results(module, computed);
  const auto engine = make_engine(engine_name, probe);
  for (const ir::Parameter& parameter : probe.parameters)
    engine->write_state(parameter.name, state.at(parameter.name));
  const TensorMap results = engine->run(function.name, inputs);
  for (std::size_t i = 0; i < computed.size(); ++i)
    values[computed[i].id] = results.at(std::to_string(i)).clone();
  return values;
}

ReproCase case_of(const KernelSource& source, const Cut& cut,
                  const std::map<std::int32_t, HostTensor>& values, const TensorMap& state) {
  ReproCase made;
  made.kind = ReproKind::kernel;
  made.subject = source.kernel.name;
  made.module = cut.module;
  made.module.name = "repro";
  made.function = kCutFunction;
  const ir::Function& function = cut.module.functions.front();
  for (std::size_t i = 0; i < cut.inputs.size(); ++i)
    made.inputs[function.arguments[i].name] = values.at(cut.inputs[i].id).clone();
  for (const ir::Parameter& parameter : cut.module.parameters)
    made.state[parameter.name] = state.at(parameter.name).clone();
  return made;
}

void add_code(const codegen::tile::Kernel& kernel, ReproCase& made) {
  made.code = code_digest(kernel);
  made.same_code = compiles_to(made.module, made.code);
  made.texts["kernel.tile"] = codegen::tile::print(kernel);
  made.texts["kernel.ll"] = codegen::trace_llvm(kernel).text;
  made.texts["kernel.s"] = codegen::trace_assembly(kernel).text;
}

}  // namespace

std::string code_digest(const codegen::tile::Kernel& kernel) {
  const std::string text = codegen::tile::structure(kernel);
  return codegen::digest_hex(std::as_bytes(std::span(text)));
}

bool compiles_to(const ir::Module& cut, const std::string& digest) {
  ir::PassContext context;
  const codegen::Compiled compiled = codegen::compile(cut, cut.functions.front(), {}, context);
  return std::ranges::any_of(
      codegen::kernel_sources(compiled.module, {}).kernels,
      [&](const KernelSource& source) { return code_digest(source.kernel) == digest; });
}

ReproCase kernel_case(const codegen::Compiled& compiled, const std::string& kernel, const TensorMap& inputs,
                      const TensorMap& state) {
  const KernelSources sources = codegen::kernel_sources(compiled.module, {});
  const auto found = std::ranges::find_if(sources.kernels,
                                          [&](const KernelSource& one) { return one.kernel.name == kernel; });
  if (found == sources.kernels.end()) {
    std::vector<std::string> names;
    for (const KernelSource& one : sources.kernels) names.push_back(one.kernel.name);
    user_error("there is no kernel '{}'{}; `rewire dump MODEL --stage fused` lists them", kernel,
               did_you_mean(kernel, names));
  }
  const Cut cut = cut_ops(sources.prepared, found->ops);
  const auto values = values_in_run(engine_names().front(), sources.prepared,
                                    {cut.inputs.begin(), cut.inputs.end()}, inputs, state);
  ReproCase made = case_of(*found, cut, values, state);
  add_code(found->kernel, made);
  return made;
}

std::optional<ReproCase> wrong_kernel(const codegen::Compiled& compiled, const TensorMap& inputs,
                                      const TensorMap& state) {
  const KernelSources sources = codegen::kernel_sources(compiled.module, {});
  std::vector<Cut> cuts;
  std::set<ir::Value> wanted;
  for (const KernelSource& source : sources.kernels) {
    cuts.push_back(cut_ops(sources.prepared, source.ops));
    wanted.insert(cuts.back().inputs.begin(), cuts.back().inputs.end());
  }
  const auto values = values_in_run("evaluator", sources.prepared, wanted, inputs, state);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    ReproCase made = case_of(sources.kernels[i], cuts[i], values, state);
    const TensorMap expected = evaluated(made.module, made.function, made.inputs, made.state);
    const std::vector<ReproRow> rows =
        compare_runs(made.module, made.function, made.inputs, made.state, expected);
    if (std::ranges::all_of(rows, &ReproRow::passed)) continue;
    add_code(sources.kernels[i].kernel, made);
    return made;
  }
  return std::nullopt;
}

}  // namespace rewire::runtime
