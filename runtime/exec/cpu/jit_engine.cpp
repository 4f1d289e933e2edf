// The engine that compiles. Once per function: pipeline, fusion, JIT and memory plan. Each run then executes
// waves of tasks on the thread pool.
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <span>

#include "codegen/cost.h"
#include "codegen/llvm/jit.h"
#include "codegen/program.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/passes/pass.h"
#include "runtime/device/process.h"
#include "runtime/device/thread_pool.h"
#include "runtime/exec/buffers.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/cpu/launches.h"
#include "runtime/exec/cpu/peak.h"
#include "runtime/exec/cpu/product_choices.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/launch_times.h"
#include "runtime/exec/memory_plan.h"
#include "runtime/exec/tune/tune_keys.h"

namespace rewire::runtime {
namespace {

using codegen::BufferKind;
using codegen::Program;

// Rough rates of one thread, used only to order the tasks of a wave.
constexpr double kFlopsPerSecond = 1e11, kBytesPerSecond = 1e10;

// Raw bytes, 64-byte aligned.
HostTensor make_bytes(std::int64_t count) {
  return HostTensor({ir::DType::u8, {std::max<std::int64_t>(count, 64)}});
}

struct Task {
  const CpuLaunch* launch;
  std::int64_t index;
};

/// All threads wait between two phases.
using Phases = std::vector<std::vector<Task>>;

/// Adds the launch's tasks from `task` on to the phases.
void add_phases(const CpuLaunch& launch, std::int64_t task, Phases& phases) {
  std::vector<std::int64_t> ends = launch.barriers();
  ends.push_back(launch.tasks());
  for (std::size_t i = 0, phase = 0; i < ends.size(); ++i) {
    if (task == ends[i]) continue;
    if (phase == phases.size()) phases.emplace_back();
    for (; task < ends[i]; ++task) phases[phase].push_back({&launch, task});
    ++phase;
  }
}

/// Where the shared memory of a launch is. If `kept`, its tasks before `first_task` run once for all runs.
struct SharedMemory {
  std::int64_t offset = 0, first_task = 0;
  bool kept = false;
};

struct CompiledProgram {
  Program program;
  MemoryPlan plan;
  std::vector<std::unique_ptr<CpuLaunch>> launches;
  std::vector<SharedMemory> shared_memory;  // by launch
  std::vector<Task> packing;                // tasks that run once, and again after the state is written
  Phases phases;                            // of all waves
  std::vector<HostTensor> constants;        // by position among the constant buffers
  HostTensor kept;
  bool packed = false;
  std::int64_t scratch_bytes = 0, shared_bytes = 0, kept_bytes = 0;
};

bool writes_state(const ir::Module& module) {
  return std::ranges::any_of(module.functions, [](const ir::Function& function) {
    return std::ranges::any_of(function.body, [](const ir::Op& op) { return op.code == ir::Opcode::update; });
  });
}

class CpuEngine final : public JitEngine {
 public:
  CpuEngine(const ir::Module& module, const JitEngineOptions& options)
      : module_(module),
        options_(options),
        fixed_state_(!writes_state(module)),
        threads_(options.threads > 0 ? options.threads : usable_cores()),
        jit_({options.cache_directory, threads_, "", options.optimise}),
        pool_(threads_) {
    for (const ir::Parameter& parameter : module_.parameters) {
      if (!options_.others.is_absent(parameter.name))
        state_.emplace(parameter.name, HostTensor(parameter.type));
    }
  }

  void write_state(std::string_view name, const HostTensor& value) override {
    const ir::Parameter& parameter = checked_parameter(module_, name);
    check_state_type(parameter, value);
    std::ranges::copy(value.bytes(), state_.at(parameter.name).bytes().begin());
    for (auto& [function, program] : programs_) program.packed = false;
  }

  HostTensor read_state(std::string_view name) const override {
    return state_.at(checked_parameter(module_, name).name).clone();
  }

  std::span<std::byte> state_memory(std::string_view name) override {
    const ir::Parameter& parameter = checked_parameter(module_, name);
    if (fixed_state_) return {};  // what is packed of it would not change
    return state_.at(parameter.name).bytes();
  }

