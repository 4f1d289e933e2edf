// What can be held against the evaluator on any device: the CUDA engine on every op's cases and on random
// programs, fused and one kernel an op, each run twice and to the same bits.
//
//   device_check ops FIRST COUNT         seeds of every op's cases
//   device_check programs FIRST COUNT    seeds of random programs, as jit_fuzz takes them
//   device_check transforms FIRST COUNT  seeds of Fourier transforms by cuFFT, which must be there
//   device_check attention FIRST COUNT   heads of the zoo's sizes by each engine of cuDNN's, where cuDNN is
//   there
//   device_check convolutions FIRST COUNT   the zoo's kinds of convolutions, with gradients, in the same way
//
// It runs where the libraries lead it: on a GPU (scripts/gpu/call.py), or on the fake ones that CTest names.
// Failures are printed with their seed; the exit code is 1.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/library/cufft.h"
#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/lowering.h"
#include "tests/runtime_cuda/transforms.h"
#include "tests/support/accuracy.h"
#include "tests/support/attention_module.h"
#include "tests/support/bf16_tensors.h"
#include "tests/support/host_noise.h"
#include "tests/support/op_cases.h"
#include "tests/support/program_fuzz.h"

using namespace rewire;

namespace {

struct DeviceRun {
  std::vector<ir::Tensor> results;
  std::map<std::string, ir::Tensor, std::less<>> state;
};

DeviceRun run_once(runtime::Engine& engine, const ir::Function& function, const runtime::TensorMap& arguments,
                   const ir::EvalState& state) {
  for (const auto& [name, tensor] : state.tensors) engine.write_state(name, runtime::to_host(tensor));
  const runtime::TensorMap outputs = engine.run(function.name, arguments);
  DeviceRun run;
  for (const ir::Argument& result : function.results)
    run.results.push_back(runtime::to_double(outputs.at(result.name)));
  for (const auto& [name, tensor] : state.tensors)
    run.state.emplace(name, runtime::to_double(engine.read_state(name)));
  return run;
}

bool same_bits(const ir::Tensor& a, const ir::Tensor& b) {
  return std::ranges::equal(runtime::to_host(a).bytes(), runtime::to_host(b).bytes());
}

/// Function "main"; throws if a second run differs from the first in a bit.
DeviceRun run_on_device(const ir::Module& module, const std::vector<ir::Tensor>& inputs,
                        const ir::EvalState& state, bool fuse, const runtime::ChoiceRecord& choices = {}) {
  ir::Module trained = module;
  trained.function("main").trains = state.training;
  runtime::CudaEngineOptions options;
  options.fuse = fuse;
  options.choices = choices;
  options.check_memory = true;
  options.choices = choices;
  const auto engine = runtime::make_cuda_engine(trained, options);
  const ir::Function& function = module.function("main");
  runtime::TensorMap arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    arguments.emplace(function.arguments[i].name, runtime::to_host(inputs[i]));
  DeviceRun first = run_once(*engine, function, arguments, state);
  const DeviceRun second = run_once(*engine, function, arguments, state);
  for (std::size_t i = 0; i < first.results.size(); ++i) {
    if (!same_bits(first.results[i], second.results[i]))
      throw std::runtime_error("two runs differ in result " + std::to_string(i));
  }
  for (const auto& [name, tensor] : first.state) {
    if (!same_bits(tensor, second.state.at(name)))
      throw std::runtime_error("two runs differ in state " + name);
  }
  return first;
}

std::string off(const std::string& what, double error, double limit) {
  return error <= limit ? std::string()
                        : what + " is " + std::to_string(error / limit) + " times its tolerance off; ";
}

/// What is wrong with one case of an op; "": nothing.
std::string check_op(const ir::OpInfo& info, std::uint64_t seed, bool fuse) {
  const testing::OpCase op_case = testing::random_op_case(info.code, seed);
  ir::EvalState state = op_case.state;
  const auto expected = ir::evaluate(op_case.module, op_case.module.function("main"), op_case.inputs, state);
  const DeviceRun run = run_on_device(op_case.module, op_case.inputs, op_case.state, fuse);
  double largest = 0;
  for (const ir::Tensor& tensor : expected) largest = std::max(largest, testing::largest_magnitude(tensor));
  std::string faults;
  const auto check = [&](const std::string& what, const ir::Tensor& wanted, const ir::Tensor& actual,
                         double scale) {
    faults += off(what, testing::scaled_error(wanted, actual, scale),
                  info.tolerance + testing::storage_error(wanted.type.dtype));
  };
  for (std::size_t r = 0; r < expected.size(); ++r)
    check("result " + std::to_string(r), expected[r], run.results[r], largest);
  for (const auto& [name, tensor] : state.tensors) check("state " + name, tensor, run.state.at(name), 0);
  return faults;
}

class Report {
 public:
  void fail(const std::string& what, std::uint64_t seed, const std::string& fault) {
    ++failures_;
    std::printf("%s, seed %llu: %s\n", what.c_str(), static_cast<unsigned long long>(seed), fault.c_str());
  }
  template <class Check>
  void run(const std::string& what, std::uint64_t seed, Check check) {
    ++cases_;
    try {
      if (const std::string fault = check(); !fault.empty()) fail(what, seed, fault);
    } catch (const std::exception& error) {
      fail(what, seed, std::string("threw: ") + error.what());
    }
  }
  int finish(const std::string& device) const {
    std::printf("%d cases on %s, %d failures\n", cases_, device.c_str(), failures_);
    return failures_ == 0 && cases_ > 0 ? 0 : 1;
  }

