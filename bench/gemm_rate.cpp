#include "bench/gemm_rate.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <thread>
#include <unordered_map>

#include "bench/timing.h"
#include "ir/error.h"
#include "runtime/exec/cpu/launches.h"
#include "runtime/exec/cpu/product_launch.h"

namespace rewire::bench {
namespace {

using codegen::GemmLaunch;
using codegen::View;
using dnnl::memory;

bool same_layout(const View& a, const View& b) {
  return a.shape == b.shape && a.strides == b.strides;
}

bool same(const GemmCount& a, const GemmCount& b) {
  return a.dtype == b.dtype && same_layout(a.launch.a, b.launch.a) && same_layout(a.launch.b, b.launch.b) &&
         same_layout(a.launch.c, b.launch.c) && a.launch.accumulate == b.launch.accumulate &&
         (a.launch.bias.buffer < 0) == (b.launch.bias.buffer < 0);
}

/// One more than the last element's index.
std::int64_t span_of(const View& view) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < view.shape.size(); ++d) last += (view.shape[d] - 1) * view.strides[d];
  return last + 1;
}

/// The launch alone, on buffers of its own.
codegen::Program alone(const GemmCount& gemm) {
  codegen::Program program;
  program.name = "gemm";
  for (const View* view : {&gemm.launch.a, &gemm.launch.b, &gemm.launch.c, &gemm.launch.bias}) {
    if (view->buffer < 0) continue;
    program.buffers.push_back(
        {"", codegen::BufferKind::temporary, ir::TensorType{gemm.dtype, {span_of(*view)}}, {}});
  }
  program.launches.emplace_back(gemm.launch);
  return program;
}

/// Small floats of both signs: zeros would multiply at another speed on some machines, and so would NaN.
void fill(const Memory& memory, const ir::TensorType& type) {
  if (type.dtype == ir::DType::f32) {
    auto* x = reinterpret_cast<float*>(memory.data());
    for (std::int64_t i = 0; i < type.elements(); ++i) x[i] = static_cast<float>(i % 97) / 64 - 0.75F;
  } else {
    auto* x = reinterpret_cast<std::uint16_t*>(memory.data());
    for (std::int64_t i = 0; i < type.elements(); ++i) x[i] = i % 2 == 0 ? 0x3F80 : 0xBF00;  // bf16 1, -0.5
  }
}

Seconds launch_seconds(runtime::CpuLaunch& launch, const std::vector<Memory>& buffers,
                       runtime::ThreadPool& pool) {
  runtime::BufferPointers pointers;
  for (const Memory& memory : buffers) pointers.push_back(memory.data());
  const Memory shared(static_cast<std::size_t>(std::max<std::int64_t>(launch.shared_bytes(), 64)));
  launch.bind(pointers);
  launch.lend(shared.data());
  std::vector<Memory> scratch;
  for (int worker = 0; worker < pool.threads(); ++worker)
    scratch.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(launch.scratch_bytes(), 64)));
  std::vector<std::int64_t> ends = launch.barriers();
  ends.push_back(launch.tasks());
  return measure_seconds([&] {
    std::int64_t first = 0;
    for (const std::int64_t until : ends) {
      pool.run(until - first, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t task = begin; task < end; ++task)
          launch.run(first + task, scratch[static_cast<std::size_t>(worker)].data());
      });
      first = until;
    }
  });
}

memory::desc describe_view(const View& view, std::size_t rank, memory::data_type type) {
  memory::dims shape(view.shape.begin(), view.shape.end()), strides(view.strides.begin(), view.strides.end());
  // oneDNN wants a stride that fits even where an extent of 1 makes it meaningless.
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) strides[d] = d + 1 < shape.size() ? shape[d + 1] * strides[d + 1] : 1;
  }
  while (shape.size() < rank) {
    strides.insert(strides.begin(), shape.front() * strides.front());
    shape.insert(shape.begin(), 1);
  }
  return {shape, type, strides};
}

