#include "runtime/exec/cuda/tune/attention_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "codegen/fuse/attention.h"
#include "ir/opcodes.h"
#include "runtime/device/log.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/cuda/tune/engine_racer.h"

namespace rewire::runtime {
namespace {

using codegen::CudnnAttention;
using codegen::DeviceAttentionShape;
using codegen::Program;
using codegen::View;
using cuda::Address;

constexpr std::size_t kTimedEngines = 2;  // cuDNN's engines that are timed: the first of its heuristic
constexpr const char* kToTimeAttention = "to time attention";

/// The program of one attention, with our kernels. It has buffers of its own, in
/// the order of AttentionMemory.
class AttentionTrial {
 public:
  explicit AttentionTrial(const DeviceAttentionShape& shape, const codegen::WorkGrain& grain) {
    program_.name = "trial";
    const auto heads = [&](const char* name, const DeviceAttentionShape::Tensor& tensor,
                           std::int64_t tokens) {
      return add(name, ir::DType::bf16, shape.elements(tensor, tokens),
                 {shape.batch, shape.heads, tokens, shape.width},
                 {tensor.batch, tensor.head, tensor.token, 1});
    };
    const View q = heads("q", shape.q, shape.queries), k = heads("k", shape.k, shape.keys);
    const View v = heads("v", shape.v, shape.keys), output = heads("output", shape.output, shape.queries);
    const View lse =
        add("lse", ir::DType::f32, shape.batch * shape.heads * shape.queries,
            {shape.batch, shape.heads, shape.queries, 1}, {shape.heads * shape.queries, shape.queries, 1, 1});
    codegen::OpCall call;
    call.op.code = shape.gradient ? ir::Opcode::attention_grad : ir::Opcode::attention;
    call.op.location = "trial";
    call.op.attributes = {{"scale", shape.scale},
                          {"causal", false},
                          {"window", std::int64_t{0}},
                          {"bias", false},
                          {"documents", false}};
    if (shape.gradient) {
      call.operands = {q, k, v, output, lse, heads("d_output", shape.d_output, shape.queries)};
      call.results = {heads("dq", shape.dq, shape.queries), heads("dk", shape.dk, shape.keys),
                      heads("dv", shape.dv, shape.keys)};
    } else {
      call.operands = {q, k, v};
      call.results = {output, lse};
    }
    launches_ = codegen::emit_attention(program_, call, grain);
  }

  const Program& program() const { return program_; }
  const std::vector<codegen::KernelLaunch>& launches() const { return launches_; }

 private:
  View add(const char* name, ir::DType dtype, std::int64_t elements, ir::Shape shape, ir::Shape strides) {
    program_.buffers.push_back({name, codegen::BufferKind::temporary, {dtype, {elements}}, {}});
    return {static_cast<std::int32_t>(program_.buffers.size()) - 1, 0, std::move(shape), std::move(strides)};
  }

  Program program_;
  std::vector<codegen::KernelLaunch> launches_;
};

/// Times candidates on memory of its own by the device's clock. Candidate 0 is our kernels.
class AttentionBench {
 public:
  AttentionBench(const DeviceAttentionShape& shape, const codegen::cuda::DeviceTarget& target,
                 const CompileOptions& compiling, const cuda::Stream& stream)
      : stream_(stream),
        gradient_(shape.gradient),
        trial_(shape, codegen::cuda::work_grain(target)),
        kernels_(target, compiling),
        timer_(stream, kToTimeAttention, 1 + kTimedEngines) {
    for (const codegen::Buffer& buffer : trial_.program().buffers) {
      memory_.emplace_back(buffer.type.bytes(), kToTimeAttention);
      fill_at_random(stream_, memory_.back().address(), memory_.back().bytes(), buffer.type.dtype,
                     kToTimeAttention);
    }
    std::vector<const codegen::KernelLaunch*> list;
    for (const codegen::KernelLaunch& launch : trial_.launches()) list.push_back(&launch);
    ours_ = kernels_.load(list);
  }

  Racer ours() {
    return {0, [this] { return timer_.time(0, [this] { run_ours(); }); },
            [this] { return timer_.repeats([this] { run_ours(); }, written()); }};
  }

  /// Returns nullopt if the engine has no plan. If a cuDNN call fails, the candidate leaves the race
  /// and the failure is logged.
  std::optional<Racer> engine(std::size_t candidate, CudnnAttention attention, const std::string& text) {
    if (!attention.choose(text)) return std::nullopt;
    struct Theirs {
      CudnnAttention attention;
      cuda::DeviceMemory workspace;
    };
    const std::int64_t bytes = attention.workspace_bytes();
    const auto theirs =
        std::make_shared<Theirs>(Theirs{std::move(attention), cuda::DeviceMemory(bytes, kToTimeAttention)});
    return engine_racer(
        candidate, text, timer_,
        [this, theirs] {
          theirs->attention.run(addresses(), pointer(theirs->workspace.address()), stream_.handle());
        },
        written());
  }

 private:
  static void* pointer(Address address) { return reinterpret_cast<void*>(address); }

