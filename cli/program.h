// Shared by run, grad and step: the files they read and the engine that they start.
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
/// Declares --weights, --input, --device, --engine and --override-kernel. `input_doc` describes the first
/// --input. `weights`: whether --weights is required.
void declare_program(ProgramRequest& request, Options& options, const std::string& input_doc,
                     Options::Need weights = Options::Need::required);

/// Reads the files of --input and --labels. An --input is NAME=FILE, or FILE for the first of `names`.
/// Throws UserError if a name has no file or two, or if a file's name is unknown.
runtime::GivenInputs read_inputs(const ProgramRequest& request, const std::vector<std::string>& names);
/// Returns the training inputs of the recipe's objective, for a batch of 1, and their names.
programs::Inputs training_inputs(const runtime::Network& network);
std::vector<std::string> names_of(const programs::Inputs& inputs);
/// Returns the batch of the first of these inputs; with `stack`, also for a stack of batches.
std::int64_t batch_of(const runtime::GivenInputs& given, const programs::Inputs& inputs, bool stack);

/// Checks an output file before any work. Throws UserError if it cannot be written, if it is one of the
/// files in `read`, or if it exists in a folder among them or in any run. `read` may have names that are no
/// files, such as a model of the zoo. `option` is for the message.
void check_output(const std::string& output, const std::vector<std::string>& read,
                  const std::string& option = "--output");
/// Throws UserError if two of these options have the same file. Each pair is an option and its file, or "".
void check_different(const std::vector<std::pair<std::string, std::string>>& outputs);
/// Throws UserError, before any work, if the folder is a run's folder or lies in one.
void check_output_folder(const std::string& output);
/// Returns MODEL and the libraries of --plugin.
std::vector<std::string> files_of(const runtime::NetworkRequest& network);
/// Returns these, and the files of declare_program().
std::vector<std::string> files_of(const runtime::NetworkRequest& network, const ProgramRequest& program);

/// Reads weights of the network for `module` (runtime/network/weights.h, check_origin).
runtime::TensorMap read_weights(const runtime::Network& network, const ir::Module& module,
                                const std::string& file);
/// Starts the engine of a module and gives it the weights. `choices` are the choices made for the module.
std::unique_ptr<runtime::Engine> start_engine(const runtime::Network& network, const ir::Module& module,
                                              const ProgramRequest& request,
                                              const runtime::TensorMap& weights,
                                              const runtime::ChoiceRecord& choices = {});

}  // namespace rewire::cli
