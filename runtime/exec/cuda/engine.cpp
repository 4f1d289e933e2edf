#include "runtime/exec/cuda/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "codegen/cuda/nvrtc.h"
#include "ir/error.h"
#include "ir/passes/mixed_precision.h"
#include "runtime/device/cuda/machine.h"
#include "runtime/device/log.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/cuda/device_sums.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/cuda/lowering.h"
#include "runtime/exec/cuda/program.h"
#include "runtime/exec/cuda/staging.h"
#include "runtime/exec/launch_times.h"
#include "runtime/exec/tune/tune_keys.h"
#include "runtime/group/agreement.h"

namespace rewire::runtime {
namespace {

using cuda::Address;

/// Every parameter of the module, in one allocation.
class State {
 public:
  State(const ir::Module& module, const StatesOfOthers& others) {
    std::int64_t bytes = 0;
    for (const ir::Parameter& parameter : module.parameters) {
      if (others.is_absent(parameter.name)) continue;
      offsets_.emplace(parameter.name, bytes);
      bytes += device_aligned(parameter.type.bytes());
    }
    memory_ = cuda::DeviceMemory(bytes, "weights and other state");
  }

  Address address(const std::string& parameter) const {
    if (const auto more = more_.find(parameter); more != more_.end()) return more->second.address();
    return memory_.address() + static_cast<Address>(offsets_.find(parameter)->second);
  }
  /// Adds memory for the program's states that have none.
  void add(const codegen::Program& program, const cuda::Stream& stream) {
    for (const codegen::Buffer& buffer : program.buffers) {
      if (buffer.kind != codegen::BufferKind::state || offsets_.contains(buffer.name) ||
          more_.contains(buffer.name))
        continue;
      const auto added =
          more_.emplace(buffer.name, cuda::DeviceMemory(buffer.type.bytes(), "states of others")).first;
      stream.fill(added->second.address(), 0, added->second.bytes(), "of states of others");
    }
  }
  DeviceNumbers numbers(const ir::Parameter& parameter) const {
    return {address(parameter.name), parameter.type.elements()};
  }
  void clear(const cuda::Stream& stream) const {
    stream.fill(memory_.address(), 0, memory_.bytes(), "of the state");
  }
  std::int64_t bytes() const {
    std::int64_t bytes = memory_.bytes();
    for (const auto& [name, memory] : more_) bytes += memory.bytes();
    return bytes;
  }

 private:
  std::map<std::string, std::int64_t, std::less<>> offsets_;
  cuda::DeviceMemory memory_;
  std::map<std::string, cuda::DeviceMemory, std::less<>> more_;  // for kernels that update others' states too
};

/// Joins numbers that are neighbours: between them lie only zeros that align the state.
std::vector<DeviceNumbers> joined(std::vector<DeviceNumbers> parts) {
  std::ranges::sort(parts, {}, &DeviceNumbers::first);
  const auto bytes = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(float)); };
  std::vector<DeviceNumbers> all;
  for (const DeviceNumbers& part : parts) {
    const bool follows =
        !all.empty() &&
        part.first == all.back().first + static_cast<Address>(device_aligned(bytes(all.back().count)));
    if (!follows) {
      all.push_back(part);
      continue;
    }
    const auto gap = static_cast<std::int64_t>(part.first - all.back().first) / bytes(1) - all.back().count;
    all.back().count += gap + part.count;
  }
  return all;
}

/// Returns whether all ranks have NCCL; if not, says so.
bool all_have_nccl(Group& group) {
  const std::optional<std::string> missing = cuda::nccl_missing();
  const std::vector<char> lacks = gathered(group, char{missing.has_value()});
  const auto rank = std::ranges::find(lacks, char{true}) - lacks.begin();
  if (rank == group.size()) return true;
  write_log(LogLevel::warning,
            fmt::format("gradients travel through the hosts, which is slow: rank {} has no NCCL{}", rank,
                        missing ? fmt::format(" ({})", *missing) : ""));
  return false;
}

/// A program with the memory of its runs.
struct Compiled {
  CudaProgram program;
  InputRing inputs;
  ResultSlots results;

  Compiled(codegen::Program lowered, CudaKernels& kernels, CudaLibraries& libraries,
           const cuda::Stream& stream, bool check_memory)
      : program(std::move(lowered), kernels, libraries, stream, check_memory ? kGap : 0),
        inputs(program, check_memory),
        results(program) {}
};

class CudaEngine final : public JitEngine {
 public:
  CudaEngine(const ir::Module& module, const CudaEngineOptions& options)
      : module_(module),
        options_(options),
        context_(options.device),
        target_(target_of(context_.facts(), options.choices)),
        kernels_(target_, options.compiling, options.choices),
        libraries_(ir::allows_tf32(module_), options.choices, options.device),
        state_(module_, options.others) {
    if (!options.overrides.empty()) replace_kernels();
    state_.clear(streams_.compute);
    streams_.compute.synchronise("after clearing the state");
  }

