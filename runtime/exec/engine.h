// Runs the functions of a module on one persistent state. There are three engines: the evaluator (the
// reference: double precision, slow), the JIT for the CPU, and CUDA for an NVIDIA GPU. Callers use this
// interface only; a flag selects the engine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compile.h"
#include "ir/module.h"
#include "ir/passes/left_out.h"
#include "runtime/exec/others_updates.h"
#include "runtime/exec/state_sums.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

class Group;

class Engine {
 public:
  virtual ~Engine() = default;

  /// Write and read state by parameter name. Throw UserError on an unknown name, or on a wrong type (the
  /// message names the tensor and both types).
  virtual void write_state(std::string_view name, const HostTensor& value) = 0;
  virtual HostTensor read_state(std::string_view name) const = 0;
  /// Returns the memory of a state, which the caller may read and change between runs. Empty if the engine has it elsewhere,
  /// or as other numbers.
  virtual std::span<std::byte> state_memory(std::string_view /*name*/) { return {}; }

  /// Returns sums of these f32 states over the group, which the engine's device makes itself; null: the host must make
  /// them. All ranks call it, and get an object or all get null. The engine and the group must outlive it.
  virtual std::unique_ptr<StateSums> sums_over(Group& /*group*/, const std::vector<std::string>& /*states*/) {
    return nullptr;
  }

  /// Runs a function of the module. `inputs` are by argument name, results by result name. Throws UserError
  /// if the type of an input is wrong; the message names both types.
  virtual TensorMap run(std::string_view function, const TensorMap& inputs) = 0;

  /// Identifies a submitted run.
  using Ticket = std::uint64_t;
  /// submit() and results() are the two halves of run(), so that a device need not wait for the host. Runs
  /// happen in the order of submission. When submit returns, the inputs may be changed. Either half may
  /// throw the errors of the run. By default the run happens in submit.
  virtual Ticket submit(std::string_view function, const TensorMap& inputs);
  /// Submits a run with the same inputs as this function's previous run. A device uses the copy in its own
  /// memory, and nothing is copied to it; other engines read `inputs`.
  virtual Ticket submit_again(std::string_view function, const TensorMap& inputs);
  /// True if results() would return at once.
  virtual bool finished(Ticket ticket) const;
  /// Waits for the run and returns its results. Call it once per ticket, in any order. State that is read
  /// before this call already includes all submitted runs.
  virtual TensorMap results(Ticket ticket);

  /// Compiles a function now instead of at its first run. Throws UserError if there is none of this name.
  virtual void prepare(std::string_view function) = 0;

  /// Makes an engine of the same kind, with the same choices, for another module. Programs that compile to
  /// the same code give the same bits in both. Returns null if the engine does not compile (the evaluator).
  virtual std::unique_ptr<Engine> alike(const ir::Module& module) const;

 private:
  Ticket last_ticket_ = 0;
  std::map<Ticket, TensorMap> finished_;
};

/// none: every op is computed in double precision. dtypes: the result of an op is rounded to its dtype, and
/// operands of products are rounded to TF32 if the module allows it.
enum class Rounding : std::uint8_t { none, dtypes };

/// Makes the evaluator of a verified module. `noise`: a seed of random errors of the size of a rounding in
/// every op (ir/rounding_noise.h); 0: none.
std::unique_ptr<Engine> make_evaluator_engine(const ir::Module& module, Rounding rounding = Rounding::none,
                                              std::uint64_t noise = 0);

struct JitEngineOptions {
  int threads = 0;              // 0: usable_cores() (device/process.h)
  std::string cache_directory;  // folder of compiled kernels; "": none
  ChoiceRecord choices = {};    // choices to repeat; the cost model makes all others
  bool fuse = true;             // false: one kernel per op, for the differential tests
  bool optimise = true;         // false: LLVM compiles faster, to slower code; for the same tests
  bool check_memory =
      false;  // fills the arena with NaN before every run, and checks the gaps between buffers after it
  bool tables = true;          // false: a launch for every kernel; for the same tests
  StatesOfOthers others = {};  // as EngineSettings::others
  /// Passes (ir/passes/pass.h) and rewrites of the lowering (codegen/lowering_steps.h) to leave out.
  ir::LeftOut left_out = {};
};

/// The cost of compiling and running so far.
struct EngineReport {
  double compile_seconds = 0;
  int kernels = 0, unique_kernels = 0, cache_hits = 0;
  std::int64_t arena_bytes = 0, state_bytes = 0;
  /// Weights that no program writes are packed for the products that read them, and the packed copies are
  /// kept. The bytes of these copies, and how often a program packed its weights.
  std::int64_t packed_bytes = 0;
  int packings = 0;
  std::int64_t device_bytes = 0;  // the process's peak of device memory
};

/// The resources of a kernel on a GPU: registers per thread, spilled bytes per thread, shared memory per
/// block.
struct KernelUse {
  int registers = 0;
  std::int64_t spill_bytes = 0, shared_bytes = 0;
};

/// The matrix products of a launch that a device's library computes, all of the same shape
/// (codegen/library/device_gemm.h).
struct LaunchProducts {
  std::int64_t calls = 1;  // products per launch, computed one after another
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;  // columns are contiguous, not rows
  bool a_repeats = false, b_repeats = false;        // one matrix for the whole batch
  ir::DType dtype = ir::DType::f32, result = ir::DType::f32;
  bool tf32 = false;
};

/// One launch of a program.
struct LaunchSpan {
  std::size_t at = 0;  // its index in the program's order
  double seconds = 0;  // of its fastest run
  std::int64_t bytes = 0, flops = 0;
  std::string place;  // "blocks.3.attn.qkv"; of a kernel with ops at several places: all of them
};

/// The launches of a program that run the same code on the same shapes.
struct LaunchTime {
  std::string name;  // name of the first launch
  int launches = 0;
  double seconds = 0;                      // sum over all launches of each one's fastest run
  std::int64_t bytes = 0, flops = 0;       // sums over all launches: codegen/cost.h
  std::optional<KernelUse> use;            // if it is a kernel on a GPU
  std::optional<LaunchProducts> products;  // if a GPU's library computes it
  std::vector<LaunchSpan> spans = {};      // each launch, in the program's order
};

/// A kernel's source as an engine compiles it: LLVM IR or CUDA C++. Launches with the same key run the same
/// code.
struct KernelText {
  std::string key, text;
};

class JitEngine : public Engine {
 public:
  virtual EngineReport report() const = 0;
  /// Lowers a function to the program that run() runs, without compiling its kernels. Sets `training` of
  /// the context by the module's attribute.
  virtual codegen::Compiled lower(std::string_view function, ir::PassContext& context) = 0;
  /// Returns the text of a launch of a lowered program.
  virtual KernelText kernel_text(const codegen::KernelLaunch& launch) = 0;
  /// Runs a function `runs` times, each launch alone, on all threads or on the device. Returns the times of
  /// the launches, the longest first. The state changes as in run().
  virtual std::vector<LaunchTime> profile(std::string_view function, const TensorMap& inputs, int runs) = 0;
  /// Measures an upper bound on the operations per second of an f32 matrix product; 0: not known.
  virtual double peak_flops_per_second() { return 0; }
};

/// Makes the JIT engine of a verified module. The engine runs the pass pipeline once per function. All
/// programs share the state and one arena.
std::unique_ptr<JitEngine> make_jit_engine(const ir::Module& module, const JitEngineOptions& options = {});

}  // namespace rewire::runtime