  void prepare(std::string_view function) override { compiled(checked_function(module_, function)); }

  std::unique_ptr<Engine> alike(const ir::Module& module) const override {
    return make_jit_engine(module, options_);
  }

  TensorMap run(std::string_view function_name, const TensorMap& inputs) override {
    const ir::Function& function = checked_function(module_, function_name);
    const std::vector<const HostTensor*> arguments = bind_inputs(function, inputs);
    CompiledProgram& compiled_program = compiled(function);
    TensorMap outputs = make_outputs(function);
    execute(compiled_program, locate(compiled_program, function, arguments, outputs));
    return outputs;
  }

  std::vector<LaunchTime> profile(std::string_view function_name, const TensorMap& inputs,
                                  int runs) override {
    const ir::Function& function = checked_function(module_, function_name);
    const std::vector<const HostTensor*> arguments = bind_inputs(function, inputs);
    CompiledProgram& compiled_program = compiled(function);
    TensorMap outputs = make_outputs(function);
    const BufferPointers pointers = locate(compiled_program, function, arguments, outputs);
    std::vector<double> best(compiled_program.launches.size(), std::numeric_limits<double>::infinity());
    for (int run = 0; run < runs; ++run) time_launches(compiled_program, pointers, best);
    return launch_times(compiled_program.program, best);
  }

  codegen::Compiled lower(std::string_view function, ir::PassContext& context) override {
    context.left_out = options_.left_out;
    codegen::Target target{{.fuse = options_.fuse, .tables = options_.tables}};
    tune(target.fuse.grain, options_.choices);
    codegen::Compiled compiled =
        codegen::compile(module_, checked_function(module_, function), target, context);
    drop_updates_of_others(compiled.program, options_.others);
    return compiled;
  }

  KernelText kernel_text(const codegen::KernelLaunch& launch) override {
    return {codegen::tile::structure(launch.kernel), codegen::emit_llvm(launch.kernel)};
  }

  double peak_flops_per_second() override { return multiply_add_peak(jit_.product(), pool_); }

  EngineReport report() const override {
    EngineReport report = report_;
    report.arena_bytes = static_cast<std::int64_t>(arena_.bytes().size());
    for (const auto& [name, tensor] : state_) report.state_bytes += tensor.type().bytes();
    for (const auto& [function, program] : programs_) report.packed_bytes += program.kept_bytes;
    return report;
  }

 private:
  CompiledProgram& compiled(const ir::Function& function) {
    auto it = programs_.find(function.name);
    if (it == programs_.end()) it = programs_.emplace(function.name, compile(function)).first;
    return it->second;
  }

  CompiledProgram compile(const ir::Function& function) {
    const auto start = std::chrono::steady_clock::now();
    CompiledProgram result;
    ir::PassContext context;
    result.program = lower(function.name, context).program;
    for (const codegen::Buffer& buffer : result.program.buffers)
      if (buffer.kind == BufferKind::state) state_.try_emplace(buffer.name, buffer.type);
    std::vector<codegen::tile::Kernel> kernels;
    for (const codegen::Launch& launch : result.program.launches) {
      if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) kernels.push_back(kernel->kernel);
    }
    ProductsBy products;
    products.ours = own_products(result.program, options_.choices, codegen::prefers_own_products());
    const bool has_product = std::ranges::find(products.ours, true) != products.ours.end();
    const auto functions = jit_.compile(kernels, has_product);
    result.plan = plan_memory(result.program, options_.check_memory ? kGap : 0, Decompositions::together);
    if (has_product) products.code = &jit_.product();
    result.launches = make_cpu_launches(result.program, functions, products, fixed_state_);
    keep_packed(result);
    for (const auto& wave : make_waves(result.program, result.plan)) add_wave(result, wave);
    for (const auto& launch : result.launches)
      result.scratch_bytes = std::max(result.scratch_bytes, launch->scratch_bytes());
    fill_constants(result);
    reserve(result);
    const codegen::JitStatistics& statistics = jit_.statistics();
    report_.kernels = statistics.kernels;
    report_.unique_kernels = statistics.unique;
    report_.cache_hits = statistics.cache_hits;
    report_.compile_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  /// Finds launches that pack only fixed buffers. They pack once, into memory of their own.
  void keep_packed(CompiledProgram& compiled) const {
    compiled.shared_memory.resize(compiled.launches.size());
    for (std::size_t i = 0; i < compiled.launches.size(); ++i) {
      const CpuLaunch& launch = *compiled.launches[i];
      const std::vector<std::int32_t> buffers = launch.packs();
      if (buffers.empty() || !std::ranges::all_of(buffers, [&](std::int32_t buffer) {
            return is_fixed(compiled.program, buffer, fixed_state_);
          }))
        continue;
      compiled.shared_memory[i] = {compiled.kept_bytes, launch.barriers().front(), true};
      compiled.kept_bytes += in_lines(launch.shared_bytes());
      for (std::int64_t task = 0; task < compiled.shared_memory[i].first_task; ++task)
        compiled.packing.push_back({&launch, task});
    }
  }

