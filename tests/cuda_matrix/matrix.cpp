// Every kernel of a matrix of models and strategies, the programs of a run, compiled by NVRTC for one
// architecture: none may spill, and what each takes is held against a table.
//
//   cuda_matrix ARCH TABLE          compares; exit 1 with the lines that differ, 77 where there is no NVRTC,
//                                   or one older than ARCH (1 if REWIRE_REQUIRE_NVRTC is set)
//   cuda_matrix ARCH TABLE --write  writes the table anew
//   cuda_matrix ARCH --schedules N  every Nth of the other schedules that kernels of one model may be timed
//                                   with, in f32 and bf16: none may spill
//
// Of architectures that differ from another in one thing alone (sm_86, sm_89 and sm_120 in the shared memory of a block,
// sm_103 in its name), those kernels alone that take the most shared memory.
// A slice (tests/support/slice.h) compiles the kernels that take the most shared memory, and its share of the
// others; every kernel must be in the table.
// A kernel appears once, under the first program that launches it, and once more where it is that of a
// pointer table (.table). The figures are NVRTC's word: another version than the one at their head is held to
// the absence of spills alone.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/nvrtc_workers.h"
#include "codegen/program.h"
#include "ir/error.h"
#include "ir/passes/mixed_precision.h"
#include "ir/passes/pass.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/plugin/plugin.h"
#include "tests/support/slice.h"

using namespace rewire;
namespace cuda = codegen::cuda;

namespace {

constexpr int kSkipped = 77;
constexpr std::size_t kBatch = 24;  // kernels of one compilation
const std::set<int> kSampled = {86, 89, 103, 120};
constexpr std::size_t kLargest = 12;
constexpr std::size_t kSchedules = 6;  // of a kernel, as tile_choices has them
const std::vector<std::string> kStrategies = {"none", "decay", "orthogonal", "augment", "skipless"};

/// Programs of one model: a step in one program and the forward pass, or what else a run may need.
struct Case {
  std::string label, model;
  std::int64_t batch = 0;
  bool narrow = false;  // in bf16
  bool extras = false;  // accumulate, apply and eval; dropout, drop path, SGD, the rarer options
  std::vector<std::string> strategies = kStrategies;
  ir::MixedPrecision precision = {};  // where narrow
  bool epilogues = false;             // all that cuBLASLt may compute with its products
  std::function<void(ir::Selection&)> change = {};
};

void with_gelu_by_tanh(ir::Selection& model) {
  model.set("act_layer", "gelu_tanh");
}

/// Heads of 80 and 257 tokens: the largest blocks of attention.
void with_wide_heads(ir::Selection& model) {
  model.set("dim", 1280).set("heads", 16).set("patch", 14).set("depth", 2);
}

/// Those of batches of 256 and more are what a large GPU is for, in mixed precision.
const std::vector<Case> kCases = {
    {.label = "vit_tiny_28", .model = "vit_tiny_28", .batch = 32},
    {.label = "vit_s_cifar", .model = "vit_s_cifar", .batch = 32},
    {
        .label = "vit_b16_224",
        .model = "vit_b16_224",
        .batch = 32,
    },
    {.label = "vit_s16_224", .model = "vit_s16_224", .batch = 64, .strategies = {"none"}},
    {.label = "vit_tiny_28.extras",
     .model = "vit_tiny_28",
     .batch = 32,
     .extras = true,
     .strategies = {"none", "orthogonal:mode=global,probability=0.5", "decay:learnable=true",
                    "augment:projection=dense"}},
    {.label = "vit_s_cifar.bf16", .model = "vit_s_cifar", .batch = 1024, .narrow = true},
    {.label = "vit_s16_224.bf16", .model = "vit_s16_224", .batch = 256, .narrow = true},
    {.label = "vit_b16_224.bf16", .model = "vit_b16_224", .batch = 256, .narrow = true},
    {.label = "vit_s_cifar.bf16.extras",
     .model = "vit_s_cifar",
     .batch = 1024,
     .narrow = true,
     .extras = true,
     .strategies = {"none", "orthogonal"}},
    {.label = "vit_s_cifar.bf16.stream",
     .model = "vit_s_cifar",
     .batch = 1024,
     .narrow = true,
     .strategies = {"none", "orthogonal"},
     .precision = {.stream = ir::DType::bf16}},
    {.label = "vit_s_cifar.bf16.tanh",
     .model = "vit_s_cifar",
     .batch = 1024,
     .narrow = true,
     .strategies = {"none"},
     .epilogues = true,
     .change = with_gelu_by_tanh},
    {.label = "vit_257x80.bf16",
     .model = "vit_b16_224",
     .batch = 64,
     .narrow = true,
     .strategies = {"none"},
     .change = with_wide_heads}};

struct NamedKernel {
  std::string name, symbol, text;
  cuda::LaunchShape launch;
};

codegen::Program program_of(const Case& of, const std::string& strategy, const std::string& name,
                            const cuda::DeviceTarget& target) {
  ir::Selection model = ir::Selection{of.model};
  if (of.extras) model.set("dropout", 0.1).set("drop_path", 0.1);
  if (of.change) of.change(model);
  ir::Module module = models::build(model, of.batch);
  if (strategy != "none")
    runtime::apply_plugins(module, {runtime::load_plugin(runtime::parse_plugin_spec(strategy), {})}, 0);
  if (of.narrow) ir::mixed_precision(module, module.function("forward"), of.precision);
  if (name != "forward") {
    programs::TrainOptions options;
    options.clip_norm = 1;
    options.objective.set("label_smoothing", 0.1);
    if (of.extras) options.optimizer.name = "sgd", options.accumulate = 2;
    programs::add_step_program(module, options);
    programs::add_eval_program(module);
  }
  std::erase_if(module.functions, [&](const ir::Function& function) { return function.name != name; });
  module.drop_unused_parameters();
  ir::PassContext context;
  codegen::FuseOptions options;
  if (of.epilogues) options.epilogue = [](const codegen::ProductEpilogue&) { return true; };
  return codegen::compile(module, module.functions.front(), cuda::machine(target, options), context).program;
}

class Matrix {
 public:
  explicit Matrix(const cuda::DeviceTarget& target) : target_(target) {
    for (const Case& of : kCases) {
      const std::vector<std::string> programs = of.extras
                                                    ? std::vector<std::string>{"accumulate", "apply", "eval"}
                                                    : std::vector<std::string>{"step", "forward"};
      for (const std::string& strategy : of.strategies) {
        for (const std::string& program : programs) add(of, strategy, program);
      }
    }
  }
  /// The schedules of a step's kernels but for the model's, every `stride`th.
  Matrix(const cuda::DeviceTarget& target, std::size_t stride) : target_(target) {
    std::size_t count = 0;
    for (const bool narrow : {false, true}) {
      const Case of{.label = "", .model = "vit_s_cifar", .batch = 32, .narrow = narrow};
      const codegen::Program program = program_of(of, "none", "step", target_);
      for (const codegen::Launch& launch : program.launches) {
        const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
        if (kernel == nullptr || !known_.insert(cuda::text_key(*kernel)).second) continue;
        const std::vector<cuda::Schedule> schedules = cuda::schedules(kernel->kernel, target_, kSchedules);
        for (std::size_t i = 1; i < schedules.size(); ++i) {
          if (count++ % stride == 0)
            add(*kernel, fmt::format("{}, {}", kernel->kernel.name, cuda::schedule_text(schedules[i])),
                &schedules[i]);
        }
      }
    }
  }
  const std::vector<NamedKernel>& kernels() const { return kernels_; }