 private:
  int cases_ = 0, failures_ = 0;
};

void check_ops(Report& report, const testing::FuzzRange& range) {
  for (const ir::OpInfo& info : ir::op_table()) {
    if (!testing::has_op_case(info.code)) continue;
    for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed)
      report.run(std::string(info.name), seed, [&] { return check_op(info, seed, seed % 2 == 0); });
  }
}

void check_programs(Report& report, const testing::FuzzRange& range) {
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    report.run("program", seed, [&]() -> std::string {
      const testing::FuzzCase fuzz = testing::fuzz_case(seed);
      if (fuzz.ill_conditioned) return {};
      for (const bool fuse : {true, false}) {
        const DeviceRun run =
            run_on_device(fuzz.program.module, fuzz.program.inputs, fuzz.program.state, fuse);
        const std::string difference =
            testing::first_difference(fuzz.expected, run.results, testing::kFuzzTolerance);
        if (!difference.empty()) return (fuse ? "fused: " : "one kernel an op: ") + difference;
      }
      return {};
    });
  }
}

/// Lengths on both sides of the longest product, smooth ones, primes and powers of two.
testing::TransformCase transform_case(std::uint64_t seed) {
  constexpr std::int64_t kLengths[] = {1,   2,    7,    96,   125,  192,  384,  509,
                                       768, 1000, 1024, 1025, 1536, 2048, 2310, 3001};
  const ir::PhiloxStream stream{seed, 0, ir::stream_hash("transforms")};
  const auto below = [&](std::uint64_t i, std::size_t count) {
    return static_cast<std::size_t>(stream.bits(i) % count);
  };
  return {1 + static_cast<std::int64_t>(below(0, 12)), kLengths[below(1, std::size(kLengths))],
          below(2, 4) == 0 ? ir::DType::f64 : ir::DType::f32};
}

std::string check_transform(std::uint64_t seed) {
  const testing::TransformCase of = transform_case(seed);
  const ir::Module module = testing::transform_module(of);
  const std::vector<ir::Tensor> inputs = testing::transform_inputs(module, seed);
  ir::EvalState state;
  const auto expected = ir::evaluate(module, module.function("main"), inputs, state);
  const DeviceRun run = run_on_device(module, inputs, state, seed % 4 != 0, testing::all_by_cufft(module));
  std::string faults;
  for (std::size_t r = 0; r < expected.size(); ++r)
    faults +=
        off("length " + std::to_string(of.length) + ", " + module.function("main").results[r].name,
            testing::scaled_error(expected[r], run.results[r], 0), of.dtype == ir::DType::f64 ? 1e-11 : 1e-5);
  return faults;
}

void check_transforms(Report& report, const testing::FuzzRange& range) {
  if (const auto missing = codegen::cufft_missing()) throw UserError(*missing);
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed)
    report.run("transforms", seed, [&] { return check_transform(seed); });
}

codegen::Program lowered(const ir::Module& module, runtime::CudaLibraries& libraries,
                         const std::function<void(const codegen::DeviceAttentionShape&)>& on_attention = {}) {
  const auto target = runtime::target_of(runtime::cuda::device_facts(0));
  return runtime::lower_for_device(module, module.function("main"), {target, /*fuse=*/true, on_attention},
                                   libraries);
}

