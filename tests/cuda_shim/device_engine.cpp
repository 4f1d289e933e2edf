// Functions are compiled at their first run; state lives on the host between runs.
#include "tests/cuda_shim/device_engine.h"

#include <algorithm>
#include <map>

#include "runtime/exec/checks.h"
#include "tests/cuda_shim/run_program.h"
#include "tests/support/build_folder.h"

namespace rewire::cuda_shim {
namespace {

using runtime::HostTensor;
using runtime::TensorMap;

class DeviceEngine final : public runtime::Engine {
 public:
  DeviceEngine(const ir::Module& module, HostCompiler& compiler, const DeviceEngineOptions& options)
      : module_(module), compiler_(compiler), options_(options), device_(options.launch) {
    for (const ir::Parameter& parameter : module_.parameters)
      state_.emplace(parameter.name, HostTensor(parameter.type));
  }

  void write_state(std::string_view name, const HostTensor& value) override {
    const ir::Parameter& parameter = runtime::checked_parameter(module_, name);
    runtime::check_state_type(parameter, value);
    state_.at(parameter.name) = value.clone();
  }

  HostTensor read_state(std::string_view name) const override {
    return state_.at(runtime::checked_parameter(module_, name).name).clone();
  }

  void prepare(std::string_view function) override { program(runtime::checked_function(module_, function)); }

  TensorMap run(std::string_view function_name, const TensorMap& inputs) override {
    const ir::Function& function = runtime::checked_function(module_, function_name);
    runtime::bind_inputs(function, inputs);
    return program(function).run(device_, compiler_, inputs, state_);
  }

 private:
  const DeviceProgram& program(const ir::Function& function) {
    const auto known = programs_.find(function.name);
    if (known != programs_.end()) return known->second;
    DeviceProgram fresh(module_, function.name, options_.fuse, options_.target);
    compiler_.add(fresh.kernels());
    return programs_.emplace(function.name, std::move(fresh)).first->second;
  }

  const ir::Module module_;
  HostCompiler& compiler_;
  const DeviceEngineOptions options_;
  FakeDevice device_;
  TensorMap state_;
  std::map<std::string, DeviceProgram, std::less<>> programs_;
};

}  // namespace

std::filesystem::path kernel_folder() {
  return testing::build_folder() / REWIRE_SHIM_FOLDER;
}

std::unique_ptr<runtime::Engine> make_device_engine(const ir::Module& module, HostCompiler& compiler,
                                                    const DeviceEngineOptions& options) {
  return std::make_unique<DeviceEngine>(module, compiler, options);
}

}  // namespace rewire::cuda_shim