  /// The results: output and lse, or dq, dk and dv.
  std::vector<WrittenMemory> written() const {
    std::vector<WrittenMemory> list;
    for (std::size_t i = gradient_ ? 6 : 3; i < (gradient_ ? 9 : 5); ++i)
      list.push_back({memory_[i].address(), memory_[i].bytes()});
    return list;
  }

  void run_ours() const {
    for (std::size_t i = 0; i < ours_.size(); ++i) {
      std::vector<Address> arguments;
      for (const std::int32_t buffer : trial_.launches()[i].buffers)
        arguments.push_back(memory_[static_cast<std::size_t>(buffer)].address());
      cuda::launch(ours_[i].function, ours_[i].grid, arguments, stream_, kToTimeAttention);
    }
  }

  codegen::AttentionMemory addresses() const {
    const auto at = [this](std::size_t i) {
      return i < memory_.size() ? pointer(memory_[i].address()) : nullptr;
    };
    return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8)};
  }

  const cuda::Stream& stream_;
  const bool gradient_;
  const AttentionTrial trial_;
  CudaKernels kernels_;
  std::vector<CudaKernel> ours_;
  std::vector<cuda::DeviceMemory> memory_;
  GraphTimer timer_;
};

/// Returns cuDNN's engines for a shape. If it has none, logs the reason and returns nullopt.
std::optional<CudnnAttention> engines_of(const DeviceAttentionShape& shape, CudaLibraries& libraries) {
  const auto none = [](LogLevel level, const std::exception& why) {
    write_log(level, fmt::format("our kernels compute attention: {}", why.what()));
    return std::nullopt;
  };
  try {
    return libraries.engines(shape);
  } catch (const UserError& missing) {
    return none(LogLevel::debug, missing);
  } catch (const codegen::UnsupportedGraph& refusal) {
    return none(LogLevel::debug, refusal);
  } catch (const RuntimeFailure& failure) {
    return none(LogLevel::warning, failure);
  }
}

std::optional<Racer> attention_racer(AttentionBench& bench, std::size_t candidate,
                                     const DeviceAttentionShape& shape, const std::string& text,
                                     CudaLibraries& libraries) {
  try {
    return bench.engine(candidate, libraries.engines(shape), text);
  } catch (const RuntimeFailure& failure) {
    write_log(LogLevel::warning, fmt::format("{} is not timed: {}", text, failure.what()));
    return std::nullopt;
  }
}

}  // namespace

void choose_attention(DevicePrograms& device, const CompileOptions& compiling, Tuner& tuner) {
  const std::vector<DeviceAttentionShape>& shapes = device.attention;
  const codegen::cuda::DeviceTarget target = target_of(device.context.facts(), tuner.record());
  CudaLibraries& libraries = device.libraries;
  const double before = tuner.seconds();
  const int untimed = tuner.out_of_time(), refused = tuner.refused();
  for (const DeviceAttentionShape& shape : shapes) {
    TimedChoice choice;
    choice.key = codegen::full_name(shape);
    choice.candidates = {std::string(kOwnKernels)};
    choice.labels = {std::string(kOwnKernels)};
    // cuDNN's list of engines, requested once. Listing builds no plan, which takes
    // seconds: only a run builds one.
    std::optional<std::vector<std::string>> known;
    const auto engines = [&]() -> const std::vector<std::string>& {
      if (!known) {
        const std::optional<CudnnAttention> attention = engines_of(shape, libraries);
        known = attention ? attention->engines() : std::vector<std::string>();
      }
      return *known;
    };
    choice.accepts = [&](const std::string& answer) {
      return answer == kOwnKernels || std::ranges::find(engines(), answer) != engines().end();
    };
    std::vector<std::string> texts;
    choice.more = [&](std::vector<std::string>& candidates, std::vector<std::string>& labels) {
      for (const std::string& text : engines()) {
        if (texts.size() == kTimedEngines) break;
        texts.push_back(text);
        candidates.push_back(text);
        labels.push_back(engine_label(text));
      }
    };
    choice.racers = [&] {
      const auto bench = std::make_shared<AttentionBench>(shape, target, compiling, device.stream);
      std::vector<Racer> racing = {bench->ours()};
      for (std::size_t i = 0; i < texts.size(); ++i) {
        if (auto racer = attention_racer(*bench, i + 1, shape, texts[i], libraries))
          racing.push_back(std::move(*racer));
      }
      for (Racer& racer : racing) racer.run = [bench, run = std::move(racer.run)] { return run(); };
      return racing;
    };
    choice.keep_untimed = false;
    choice.budget_seconds = kAttentionSeconds - (tuner.seconds() - before);
    tuner.choose(choice);
  }
  if (const int again = tuner.refused() - refused; again > 0)
    write_log(LogLevel::warning, fmt::format("cuDNN refuses {} recorded engines of attention here: they are "
                                             "chosen again, and the last bits of a step may change",
                                             again));
  if (const int left = tuner.out_of_time() - untimed; left > 0)
    write_log(LogLevel::warning, fmt::format("{} of {} attention shapes were not timed within {}: our "
                                             "kernels compute them this time",
                                             left, shapes.size(), tuner.limit_text(kAttentionSeconds)));
}

}  // namespace rewire::runtime
