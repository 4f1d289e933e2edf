// The stages of a network's way to machine code as JSON: what `rewire dump --json` prints and the explorer shows
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

/// A module: attributes, parameters, and the ops of its functions with their places.
nlohmann::ordered_json module_json(const ir::Module& module);

/// One kernel launch for each piece of code of a program, in the order of their first launches.
std::vector<const codegen::KernelLaunch*> codes_of(const codegen::Program& program);

/// "name", "buffers" and "launches". `milliseconds`: by launch, or empty.
nlohmann::ordered_json program_json(const codegen::Program& program,
                                    const std::vector<std::optional<double>>& milliseconds = {});

/// Where the temporaries of a program lie, and when they live.
nlohmann::ordered_json memory_json(const MemoryPlan& plan);

/// What each pass over the IR did. It listens to a compilation through the context's on_change, which it takes; it must
/// outlive that.
class PassLog {
 public:
  /// `before`: the module that the first pass gets.
  PassLog(ir::PassContext& context, const ir::Module& before);
  PassLog(const PassLog&) = delete;
  PassLog& operator=(const PassLog&) = delete;
  /// After the compilation: the passes of ir::run_pipeline() that changed the module, in order.
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