 private:
  /// The kernels of a program, as far as they are new.
  void add(const Case& of, const std::string& strategy, const std::string& name) {
    const codegen::Program program = program_of(of, strategy, name, target_);
    for (const codegen::Launch& launch : program.launches) {
      const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
      if (kernel == nullptr || !known_.insert(cuda::text_key(*kernel)).second) continue;
      add(*kernel, fmt::format("{}/{}/{}/{}{}", of.label, strategy, name, kernel->kernel.name,
                               kernel->is_table() ? ".table" : ""));
    }
  }

  void add(const codegen::KernelLaunch& kernel, const std::string& name,
           const cuda::Schedule* schedule = nullptr) {
    const std::string symbol = fmt::format("kernel{}", kernels_.size());
    cuda::KernelSource source = cuda::emit(kernel, symbol, target_, schedule);
    kernels_.push_back({name, symbol, std::move(source.text), source.launch});
  }

  cuda::DeviceTarget target_;
  std::vector<NamedKernel> kernels_;
  std::set<std::string> known_;
};

/// Keeps the kernels that take the most shared memory.
void keep_largest(std::vector<NamedKernel>& kernels, std::size_t count) {
  std::ranges::stable_sort(kernels, std::greater<>(),
                           [](const NamedKernel& kernel) { return kernel.launch.shared_bytes; });
  kernels.resize(std::min(count, kernels.size()));
}

/// Takes those away that are not of this slice, and returns their names.
std::set<std::string> leave_to_others(std::vector<NamedKernel>& kernels, const testing::Slice& slice) {
  std::vector<NamedKernel> largest = kernels, taken;
  keep_largest(largest, kLargest);
  std::set<std::string> symbols, names;
  for (const NamedKernel& kernel : largest) symbols.insert(kernel.symbol);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (slice.takes(i) || symbols.contains(kernels[i].symbol))
      taken.push_back(std::move(kernels[i]));
    else
      names.insert(std::move(kernels[i].name));
  }
  kernels = std::move(taken);
  return names;
}

