// A folder that reproduces one kernel, or one failure, alone (docs/guide/repro.md):
//
//   README.md              what it is, of which machine and versions, and the command that runs it again
//   repro.json             the same for `rewire repro FOLDER`
//   module.rir             the ops
//   inputs.safetensors     what the function is given; a large tensor is made from a seed in its place
//   state.safetensors      the parameters that it reads
//   expected.safetensors   what the evaluator computes of them; large ones are evaluated again
//   kernel.tile, …         the text of a kernel at each stage
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/io/host_tensor.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// What a folder shows.
///   kernel, program: the engine against the evaluator, result by result
///   non_finite: a program whose results are not finite
///   refusal: plugins that a network is rewritten by in vain
///   compile: a program that cannot be compiled
enum class ReproKind : std::uint8_t { kernel, program, non_finite, refusal, compile };

/// A plugin as a folder names it; the library itself is not in there unless it was asked for.
struct ReproPlugin {
  std::string name, version, sha256;
  std::vector<std::pair<std::string, std::string>> values;
  std::string copy = {};  // "plugins/gain.so" in the folder, or ""
};

struct ReproCase {
  ReproKind kind = ReproKind::kernel;
  std::string model;    // as the command line had it
  std::string subject;  // the kernel's name, or the message of the failure
  ir::Module module;
  std::string function;
  TensorMap inputs, state;
  std::uint64_t seed = 0;
  std::string code;       // of a kernel: code_digest()
  bool same_code = true;  // of a kernel: what is cut out becomes the same code
  ChoiceRecord choices;
  std::vector<ReproPlugin> plugins;
  std::map<std::string, std::string> texts;  // further files
};

/// The one command that runs a folder again. `copied`: with the plugins' libraries in it.
std::string replay_command(const ReproCase& subject, const std::string& folder, bool copied);

/// Before any work: UserError where something other than an empty folder stands there.
void require_free(const std::string& folder);
/// The folder must not be there, or be empty. Tensors of more than `most_bytes` are made from a seed, as uniform numbers
/// between the least and the largest of theirs. `libraries`: of the plugins to be copied, by their places. UserError where
/// it cannot be written.
void write_case(const std::string& folder, ReproCase subject, std::int64_t most_bytes,
                const std::vector<std::string>& libraries = {});

/// A result of both, or a parameter after the run.
struct ReproRow {
  std::string name;
  std::int64_t elements = 0;
  double error = 0, allowed = 0;                    // relative, in L2
  bool passed() const { return error <= allowed; }  // false for a NaN
};

struct ReproOutcome {
  ReproKind kind = ReproKind::kernel;
  std::string subject;             // as in ReproCase
  std::vector<ReproRow> rows;      // of kernels and programs
  double milliseconds = 0;         // of the fastest of some runs
  std::string message;             // of a failure, now; "": it does not fail
  std::vector<std::string> notes;  // what is not as it was: another processor, another plugin, other code
  /// Whether the folder shows what it shows where all is well.
  bool passed() const;
};

/// Compiles and runs what is in a folder. UserError on what is none, and where a plugin is not found.
ReproOutcome replay_case(const std::string& folder, const std::vector<std::string>& plugin_path, bool trust);
/// Whether something is a folder of this kind.
bool is_case(const std::string& folder);

/// The message of the first rewrite, of those that the plugins do in any epoch, that is refused; "": none is.
std::string refusal_of(const ir::Module& module, const std::vector<PluginHandle>& plugins,
                       std::uint64_t seed);
/// The message of compiling a function for the CPU; "": it compiles.
std::string compile_failure_of(const ir::Module& module, const std::string& function);
/// What first_non_finite() says of a run; "": all is finite. `state`: of every parameter.
std::string non_finite_in(const ir::Module& module, const std::string& function, const TensorMap& inputs,
                          const TensorMap& state);

}  // namespace rewire::runtime