  /// Adds a wave's tasks, the longest first, so that no long task starts last.
  static void add_wave(CompiledProgram& compiled, const std::vector<int>& wave) {
    Phases phases;
    std::map<const CpuLaunch*, double> seconds;  // of one task
    std::int64_t shared = 0;
    for (int index : wave) {
      const auto at = static_cast<std::size_t>(index);
      const CpuLaunch& launch = *compiled.launches[at];
      SharedMemory& shared_memory = compiled.shared_memory[at];
      add_phases(launch, shared_memory.first_task, phases);
      if (!shared_memory.kept) {
        shared_memory.offset = shared;
        shared += launch.shared_bytes();
      }
      const codegen::LaunchCost cost = codegen::cost_of(compiled.program, compiled.program.launches[at]);
      seconds[&launch] = std::max(static_cast<double>(cost.flops) / kFlopsPerSecond,
                                  static_cast<double>(cost.bytes) / kBytesPerSecond) /
                         static_cast<double>(std::max<std::int64_t>(launch.tasks(), 1));
    }
    compiled.shared_bytes = std::max(compiled.shared_bytes, shared);
    for (std::vector<Task>& tasks : phases) {
      std::ranges::stable_sort(tasks, std::greater<>(),
                               [&](const Task& task) { return seconds.at(task.launch); });
      compiled.phases.push_back(std::move(tasks));
    }
  }

  static TensorMap make_outputs(const ir::Function& function) {
    TensorMap outputs;
    for (const ir::Argument& result : function.results)
      outputs.emplace(result.name, HostTensor(function.type(result.value)));
    return outputs;
  }

  static void fill_constants(CompiledProgram& compiled) {
    for (const codegen::Buffer& buffer : compiled.program.buffers) {
      if (buffer.kind == BufferKind::constant) compiled.constants.push_back(constant_value(buffer));
    }
  }

  void reserve(CompiledProgram& compiled) {
    if (compiled.kept_bytes > 0) compiled.kept = make_bytes(compiled.kept_bytes);
    if (compiled.plan.arena_bytes > static_cast<std::int64_t>(arena_.bytes().size()))
      arena_ = make_bytes(compiled.plan.arena_bytes);
    if (compiled.shared_bytes > static_cast<std::int64_t>(shared_.bytes().size()))
      shared_ = make_bytes(compiled.shared_bytes);
    const std::int64_t scratch = in_lines(compiled.scratch_bytes);
    if (scratch > scratch_stride_ || scratch_.bytes().empty()) {
      scratch_stride_ = std::max<std::int64_t>(scratch, 64);
      scratch_ = make_bytes(scratch_stride_ * threads_);
    }
  }

