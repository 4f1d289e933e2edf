// What run, grad and step share: the files they read and the engine that they start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/engine.h"
#include "cli/network.h"
#include "ir/module.h"
#include "runtime/exec/choice_record.h"
#include "runtime/exec/engine.h"

namespace rewire::cli {

struct ProgramRequest {
  std::string weights, input;
  EngineRequest engine;
  std::vector<std::string> overrides;
};
/// --weights, --input, --device, --engine and --override-kernel; `input_doc` says what --input holds.
void declare_program(ProgramRequest& request, Options& options, const std::string& input_doc);

/// Before any work: UserError where nothing can be written to `output`, and where it is one of the files that
/// are read. What names no file, such as a model of the zoo, may be among them. `option` asked for it.
void check_output(const std::string& output, const std::vector<std::string>& read,
                  const std::string& option = "--output");
/// MODEL, and the files of declare_program().
std::vector<std::string> files_of(const NetworkRequest& network, const ProgramRequest& program);

/// The engine of a module, holding the weights of the file. `choices`: what was chosen for it.
std::unique_ptr<runtime::Engine> start_engine(const Network& network, const ir::Module& module,
                                              const ProgramRequest& request,
                                              const runtime::ChoiceRecord& choices = {});

}  // namespace rewire::cli
