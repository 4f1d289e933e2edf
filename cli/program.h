// What run, grad and step share: the files they read and the engine that they start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/engine.h"
#include "cli/network.h"
#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/measure/given.h"

namespace rewire::cli {

struct ProgramRequest {
  std::string weights, labels;
  std::vector<std::string> inputs;
  EngineRequest engine;
  std::vector<std::string> overrides;
};
/// --weights, --input, --device, --engine and --override-kernel; `input_doc` says what the first --input
/// holds. `weights`: whether --weights must be there.
void declare_program(ProgramRequest& request, Options& options, const std::string& input_doc,
                     Options::Need weights = Options::Need::required);

/// The files of --input, each NAME=FILE or FILE, which is the first of `names`, and that of --labels.
/// UserError where one of the names has no file or two, and where a file is for none of them.
runtime::GivenInputs read_inputs(const ProgramRequest& request, const std::vector<std::string>& names);
/// What the recipe's objective is fed in training, for a batch of 1; and the same by name.
programs::Inputs training_inputs(const runtime::Network& network);
std::vector<std::string> names_of(const programs::Inputs& inputs);
/// The batch of the first of these inputs; with `stack`, also of a stack of batches.
std::int64_t batch_of(const runtime::GivenInputs& given, const programs::Inputs& inputs, bool stack);

/// Before any work: UserError where nothing can be written to `output`, and where it is one of the files that
/// are read, or is there in a folder among them or of any run. What names no file, such as a model of the zoo, may be among them.
/// `option` asked for it.
void check_output(const std::string& output, const std::vector<std::string>& read,
                  const std::string& option = "--output");
/// UserError where two of these options, each with its file or "", have the same file.
void check_different(const std::vector<std::pair<std::string, std::string>>& outputs);
/// Before any work: UserError where the folder is that of a run, or lies in one.
void check_output_folder(const std::string& output);
/// MODEL, and the libraries of --plugin.
std::vector<std::string> files_of(const runtime::NetworkRequest& network);
/// The same, and the files of declare_program().
std::vector<std::string> files_of(const runtime::NetworkRequest& network, const ProgramRequest& program);

/// Weights of the network, as its `module` has them (runtime/network/weights.h, check_origin).
runtime::TensorMap read_weights(const runtime::Network& network, const ir::Module& module,
                                const std::string& file);
/// The engine of a module, holding the weights. `choices`: what was chosen for it.
std::unique_ptr<runtime::Engine> start_engine(const runtime::Network& network, const ir::Module& module,
                                              const ProgramRequest& request,
                                              const runtime::TensorMap& weights,
                                              const runtime::ChoiceRecord& choices = {});

}  // namespace rewire::cli
