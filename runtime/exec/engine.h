// Runs the named programs of a module over one persistent state. Three engines: the evaluator (the oracle:
// double precision, slow), the JIT for the CPU, and CUDA for an NVIDIA GPU. Callers see this interface only;
// a flag selects the engine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compile.h"
#include "ir/module.h"
#include "ir/passes/left_out.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

class Engine {
 public:
  virtual ~Engine() = default;

  /// Writes and reads state by parameter name. Throws UserError on an unknown name or another type (names
  /// the tensor and both types).
  virtual void write_state(std::string_view name, const HostTensor& value) = 0;
  virtual HostTensor read_state(std::string_view name) const = 0;

  /// Runs a function of the module. `inputs` are by argument name (throws UserError naming both types if
  /// they differ), results by result name.
  virtual TensorMap run(std::string_view function, const TensorMap& inputs) = 0;

  /// Names a run that was submitted.
  using Ticket = std::uint64_t;
  /// submit() and results() are run() in two halves, so that a device need not wait for its host. Runs
  /// happen in the order of submission; when submit returns, the inputs may change. Errors of the run come
  /// from either half. By default the run happens in submit.
  virtual Ticket submit(std::string_view function, const TensorMap& inputs);
  /// Submits a run with the inputs that this function was given last: a device takes them from its own
  /// memory, and nothing is copied to it.
  virtual Ticket submit_again(std::string_view function, const TensorMap& inputs);
  /// True if results() would return at once.
  virtual bool finished(Ticket ticket) const;
  /// Waits for the run. Call it once per ticket, in any order. State that is read meanwhile includes all
  /// runs submitted so far.
  virtual TensorMap results(Ticket ticket);

  /// Compiles a function now instead of at its first run. Throws UserError if there is none of this name.
  virtual void prepare(std::string_view function) = 0;

  /// Makes an engine for another module that computes as this one does, to the bit for a program that
  /// compiles to the same. Null from an engine that compiles nothing.
  virtual std::unique_ptr<Engine> alike(const ir::Module& module) const;

 private:
  Ticket last_ticket_ = 0;
  std::map<Ticket, TensorMap> finished_;
};

/// none: every op in double precision. dtypes: an op's result is rounded to its dtype, and operands of
/// products to TF32 if the module allows it.
enum class Rounding : std::uint8_t { none, dtypes };

/// Makes the evaluator of a verified module. The module attribute "training" = list of function names joined
/// by '+' (absent: none) decides what is_training answers in each function. `noise`, unless 0: every op has
/// errors of the size of a rounding, drawn from it (ir/rounding_noise.h).
std::unique_ptr<Engine> make_evaluator_engine(const ir::Module& module, Rounding rounding = Rounding::none,
                                              std::uint64_t noise = 0);

struct JitEngineOptions {
  int threads = 0;              // 0: usable_cores() (device/process.h)
  std::string cache_directory;  // folder of compiled kernels; "": none
  ChoiceRecord choices = {};    // the cost model decides what is not in it
  bool fuse = true;             // false: one kernel per op, for the differential tests
  bool optimise = true;         // false: LLVM compiles faster, to slower code, for the same tests
  bool check_memory =
      false;  // fills the arena with NaN before every run and checks the gap after every buffer at its end
  bool tables = true;  // false: a launch for every kernel, for the same tests
  /// Passes (ir/passes/pass.h) and rewrites of the lowering (codegen/lowering_steps.h) to leave out.
  ir::LeftOut left_out = {};
};

/// The cost of compiling and running so far.
struct EngineReport {
  double compile_seconds = 0;
  int kernels = 0, unique_kernels = 0, cache_hits = 0;
  std::int64_t arena_bytes = 0, state_bytes = 0;
  /// Bytes of weights that no program writes, packed per launch for products; and how often a program packed
  /// them.
  std::int64_t packed_bytes = 0;
  int packings = 0;
  std::int64_t device_bytes = 0;  // the most device memory that the process held
};

/// The resources of a kernel on a GPU: registers of a thread, bytes of a thread that spilled, shared memory
/// of a block.
struct KernelUse {
  int registers = 0;
  std::int64_t spill_bytes = 0, shared_bytes = 0;
};

/// The products of a launch that a device's library computes, all of one shape
/// (codegen/library/device_gemm.h).
struct LaunchProducts {
  std::int64_t calls = 1;  // one after the other, in each launch
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;  // their columns are contiguous, not their rows
  bool a_repeats = false, b_repeats = false;        // one matrix for the whole batch
  ir::DType dtype = ir::DType::f32, result = ir::DType::f32;
  bool tf32 = false;
};

/// One launch of a program.
struct LaunchSpan {
  std::size_t at = 0;  // its place in the program's order
  double seconds = 0;  // seconds of its best run
  std::int64_t bytes = 0, flops = 0;
  std::string place;  // "blocks.3.attn.qkv"; all places of a kernel with ops at several
};

/// The launches of a program that run the same code on the same shapes.
struct LaunchTime {
  std::string name;  // name of the first launch
  int launches = 0;
  double seconds = 0;                      // sum over all launches, each at its best run
  std::int64_t bytes = 0, flops = 0;       // sums over all launches: codegen/cost.h
  std::optional<KernelUse> use;            // for a GPU's kernel
  std::optional<LaunchProducts> products;  // for a GPU's library
  std::vector<LaunchSpan> spans = {};      // each launch, in the program's order
};

/// A kernel as an engine compiles it: LLVM IR or CUDA C++. Launches of one key run the same code.
struct KernelText {
  std::string key, text;
};

class JitEngine : public Engine {
 public:
  virtual EngineReport report() const = 0;
  /// Lowers a function to what run() runs, before its kernels are compiled. The module sets `training` of
  /// the context.
  virtual codegen::Compiled lower(std::string_view function, ir::PassContext& context) = 0;
  /// Returns the text of a launch of a lowered program.
  virtual KernelText kernel_text(const codegen::KernelLaunch& launch) = 0;
  /// Runs a function `runs` times, each launch alone on all threads or on the device. Reports them by
  /// descending time. The state advances as in run().
  virtual std::vector<LaunchTime> profile(std::string_view function, const TensorMap& inputs, int runs) = 0;
  /// Measures the operations a second that no f32 product exceeds; 0: not known.
  virtual double peak_flops_per_second() { return 0; }
};

/// Makes the JIT of a verified module. The pass pipeline runs here, once per function. Programs share the
/// state and one arena.
std::unique_ptr<JitEngine> make_jit_engine(const ir::Module& module, const JitEngineOptions& options = {});

}  // namespace rewire::runtime