/// Both passes by the engine of this rank in cuDNN's order; nullopt: neither has so many.
std::optional<runtime::ChoiceRecord> by_engine(const ir::Module& module, std::size_t rank) {
  runtime::CudaLibraries libraries(/*tf32=*/false);
  runtime::ChoiceRecord record;
  bool any = false;
  lowered(module, libraries, [&](const codegen::DeviceAttentionShape& shape) {
    std::vector<std::string> engines;
    try {
      engines = libraries.engines(shape).engines();
    } catch (const codegen::UnsupportedGraph& refusal) {
      std::printf("%s\n", refusal.what());
      return;
    }
    any = any || rank < engines.size();
    record.add({codegen::full_name(shape),
                engines[std::min(rank, engines.size() - 1)],
                std::string(runtime::kByTiming),
                {}});
  });
  return any ? std::optional(record) : std::nullopt;
}

testing::AttentionHeads zoo_heads(std::uint64_t seed) {
  constexpr std::array<std::int64_t, 4> kTokens = {50, 65, 197, 257}, kWidths = {64, 32, 80, 48};
  const std::int64_t tokens = kTokens[seed % 4], batch = static_cast<std::int64_t>(1 + seed % 3);
  return {batch, 3, tokens, tokens, kWidths[seed / 4 % 4]};
}

std::string check_attention(const testing::AttentionHeads& heads, std::uint64_t seed, std::size_t rank,
                            bool& more) {
  const ir::Module module = testing::attention_module(heads, 0.125, ir::DType::bf16);
  const std::optional<runtime::ChoiceRecord> record = by_engine(module, rank);
  more = record.has_value();
  if (!more) return {};
  runtime::CudaLibraries libraries(/*tf32=*/false, *record);
  const codegen::Program program = lowered(module, libraries);
  const auto calls = std::ranges::count_if(program.launches, [&](const codegen::Launch& launch) {
    const auto* call = std::get_if<codegen::OpCall>(&launch);
    return call != nullptr && device_attention(program, *call).has_value();
  });
  if (static_cast<std::size_t>(calls) != record->made().size()) return "cuDNN makes no plan of its engine";
  const std::vector<ir::Tensor> inputs = testing::bf16_arguments(module.function("main"), seed);
  ir::EvalState state;
  const auto expected = ir::evaluate(module, module.function("main"), inputs, state);
  const DeviceRun run = run_on_device(module, inputs, {}, true, *record);
  std::string faults;
  for (std::size_t r = 0; r < expected.size(); ++r)
    faults += off("result " + std::to_string(r), testing::scaled_error(expected[r], run.results[r], 0), 2e-2);
  for (const runtime::MadeChoice& choice : record->made())
    std::printf("%s: %s\n", choice.key.c_str(), choice.taken.c_str());
  return faults;
}

/// Of the zoo's kernels, strides and channels, and groups.
ir::ConvShape zoo_convolution(std::uint64_t seed) {
  struct Kind {
    std::int64_t inputs, outputs, extent, kernel, stride, groups;
  };
  constexpr std::array<Kind, 8> kKinds = {{{64, 64, 8, 3, 1, 1},
                                           {32, 64, 16, 3, 2, 1},
                                           {3, 64, 32, 3, 1, 1},
                                           {64, 128, 8, 1, 2, 1},
                                           {3, 16, 56, 7, 2, 1},
                                           {128, 128, 4, 3, 1, 1},
                                           {24, 24, 9, 3, 1, 24},
                                           {5, 7, 11, 3, 3, 1}}};
  const Kind& kind = kKinds[seed % kKinds.size()];
  const std::int64_t padding = kind.kernel / 2, batch = static_cast<std::int64_t>(1 + seed % 3),
                     out = (kind.extent + 2 * padding - kind.kernel) / kind.stride + 1;
  return {batch,
          kind.inputs,
          kind.outputs,
          kind.groups,
          {kind.extent, kind.extent},
          {out, out},
          {kind.kernel, kind.kernel},
          {kind.stride, kind.stride},
          {padding, padding}};
}