  ~CudaEngine() override {
    try {
      context_.enter();
      streams_.copy.synchronise("at the end");
      streams_.compute.synchronise("at the end");
    } catch (const RuntimeFailure& error) {
      write_log(LogLevel::warning, error.what());
    }
  }
  CudaEngine(const CudaEngine&) = delete;
  CudaEngine& operator=(const CudaEngine&) = delete;

  void write_state(std::string_view name, const HostTensor& value) override {
    const ir::Parameter& parameter = checked_parameter(module_, name);
    check_state_type(parameter, value);
    context_.enter();
    const std::string what = fmt::format("of '{}'", name);
    streams_.compute.copy_in(state_.address(parameter.name), value.bytes().data(), parameter.type.bytes(),
                             what);
    streams_.compute.synchronise(what);
  }

  HostTensor read_state(std::string_view name) const override {
    const ir::Parameter& parameter = checked_parameter(module_, name);
    context_.enter();
    const std::string what = fmt::format("of '{}'", name);
    HostTensor value(parameter.type);
    streams_.compute.copy_out(value.bytes().data(), state_.address(parameter.name), parameter.type.bytes(),
                              what);
    streams_.compute.synchronise(what);
    return value;
  }

  std::unique_ptr<Engine> alike(const ir::Module& module) const override {
    CudaEngineOptions options = options_;
    options.overrides.clear();  // they name kernels of this module
    return make_cuda_engine(module, options);
  }

  std::unique_ptr<StateSums> sums_over(Group& group, const std::vector<std::string>& states) override {
    if (!all_have_nccl(group)) return nullptr;
    context_.enter();
    if (communicator_ == nullptr) communicator_ = make_communicator(group);
    std::vector<DeviceNumbers> numbers;
    for (const std::string& name : states)
      numbers.push_back(state_.numbers(checked_parameter(module_, name)));
    return make_device_sums(joined(std::move(numbers)), *communicator_, group, context_, streams_.compute);
  }

  codegen::Compiled lower(std::string_view function, ir::PassContext& context) override {
    context_.enter();
    codegen::Compiled compiled = compile_for_device(module_, checked_function(module_, function),
                                                    {target_, options_.fuse}, libraries_, context);
    drop_updates_of_others(compiled.program, options_.others);
    return compiled;
  }

  KernelText kernel_text(const codegen::KernelLaunch& launch) override { return kernels_.text(launch); }

  void prepare(std::string_view function) override {
    context_.enter();
    ready(checked_function(module_, function));
  }

  TensorMap run(std::string_view function, const TensorMap& inputs) override {
    return results(submit(function, inputs));
  }

  Ticket submit(std::string_view function_name, const TensorMap& inputs) override {
    const ir::Function& function = checked_function(module_, function_name);
    const std::vector<const HostTensor*> arguments = bind_inputs(function, inputs);
    context_.enter();
    Compiled& compiled = ready(function);
    compiled.inputs.send(arguments, streams_);
    return launch(compiled);
  }

  Ticket submit_again(std::string_view function_name, const TensorMap& inputs) override {
    const auto known = programs_.find(function_name);
    if (known == programs_.end() || !known->second->inputs.sent()) return submit(function_name, inputs);
    context_.enter();
    return launch(ready(checked_function(module_, function_name)));
  }

  bool finished(Ticket ticket) const override {
    context_.enter();
    const Run& run = found(ticket)->second;
    return run.compiled->results.arrived(run.slot);
  }

  TensorMap results(Ticket ticket) override {
    const auto it = found(ticket);
    const Run run = it->second;
    runs_.erase(it);
    context_.enter();
    TensorMap results = run.compiled->results.take(run.slot);
    run.compiled->program.failure().rethrow();
    return results;
  }

  EngineReport report() const override {
    EngineReport report = report_;
    report.arena_bytes = arena_.bytes();
    report.state_bytes = state_.bytes();
    report.device_bytes = cuda::device_memory_peak();
    report.kernels = kernels_.statistics().kernels;
    report.unique_kernels = kernels_.statistics().unique;
    report.cache_hits = kernels_.statistics().cache_hits;
    return report;
  }

  std::vector<LaunchTime> profile(std::string_view function_name, const TensorMap& inputs,
                                  int runs) override {
    const ir::Function& function = checked_function(module_, function_name);
    const std::vector<const HostTensor*> arguments = bind_inputs(function, inputs);
    context_.enter();
    Compiled& compiled = ready(function);
    std::vector<double> best(compiled.program.launches().size(), std::numeric_limits<double>::infinity());
    for (int run = 0; run < runs; ++run) {
      compiled.inputs.send(arguments, streams_);
      compiled.program.time_launches(shared(), streams_.compute, best);
      compiled.program.failure().rethrow();
    }
    std::vector<LaunchLabel> labels;
    for (const auto& launch : compiled.program.launches()) labels.push_back(launch->label());
    return launch_times(compiled.program.program(), best, labels, [this](const codegen::Launch& launch) {
      const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
      return kernel == nullptr ? std::nullopt : std::optional(kernels_.use(*kernel));
    });
  }

