#include "runtime/exec/cuda/device_trial.h"

#include <map>
#include <memory>

#include "ir/passes/mixed_precision.h"
#include "runtime/exec/cuda/device_timing.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/lowering.h"
#include "runtime/exec/cuda/program.h"

namespace rewire::runtime {
namespace {

using cuda::Address;

constexpr const char* kTrialPurpose = "to time a trial";

class DeviceTrial {
 public:
  DeviceTrial(const ir::Module& module, const ChoiceRecord& choices, const CompileOptions& compiling)
      : target_(target_of(context_.facts(), choices)),
        kernels_(target_, compiling, choices),
        libraries_(ir::allows_tf32(module), choices),
        program_(lower_for_device(module, module.function("trial"), {target_}, libraries_), kernels_,
                 libraries_, stream_, /*gap=*/0),
        arena_(program_.arena_bytes(), "the arena of a trial"),
        timer_(stream_, kTrialPurpose, 1) {
    stream_.fill(arena_.address(), 0, arena_.bytes(), kTrialPurpose);
    for (const ir::Parameter& parameter : module.parameters) {
      const auto [place, fresh] =
          state_.try_emplace(parameter.name, parameter.type.bytes(), "a trial's weight");
      if (fresh) fill(place->second.address(), parameter.type);
      parameters_.emplace(parameter.name, parameter.type);
    }
    const PackedBuffers& arguments = program_.arguments();
    for (std::size_t i = 0; i < arguments.buffers.size(); ++i)
      fill(program_.argument_memory() + static_cast<Address>(arguments.offsets[i]),
           arguments.buffers[i]->type);
    shared_ = {arena_.address(),
               [this](const std::string& parameter) { return state_.at(parameter).address(); }};
    program_.prepare(shared_, stream_);
    stream_.synchronise(kTrialPurpose);
    program_.failure().rethrow();
  }

  double time() {
    context_.enter();
    const double seconds = timer_.time(0, [this] { program_.enqueue(shared_, stream_); });
    program_.failure().rethrow();
    return seconds;
  }

  bool repeats() {
    context_.enter();
    const WrittenMemory results[] = {{program_.result_memory(), program_.results().bytes}};
    const bool same = timer_.repeats(
        [this] {
          for (const auto& [name, memory] : state_) fill(memory.address(), parameters_.at(name));
          program_.enqueue(shared_, stream_);
        },
        results);
    program_.failure().rethrow();
    return same;
  }

 private:
  /// Fills integers with 0, a valid index into any tensor.
  void fill(Address address, const ir::TensorType& type) const {
    fill_at_random(stream_, address, type.bytes(), type.dtype, kTrialPurpose);
  }

  const cuda::Context context_;
  const codegen::cuda::DeviceTarget target_;
  const cuda::Stream stream_;
  CudaKernels kernels_;
  CudaLibraries libraries_;
  CudaProgram program_;
  std::map<std::string, cuda::DeviceMemory> state_;
  std::map<std::string, ir::TensorType> parameters_;  // of state_
  const cuda::DeviceMemory arena_;
  SharedMemory shared_;
  GraphTimer timer_;
};

}  // namespace

Trial make_device_trial(const ir::Module& module, const ChoiceRecord& choices,
                        const CompileOptions& compiling) {
  const auto trial = std::make_shared<DeviceTrial>(module, choices, compiling);
  return {[trial] { return trial->time(); }, [trial] { return trial->repeats(); }};
}

}  // namespace rewire::runtime
