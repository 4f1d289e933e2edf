#include "cli/program.h"

#include <filesystem>

#include "ir/error.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/train/weights.h"

namespace rewire::cli {

void declare_program(ProgramRequest& request, Options& options, const std::string& input_doc) {
  options.text("--weights", request.weights, "safetensors with every weight of the model and no other",
               Options::Need::required);
  options.text("--input", request.input, ".npy: " + input_doc, Options::Need::required);
  declare_engine(request.engine, options);
  declare_overrides(request.overrides, options);
}

void check_output(const std::string& output, const std::vector<std::string>& read,
                  const std::string& option) {
  runtime::require_writable(output);
  for (const std::string& file : read) {
    std::error_code missing;
    if (std::filesystem::equivalent(output, file, missing))
      user_error("{} {} is a file that is read, {}: choose another", option, output, file);
  }
}

std::vector<std::string> files_of(const NetworkRequest& network, const ProgramRequest& program) {
  std::vector<std::string> files = {network.model, program.weights, program.input};
  for (const std::string& given : program.overrides) files.push_back(given.substr(given.find('=') + 1));
  return files;
}

std::unique_ptr<runtime::Engine> start_engine(const Network& network, const ir::Module& module,
                                              const ProgramRequest& request,
                                              const runtime::ChoiceRecord& choices) {
  const runtime::TensorMap weights = runtime::read_weights(module, request.weights);
  std::unique_ptr<runtime::Engine> engine = runtime::make_engine(
      engine_of(request.engine), module, 0, choices, runtime::read_kernel_overrides(request.overrides));
  runtime::start_state(*engine, module, weights, static_cast<std::uint64_t>(network.recipe.seed));
  return engine;
}

}  // namespace rewire::cli