  BufferPointers locate(CompiledProgram& compiled, const ir::Function& function,
                        const std::vector<const HostTensor*>& arguments, TensorMap& outputs) {
    struct Places {
      CpuEngine& engine;
      CompiledProgram& compiled;
      const ir::Function& function;
      const std::vector<const HostTensor*>& arguments;
      TensorMap& outputs;

      std::byte* argument(std::size_t i) const {  // the program never writes its arguments
        return const_cast<std::byte*>(arguments[i]->bytes().data());
      }
      std::byte* result(std::size_t i) const { return outputs.at(function.results[i].name).bytes().data(); }
      std::byte* constant(std::size_t i) const { return compiled.constants[i].bytes().data(); }
      std::byte* state(const std::string& name) const { return engine.state_.at(name).bytes().data(); }
      std::byte* temporary(std::int64_t offset) const { return engine.arena_.bytes().data() + offset; }
    };
    return places_of<std::byte*>(compiled.program, compiled.plan,
                                 Places{*this, compiled, function, arguments, outputs});
  }

  void execute(CompiledProgram& compiled, const BufferPointers& pointers) {
    if (options_.check_memory) poison(compiled);
    bind(compiled, pointers);
    pack(compiled);
    for (const std::vector<Task>& tasks : compiled.phases) run_tasks(tasks);
    if (options_.check_memory) check_gaps(compiled.program, compiled.plan, arena_.bytes());
  }

  void bind(CompiledProgram& compiled, const BufferPointers& pointers) {
    for (std::size_t i = 0; i < compiled.launches.size(); ++i) {
      compiled.launches[i]->bind(pointers);
      const SharedMemory& shared_memory = compiled.shared_memory[i];
      compiled.launches[i]->lend((shared_memory.kept ? compiled.kept : shared_).bytes().data() +
                                 shared_memory.offset);
    }
  }

  void pack(CompiledProgram& compiled) {
    if (compiled.packed || compiled.packing.empty()) return;
    if (options_.check_memory) std::ranges::fill(compiled.kept.bytes(), std::byte{kPoison});
    run_tasks(compiled.packing);
    compiled.packed = true;
    ++report_.packings;
  }

  void run_tasks(std::span<const Task> tasks) {
    pool_.run(static_cast<std::int64_t>(tasks.size()), 1,
              [&](std::int64_t begin, std::int64_t end, int worker) {
                void* scratch = scratch_.bytes().data() + worker * scratch_stride_;
                for (std::int64_t i = begin; i < end; ++i) {
                  const Task& task = tasks[static_cast<std::size_t>(i)];
                  task.launch->run(task.index, scratch);
                }
              });
  }

  /// Runs the launches one by one; `best` keeps the shortest time of each.
  void time_launches(CompiledProgram& compiled, const BufferPointers& pointers, std::vector<double>& best) {
    bind(compiled, pointers);
    pack(compiled);
    for (std::size_t i = 0; i < compiled.launches.size(); ++i) {
      Phases phases;
      add_phases(*compiled.launches[i], compiled.shared_memory[i].first_task, phases);
      const auto start = std::chrono::steady_clock::now();
      for (const std::vector<Task>& tasks : phases) run_tasks(tasks);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      best[i] = std::min(best[i], taken.count());
    }
  }

  // Fills memory with a pattern that makes reads before the first write visible.
  void poison(const CompiledProgram& compiled) {
    std::ranges::fill(arena_.bytes(), std::byte{kPoison});
    std::ranges::fill(scratch_.bytes(), std::byte{kPoison});
    std::ranges::fill(shared_.bytes(), std::byte{kPoison});
    for (const MemoryGap& gap : gaps_of(compiled.plan, kGap)) {
      std::ranges::fill(
          arena_.bytes().subspan(static_cast<std::size_t>(gap.offset), static_cast<std::size_t>(kGap)),
          std::byte{kGapByte});
    }
  }

  const ir::Module module_;
  const JitEngineOptions options_;
  const bool fixed_state_;  // no program writes it
  const int threads_;
  codegen::CpuJit jit_;
  ThreadPool pool_;
  std::map<std::string, HostTensor, std::less<>> state_;
  std::map<std::string, CompiledProgram, std::less<>> programs_;
  HostTensor arena_, scratch_, shared_;  // shared_: of the launches of one wave
  std::int64_t scratch_stride_ = 0;
  EngineReport report_;
};

}  // namespace

std::unique_ptr<JitEngine> make_jit_engine(const ir::Module& module, const JitEngineOptions& options) {
  return std::make_unique<CpuEngine>(module, options);
}

}  // namespace rewire::runtime