dnnl::matmul make_matmul(const GemmLaunch& launch, const dnnl::engine& engine, const memory::desc& a,
                         const memory::desc& b, const memory::desc& bias, const memory::desc& c) {
  dnnl::primitive_attr attributes;
  if (launch.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0F);
    attributes.set_post_ops(post);
  }
  const bool biased = launch.bias.buffer >= 0;
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(biased ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes)
                             : dnnl::matmul::primitive_desc(engine, a, b, c, attributes));
#else
  const dnnl::matmul::desc op = biased ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return dnnl::matmul(dnnl::matmul::primitive_desc(op, attributes, engine));
#endif
}

Seconds library_seconds(const GemmCount& gemm, const std::vector<Memory>& buffers) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::data_type type =
      gemm.dtype == ir::DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  const std::size_t rank = gemm.launch.c.shape.size();
  const memory::desc a = describe_view(gemm.launch.a, rank, type),
                     b = describe_view(gemm.launch.b, rank, type),
                     c = describe_view(gemm.launch.c, rank, type);
  memory::desc bias;
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, memory(a, engine, buffers[0].data())},
                                               {DNNL_ARG_WEIGHTS, memory(b, engine, buffers[1].data())},
                                               {DNNL_ARG_DST, memory(c, engine, buffers[2].data())}};
  if (gemm.launch.bias.buffer >= 0) {
    bias = describe_view(gemm.launch.bias, rank, type);
    arguments.emplace(DNNL_ARG_BIAS, memory(bias, engine, buffers[3].data()));
  }
  const dnnl::matmul matmul = make_matmul(gemm.launch, engine, a, b, bias, c);
  return measure_seconds([&] {
    matmul.execute(stream, arguments);
    stream.wait();
  });
}

}  // namespace

std::vector<GemmCount> gemms_of(const codegen::Program& program) {
  std::vector<GemmCount> counts;
  for (const codegen::Launch& launch : program.launches) {
    const auto* gemm = std::get_if<GemmLaunch>(&launch);
    if (gemm == nullptr) continue;
    GemmCount next{*gemm, program.buffers[static_cast<std::size_t>(gemm->c.buffer)].type.dtype, 1, 0};
    next.flops = 2.0 * static_cast<double>(ir::element_count(gemm->c.shape)) *
                 static_cast<double>(gemm->a.shape.back());
    std::int32_t buffer = 0;
    for (View* view : {&next.launch.a, &next.launch.b, &next.launch.c, &next.launch.bias}) {
      view->offset = 0;
      if (view->buffer >= 0) view->buffer = buffer++;
    }
    const auto known =
        std::ranges::find_if(counts, [&](const GemmCount& other) { return same(other, next); });
    if (known == counts.end()) {
      counts.push_back(std::move(next));
    } else {
      ++known->count;
    }
  }
  return counts;
}

GemmTime measure_gemm(const GemmCount& gemm, runtime::ThreadPool& pool, const codegen::ProductCode& product) {
  const codegen::Program program = alone(gemm);
  std::vector<Memory> buffers;
  for (const codegen::Buffer& buffer : program.buffers) {
    buffers.emplace_back(static_cast<std::size_t>(buffer.type.bytes()));
    fill(buffers.back(), buffer.type);
  }
  GemmTime time;
  time.cut = launch_seconds(*runtime::make_cpu_launches(program, {}).front(), buffers, pool);
  time.own = runtime::takes_product(program, gemm.launch)
                 ? launch_seconds(*runtime::make_product_launch(gemm.launch, product), buffers, pool)
                 : time.cut;
  // On a thread of its own: the engine's GEMMs set their calling thread to one OpenMP thread, for good.
  std::exception_ptr failure;
  std::thread library([&] {
    try {
      omp_set_num_threads(pool.threads());
      time.library = library_seconds(gemm, buffers);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  library.join();
  if (failure) std::rethrow_exception(failure);
  return time;
}

}  // namespace rewire::bench