/// y = x * w, and the gradients of sum y^2.
ir::Module convolution_module(const ir::ConvShape& shape) {
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const std::vector<ir::Value> operands = {b.argument("x", {ir::DType::f32, shape.input(false)}),
                                           b.argument("w", {ir::DType::f32, shape.weight()})};
  const ir::Value y = b.emit(ir::Opcode::conv2d, operands,
                             {{"strides", ir::Ints{shape.stride.height, shape.stride.width}},
                              {"padding", ir::Ints{shape.padding.height, shape.padding.width}},
                              {"groups", shape.groups}});
  const std::vector<ir::Value> gradients =
      ir::differentiate(b, b.reshape(b.sum(b.mul(y, y), {0, 1, 2, 3}), {}), operands);
  b.result("y", y);
  b.result("dx", gradients[0]);
  b.result("dw", gradients[1]);
  return module;
}

/// All three products by the engine of this rank; `more`: one of them has so many.
std::string check_convolution(std::uint64_t seed, std::size_t rank, bool& more) {
  const ir::Module module = convolution_module(zoo_convolution(seed));
  runtime::CudaLibraries libraries(/*tf32=*/false);
  const codegen::Program program = lowered(module, libraries);
  runtime::ChoiceRecord record;
  more = false;
  for (const codegen::Launch& launch : program.launches) {
    const auto* call = std::get_if<codegen::OpCall>(&launch);
    const auto shape = call == nullptr ? std::nullopt : device_convolution(program, *call, false);
    if (!shape) continue;
    const std::vector<std::string> engines = libraries.engines(*shape).engines();
    more = more || rank < engines.size();
    record.add({codegen::full_name(*shape),
                engines[std::min(rank, engines.size() - 1)],
                std::string(runtime::kByTiming),
                {}});
  }
  if (!more) return {};
  std::vector<ir::Tensor> inputs;
  const ir::Function& main = module.function("main");
  for (const ir::Argument& argument : main.arguments)
    inputs.push_back(
        runtime::to_double(testing::noise(main.type(argument.value).shape, seed, argument.name.c_str())));
  ir::EvalState state;
  const auto expected = ir::evaluate(module, main, inputs, state);
  const DeviceRun run = run_on_device(module, inputs, {}, true, record);
  std::string faults;
  for (std::size_t r = 0; r < expected.size(); ++r)  // Winograd's transforms round more than a sum does
    faults += off("result " + std::to_string(r), testing::scaled_error(expected[r], run.results[r], 0), 1e-4);
  for (const runtime::MadeChoice& choice : record.made())
    std::printf("%s: %s\n", choice.key.c_str(), choice.taken.c_str());
  return faults;
}

using CheckByRank = std::function<std::string(std::uint64_t seed, std::size_t rank, bool& more)>;

void check_engines(Report& report, const testing::FuzzRange& range, const std::string& what, std::size_t most,
                   const CheckByRank& check) {
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    bool more = true;
    for (std::size_t rank = 0; rank < most && more; ++rank)
      report.run(what + ", engine " + std::to_string(rank), seed, [&] { return check(seed, rank, more); });
  }
}

void check_attentions(Report& report, const testing::FuzzRange& range) {
  check_engines(report, range, "attention", 6, [](std::uint64_t seed, std::size_t rank, bool& more) {
    return check_attention(zoo_heads(seed), seed, rank, more);
  });
}

void check_convolutions(Report& report, const testing::FuzzRange& range) {
  check_engines(report, range, "convolution", 12, check_convolution);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  using Kind = void (*)(Report&, const testing::FuzzRange&);
  const Kind kind = what == "ops"            ? check_ops
                    : what == "programs"     ? check_programs
                    : what == "transforms"   ? check_transforms
                    : what == "attention"    ? check_attentions
                    : what == "convolutions" ? check_convolutions
                                             : nullptr;
  if (kind == nullptr) {
    std::fprintf(stderr,
                 "device_check: ops, programs, transforms, attention or convolutions, then FIRST and COUNT "
                 "of the seeds\n");
    return 2;
  }
  try {
    const testing::FuzzRange range = testing::fuzz_range(argc - 1, argv + 1);
    const runtime::cuda::Context context;  // stays while engines come and go
    const bool by_cudnn = what == "attention" || what == "convolutions";
    if (const auto missing = codegen::cudnn_missing(); missing && by_cudnn) {
      std::printf("%s by cuDNN: not run, %s\n", argv[1], missing->c_str());
      return 0;
    }
    Report report;
    kind(report, range);
    return report.finish(context.facts().name);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_check: %s\n", error.what());
    return 1;
  }
}
