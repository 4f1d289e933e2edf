// The stages from a network to machine code as JSON, for `rewire dump --json` and the explorer
// (docs/guide/explore.md has the keys).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"
#include "ir/passes/pass.h"
#include "runtime/exec/memory_plan.h"

namespace rewire::runtime {

/// Returns a module: attributes, parameters, and the ops of its functions with their places.
nlohmann::ordered_json module_json(const ir::Module& module);

/// Returns one kernel launch for each distinct code of a program, in the order of their first launches.
std::vector<const codegen::KernelLaunch*> codes_of(const codegen::Program& program);

/// Returns "name", "buffers" and "launches". `milliseconds` are by launch, or empty.
nlohmann::ordered_json program_json(const codegen::Program& program,
                                    const std::vector<std::optional<double>>& milliseconds = {});

/// Returns the places of a program's temporaries in memory, and their lifetimes.
nlohmann::ordered_json memory_json(const MemoryPlan& plan);

/// Records what each pass over the IR did. It takes the context's on_change to listen to a compilation, and
/// must outlive it.
class PassLog {
 public:
  /// `before` is the module that the first pass gets.
  PassLog(ir::PassContext& context, const ir::Module& before);
  PassLog(const PassLog&) = delete;
  PassLog& operator=(const PassLog&) = delete;
  /// Returns, after the compilation, the passes of ir::run_pipeline() that changed the module, in order.
  nlohmann::ordered_json json() const;

 private:
  struct Change {
    std::string pass, text;
    double seconds;
  };
  std::string before_;
  std::vector<Change> changes_;
};

}  // namespace rewire::runtime