std::map<std::string, cuda::KernelResources> compile(const std::vector<NamedKernel>& kernels, int arch) {
  std::vector<cuda::CompileJob> jobs;
  for (std::size_t first = 0; first < kernels.size(); first += kBatch) {
    const std::size_t end = std::min(first + kBatch, kernels.size());
    jobs.push_back(
        {fmt::format("{} to {}", kernels[first].name, kernels[end - 1].name), std::string(cuda::prelude())});
    for (std::size_t i = first; i < end; ++i) jobs.back().text += kernels[i].text;
  }
  std::map<std::string, cuda::KernelResources> resources;
  cuda::CompileRequest request;
  request.arch = arch;
  request.processes = runtime::compile_processes();
  request.done = [&](std::size_t job, const cuda::Compiled& answer) {
    if (!answer.accepted) internal_error("NVRTC refuses {}:\n{}", jobs[job].name, answer.log);
    for (cuda::KernelResources& kernel : cuda::resources_of(answer.log))
      resources[kernel.symbol] = std::move(kernel);
  };
  request.warn = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  cuda::compile_all(jobs, request);
  return resources;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Prints what `was` has and `is` lacks.
bool report_missing(const std::vector<std::string>& was, const std::vector<std::string>& is, char sign) {
  const std::set<std::string> known(is.begin(), is.end());
  bool any = false;
  for (const std::string& line : was) {
    if (known.contains(line)) continue;
    std::printf("%c %s\n", sign, line.c_str());
    any = true;
  }
  return any;
}

/// Whether a kernel spills; says so.
bool spills(const NamedKernel& kernel, const cuda::KernelResources& taken) {
  if (taken.spill_bytes > 0) std::printf("%s spills %d bytes\n", kernel.name.c_str(), taken.spill_bytes);
  return taken.spill_bytes > 0;
}

int run_schedules(int arch, std::size_t stride) {
  const std::vector<NamedKernel> kernels = Matrix(cuda::device_target(arch), stride).kernels();
  const auto resources = compile(kernels, arch);
  bool failed = kernels.empty();
  for (const NamedKernel& kernel : kernels) failed = spills(kernel, resources.at(kernel.symbol)) || failed;
  std::printf("%zu schedules\n", kernels.size());
  return failed ? 1 : 0;
}

int run(int arch, const std::string& path, bool write) {
  std::vector<NamedKernel> kernels = Matrix(cuda::device_target(arch)).kernels();
  if (kSampled.contains(arch)) keep_largest(kernels, kLargest);
  std::set<std::string> elsewhere;
  if (!write) elsewhere = leave_to_others(kernels, testing::slice());
  const auto resources = compile(kernels, arch);
  std::vector<std::string> table = {fmt::format(
      "# sm_{}, NVRTC {}: threads of a block, its dynamic shared memory in bytes, registers of a thread",
      arch, cuda::nvrtc_version())};
  bool failed = false;
  for (const NamedKernel& kernel : kernels) {
    const cuda::KernelResources& taken = resources.at(kernel.symbol);
    failed = spills(kernel, taken) || failed;
    table.push_back(fmt::format("{} {} {} {}", kernel.name, kernel.launch.threads,
                                kernel.launch.shared_bytes + taken.shared_bytes, taken.registers));
  }
  std::printf("%zu kernels, %zu left to other slices\n", kernels.size(), elsewhere.size());
  if (write) {
    std::ofstream file(path);
    for (const std::string& line : table) file << line << '\n';
    return failed ? 1 : 0;
  }
  std::vector<std::string> before = lines_of(path);
  if (before.empty() || before[0] != table[0]) {
    std::printf("%s was written by another NVRTC: its figures are not compared\n", path.c_str());
    return failed ? 1 : 0;
  }
  std::erase_if(before,
                [&](const std::string& line) { return elsewhere.erase(line.substr(0, line.find(' '))) > 0; });
  table.insert(table.end(), elsewhere.begin(), elsewhere.end());  // of which the table knows nothing
  const bool gone = report_missing(before, table, '-'), fresh = report_missing(table, before, '+');
  if (gone || fresh)
    std::printf("what kernels take has changed; if that is meant: cuda_matrix %d %s --write\n", arch,
                path.c_str());
  return failed || gone || fresh ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "cuda_matrix ARCH TABLE [--write], cuda_matrix ARCH --schedules N\n");
    return 2;
  }
  try {
    if (const auto missing = cuda::nvrtc_lacks(std::stoi(argv[1]))) {
      const bool required = std::getenv("REWIRE_REQUIRE_NVRTC") != nullptr;
      std::printf("%s: %s\n", required ? "REWIRE_REQUIRE_NVRTC is set" : "skipped", missing->c_str());
      return required ? 1 : kSkipped;
    }
    if (argc == 4 && std::string(argv[2]) == "--schedules")
      return run_schedules(std::stoi(argv[1]), std::stoul(argv[3]));
    return run(std::stoi(argv[1]), argv[2], argc > 3 && std::string(argv[3]) == "--write");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_matrix: %s\n", error.what());
    return 1;
  }
}