 private:
  struct Run {
    Compiled* compiled;
    std::size_t slot;
  };
  using Runs = std::map<Ticket, Run>;

  /// Launches a run on the inputs in the program's argument memory, or on their way there.
  Ticket launch(Compiled& compiled) {
    if (options_.check_memory) poison(compiled.program);
    compiled.program.launch(streams_.compute);
    const std::size_t slot = compiled.results.receive(streams_);
    if (options_.check_memory) check_memory(compiled.program);
    runs_.emplace(++last_run_, Run{&compiled, slot});
    return last_run_;
  }

  Runs::const_iterator found(Ticket ticket) const {
    const auto it = runs_.find(ticket);
    if (it == runs_.end()) internal_error("the results of run {} have already been read", ticket);
    return it;
  }

  /// Returns the program, compiled, with its graph captured over the current memory.
  Compiled& ready(const ir::Function& function) {
    auto known = programs_.find(function.name);
    if (known == programs_.end()) {
      const auto start = std::chrono::steady_clock::now();
      known = programs_
                  .emplace(function.name, std::make_unique<Compiled>(lowered(function), kernels_, libraries_,
                                                                     streams_.compute, options_.check_memory))
                  .first;
      report_.compile_seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    Compiled& compiled = *known->second;
    reserve(compiled.program);
    if (!compiled.program.captured()) compiled.program.capture(shared(), streams_.compute);
    return compiled;
  }

  codegen::Program lowered(const ir::Function& function) {
    ir::PassContext context;
    codegen::Program program = lower(function.name, context).program;
    state_.add(program, streams_.compute);
    return program;
  }

  /// If kernels of two programs share a name, an override is for that of a training
  /// program, as `dump` shows it.
  void replace_kernels() {
    std::vector<codegen::Program> programs;
    for (const bool training : {true, false}) {
      for (const ir::Function& function : module_.functions) {
        if (function.trains == training) programs.push_back(lowered(function));
      }
    }
    std::vector<const codegen::KernelLaunch*> launches;
    for (const codegen::Program& program : programs) {
      for (const codegen::Launch& launch : program.launches) {
        if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) launches.push_back(kernel);
      }
    }
    kernels_.replace(options_.overrides, launches);
  }

  /// Grows the arena if needed. Graphs over the old arena are captured again when they are next run.
  void reserve(const CudaProgram& program) {
    if (program.arena_bytes() <= arena_.bytes()) return;
    streams_.compute.synchronise("before the arena grows");
    for (const auto& [name, other] : programs_) other->program.forget_graph();
    arena_ = {};
    arena_ = cuda::DeviceMemory(program.arena_bytes(),
                                fmt::format("the arena of program '{}'", program.program().name));
    // capture() runs the libraries' calls once before the first run. Their inputs only have to be numbers.
    streams_.compute.fill(arena_.address(), 0, arena_.bytes(), "of the arena");
  }

  SharedMemory shared() const {
    return {arena_.address(), [this](const std::string& parameter) { return state_.address(parameter); }};
  }

  void poison(const CudaProgram& program) const {
    const std::string what = "to check memory";
    streams_.compute.fill(arena_.address(), kPoison, arena_.bytes(), what);
    streams_.compute.fill(program.result_memory(), kPoison, program.results().bytes, what);
    for (const MemoryGap& gap : gaps_of(program.plan(), kGap))
      streams_.compute.fill(arena_.address() + static_cast<Address>(gap.offset), kGapByte, kGap, what);
  }

  void check_memory(const CudaProgram& program) const {
    HostTensor arena({ir::DType::u8, {std::max<std::int64_t>(program.plan().arena_bytes, 1)}});
    streams_.compute.copy_out(arena.bytes().data(), arena_.address(), program.plan().arena_bytes,
                              "to check memory");
    streams_.compute.synchronise("to check memory");
    check_gaps(program.program(), program.plan(), arena.bytes());
  }

  const ir::Module module_;
  const CudaEngineOptions options_;
  cuda::Context context_;
  const codegen::cuda::DeviceTarget target_;
  CudaStreams streams_;
  CudaKernels kernels_;
  CudaLibraries libraries_;
  State state_;
  std::unique_ptr<cuda::Communicator> communicator_;
  cuda::DeviceMemory arena_;
  std::map<std::string, std::unique_ptr<Compiled>, std::less<>> programs_;
  Runs runs_;  // runs whose results have not been read
  Ticket last_run_ = 0;
  EngineReport report_;
};

}  // namespace

codegen::cuda::DeviceTarget target_of(const cuda::DeviceFacts& facts, const ChoiceRecord& choices) {
  return {facts.arch, facts.shared_bytes_per_block, facts.multiprocessors,
          static_cast<int>(tuned(choices, "warps", 0))};
}

std::unique_ptr<JitEngine> make_cuda_engine(const ir::Module& module, const CudaEngineOptions& options) {
  if (const std::string problem = cuda_missing(); !problem.empty()) user_error("--device cuda: {}", problem);
  return std::make_unique<CudaEngine>(module, options);
}

}  // namespace rewire::runtime
