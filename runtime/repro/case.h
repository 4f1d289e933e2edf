// A folder that reproduces one kernel, or one failure, alone (docs/guide/repro.md):
//
//   README.md              its subject, machine and versions, and the command that runs it again
//   repro.json             the same for `rewire repro FOLDER`
//   module.rir             the ops
//   inputs.safetensors     the function's inputs; a seed replaces a large tensor
//   state.safetensors      the parameters that it reads
//   expected.safetensors   the evaluator's results; large ones are evaluated again
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

/// The subject of a folder.
///   kernel, program: the engine against the evaluator, result by result
///   non_finite: a program whose results are not finite
///   refusal: plugins that refuse to rewrite a network
///   compile: a program that cannot be compiled
enum class ReproKind : std::uint8_t { kernel, program, non_finite, refusal, compile };

/// A plugin as a folder names it; the folder has the library itself only if that was asked for.
struct ReproPlugin {
  std::string name, version, sha256;
  std::vector<std::pair<std::string, std::string>> values;
  std::string copy = {};  // "plugins/gain.so" in the folder, or ""
};

struct ReproCase {
  ReproKind kind = ReproKind::kernel;
  std::string model;    // as on the command line
  std::string subject;  // the kernel's name, or the message of the failure
  ir::Module module;
  std::string function;
  TensorMap inputs, state;
  std::uint64_t seed = 0;
  std::string code;       // of a kernel: code_digest()
  bool same_code = true;  // of a kernel: the ops cut out compile to this code
  ChoiceRecord choices;
  std::vector<ReproPlugin> plugins;
  std::map<std::string, std::string> texts;  // further files
};

/// Returns the command that runs a folder again. `copied`: the folder has the plugins' libraries.
std::string replay_command(const ReproCase& subject, const std::string& folder, bool copied);

/// Throws UserError if anything but an empty folder exists there. Call it before any work.
void require_free(const std::string& folder);
/// Writes the folder, which must be missing or empty. A tensor of more than `most_bytes` is replaced by a
/// seed for uniform numbers between its least and largest. `libraries`: the plugins' libraries to be copied,
/// by their places. Throws UserError if the folder cannot be written.
void write_case(const std::string& folder, ReproCase subject, std::int64_t most_bytes,
                const std::vector<std::string>& libraries = {});

/// A result that both give, or a parameter after the run.
struct ReproRow {
  std::string name;
  std::int64_t elements = 0;
  double error = 0, allowed = 0;                    // relative, in L2
  bool passed() const { return error <= allowed; }  // false for a NaN
};

struct ReproOutcome {
  ReproKind kind = ReproKind::kernel;
  std::string subject;             // as in ReproCase
  std::vector<ReproRow> rows;      // for kernels and programs
  double milliseconds = 0;         // the fastest of some runs
  std::string message;             // the message of the failure now; "": it does not fail
  std::vector<std::string> notes;  // differences: another processor, another plugin, other code
  /// Returns true if there is no failure and all rows pass.
  bool passed() const;
};

/// Compiles and runs the content of a folder. Throws UserError if it is no such folder, or a plugin is not
/// found.
ReproOutcome replay_case(const std::string& folder, const std::vector<std::string>& plugin_path, bool trust);
/// Returns true for a folder of this kind.
bool is_case(const std::string& folder);

/// Returns the message of the plugins' first refused rewrite in any epoch; "" if all succeed.
std::string refusal_of(const ir::Module& module, const std::vector<PluginHandle>& plugins,
                       std::uint64_t seed);
/// Returns the message of a failure to compile a function for the CPU; "" if it compiles.
std::string compile_failure_of(const ir::Module& module, const std::string& function);
/// Returns the text of first_non_finite() for a run; "" if all is finite. `state`: of every parameter.
std::string non_finite_in(const ir::Module& module, const std::string& function, const TensorMap& inputs,
                          const TensorMap& state);

}  // namespace rewire::runtime
